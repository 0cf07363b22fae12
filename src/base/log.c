/* The log. A line is at most PIPE_BUF bytes and goes out in one write that can't block (sink.h).
 * What a message quotes may come from a client or a sandbox: control characters and bytes that are not UTF-8
 * are escaped, so that nobody can forge a line or move the cursor of a terminal. */
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/sink.h"
#include "base/utf8.h"

_Static_assert(LIMIT_LOG_LINE_BYTES <= PIPE_BUF, "a longer write to a pipe may be torn or block");

static const char *const level_names[] = {"error", "warning", "info", "debug"};

static struct {
    char program[64];
    _Atomic enum log_level level;
    bool json;
    _Atomic uint64_t dropped;
    /* Guards what follows, and the order of lines; held across writes that can't block. */
    pthread_mutex_t lock;
    struct sink out;
    uint64_t untold; /* of dropped */
} sink = {.level = LOG_WARNING, .lock = PTHREAD_MUTEX_INITIALIZER, .out = SINK_INIT};

/* One line in the making. What doesn't fit any more is cut. */
struct line {
    char text[LIMIT_LOG_LINE_BYTES];
    size_t len;
};

#define CUT_MARK "..."
#define TAIL_ROOM 128 /* kept free for the mark and for what follows the message: quotes, the newline */

static void put(struct line *l, const char *fmt, ...) _printf_(2, 3);
static void put(struct line *l, const char *fmt, ...)
{
    size_t room = sizeof(l->text) - l->len;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(l->text + l->len, room, fmt, ap);
    va_end(ap);
    if (n > 0)
        l->len += (size_t)n < room ? (size_t)n : room - 1;
}

/* The form in which one character, or one ill-formed byte sequence, may stand in a line. */
static size_t escape(const unsigned char *c, size_t n, bool valid, char ret[32])
{
    bool is_c1_control = n == 2 && c[0] == 0xC2 && c[1] < 0xA0;
    bool plain = valid && !is_c1_control && c[0] >= 0x20 && c[0] != 0x7F;
    if (plain && !(sink.json && (*c == '"' || *c == '\\'))) {
        memcpy(ret, c, n);
        return n;
    }
    const char *named = valid && n == 1 ? strchr("\nn\tt\rr\"\"\\\\", *c) : NULL;
    if (named && *c)
        return (size_t)snprintf(ret, 32, "\\%c", named[1]);
    if (sink.json)
        return (size_t)snprintf(ret, 32, valid ? "\\u%04x" : "\\ufffd", is_c1_control ? c[1] : *c);
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(ret + len, 32 - len, "\\x%02x", c[i]);
    return len;
}

static void put_escaped(struct line *l, const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    for (size_t n = strlen(s); n > 0;) {
        bool valid;
        char form[32];
        size_t used = utf8_next(p, n, &valid), len = escape(p, used, valid, form);
        if (l->len + len > sizeof(l->text) - TAIL_ROOM) {
            put(l, CUT_MARK);
            return;
        }
        memcpy(l->text + l->len, form, len);
        l->len += len;
        p += used;
        n -= used;
    }
}

static void format(struct line *l, enum log_level level, const char *file, int line, const char *msg)
{
    if (sink.json) {
        char time[CLOCK_RFC3339_SIZE];
        put(l, "{\"time\":\"%s\",\"level\":\"%s\",", clock_rfc3339(clock_wall(), time), level_names[level]);
        if (level == LOG_DEBUG)
            put(l, "\"file\":\"%.80s\",\"line\":%d,", path_basename(file), line);
        put(l, "\"message\":\"");
        put_escaped(l, msg);
        put(l, "\"}\n");
        return;
    }
    put(l, "%s%s%s: ", sink.program, *sink.program ? ": " : "", level_names[level]);
    if (level == LOG_DEBUG)
        put(l, "%.80s:%d: ", path_basename(file), line);
    put_escaped(l, msg);
    put(l, "\n");
}

static bool tell_drops(void)
{
    if (sink.untold == 0)
        return true;
    char msg[64];
    struct line l = {.len = 0};
    snprintf(msg, sizeof(msg), "%llu log lines were dropped", (unsigned long long)sink.untold);
    format(&l, LOG_WARNING, "", 0, msg);
    if (!sink_write(&sink.out, l.text, l.len))
        return false;
    sink.untold = 0;
    return true;
}

void log_msg(enum log_level level, const char *file, int line, const char *fmt, ...)
{
    if (level > atomic_load_explicit(&sink.level, memory_order_relaxed))
        return;
    int saved = errno;
    char msg[LIMIT_LOG_LINE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    struct line l;
    l.len = 0;
    format(&l, level, file, line, msg);

    pthread_mutex_lock(&sink.lock);
    if (!tell_drops() || !sink_write(&sink.out, l.text, l.len)) {
        sink.untold++;
        atomic_fetch_add(&sink.dropped, 1);
    }
    pthread_mutex_unlock(&sink.lock);
    errno = saved;
}

uint64_t log_dropped(void)
{
    return atomic_load(&sink.dropped);
}

int log_open(const char *program, enum log_level level, bool json, const char *path, struct error *err)
{
    log_close();
    if (sink_open(&sink.out, path) < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "open log file %s", path);
    snprintf(sink.program, sizeof(sink.program), "%s", program);
    atomic_store(&sink.level, level);
    sink.json = json;
    return 0;
}

void log_close(void)
{
    sink_close(&sink.out);
    sink.untold = 0;
}
