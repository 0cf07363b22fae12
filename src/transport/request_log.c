/* Headers and bodies are not in it: they may hold secrets. */
#include "transport/request_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sink.h"

#define LINE_BYTES (32 * KIB) /* a path can have so many */

struct request_log {
    char *path; /* NULL: standard error */
    struct sink out;
    uint64_t lost;
};

int request_log_reopen(struct request_log *log, struct error *err)
{
    struct sink fresh;
    if (sink_open(&fresh, log->path) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "Can't write to %s (--access-log)", log->path);
    sink_close(&log->out);
    log->out = fresh;
    return 0;
}

struct request_log *request_log_new(const char *path, struct error *err)
{
    struct request_log *log = xcalloc(1, sizeof(*log));
    log->path = strcmp(path, "-") == 0 ? NULL : xstrdup(path);
    log->out = (struct sink)SINK_INIT;
    return request_log_reopen(log, err) < 0 ? request_log_free(log) : log;
}

struct request_log *request_log_free(struct request_log *log)
{
    if (!log)
        return NULL;
    sink_close(&log->out);
    free(log->path);
    free(log);
    return NULL;
}

static void write_members(struct json_writer *w, const struct http_request *r, const char *principal,
                          bool sent)
{
    char time[CLOCK_RFC3339_SIZE];
    jw_key(w, "time");
    jw_string(w, clock_rfc3339(clock_wall(), time));
    jw_key(w, "peer");
    jw_string(w, http_request_peer(r));
    if (principal) {
        jw_key(w, "principal");
        jw_string(w, principal);
    }
    jw_key(w, "method");
    jw_string(w, http_request_method(r));
    jw_key(w, "path");
    jw_string(w, http_request_path(r));
    jw_key(w, "status");
    jw_integer(w, http_request_status(r));
    jw_key(w, "bytes");
    jw_integer(w, (int64_t)http_request_answered(r));
    jw_key(w, "ms");
    jw_real(w, (double)http_request_age(r) / NSEC_PER_MSEC);
    jw_key(w, "complete");
    jw_bool(w, sent);
}

void request_log_write(struct request_log *log, const struct http_request *r, const char *principal,
                       bool sent)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT(LINE_BYTES);
    struct json_writer w;
    jw_init(&w, &line);
    jw_begin_object(&w);
    write_members(&w, r, principal, sent);
    if (log->lost > 0) {
        jw_key(&w, "lost_lines");
        jw_integer(&w, (int64_t)log->lost);
    }
    jw_end_object(&w);
    const bool written =
        !w.failed && buf_append_byte(&line, '\n') == 0 && sink_write(&log->out, line.data, line.len);
    log->lost = written ? 0 : log->lost + 1;
}
