/* Single measurements, of a program or of a call: see measure.h. */
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"

#define CALL_SECONDS 300.0
#define START_SECONDS 60.0
#define PROGRAMS_MAX 64
#define SETTLED_MIB 0.25
#define SETTLE_TRIES 40

void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "\nbench: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    exit(2);
}

static double ms_since(int64_t start)
{
    return (double)(clock_now() - start) / NSEC_PER_MSEC;
}

void series_add(struct series *s, double value)
{
    if (s->count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 128;
        s->values = xrealloc_array(s->values, s->cap, sizeof *s->values);
    }
    s->values[s->count++] = value;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A sorted copy of values[from .. to). */
static double *sort(const struct series *s, size_t from, size_t to)
{
    if (from >= to || to > s->count)
        die("no samples");
    double *sorted = xmalloc((to - from) * sizeof *sorted);
    memcpy(sorted, s->values + from, (to - from) * sizeof *sorted);
    qsort(sorted, to - from, sizeof *sorted, compare_doubles);
    return sorted;
}

double series_percentile(const struct series *s, double percent)
{
    _cleanup_(cleanup_free) double *sorted = sort(s, 0, s->count);
    return sorted[(size_t)((double)(s->count - 1) * percent / 100)];
}

double series_median_of(const struct series *s, size_t from, size_t to)
{
    _cleanup_(cleanup_free) double *sorted = sort(s, from, to);
    size_t n = to - from;
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double series_median(const struct series *s)
{
    return series_median_of(s, 0, s->count);
}

void series_done(struct series *s)
{
    free(s->values);
    *s = (struct series){.values = NULL};
}

static pid_t start_program(const char *const *argv, int out)
{
    pid_t pid = vfork();
    if (pid == 0) {
        (void)signal(SIGPIPE, SIG_DFL); /* the client library ignores it */
        if (dup2(out, STDOUT_FILENO) >= 0)
            execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    if (pid < 0)
        die("vfork: %s", strerror(errno));
    return pid;
}

static void wait_program(pid_t pid, const char *name)
{
    int status;
    if (waitpid(pid, &status, 0) < 0 || status != 0)
        die("%s failed with status 0x%x", name, (unsigned)status);
}

double measure_program(const char *const *argv, bool capture)
{
    int pipe_fds[2] = {-1, -1};
    char bytes[256];
    int64_t start = clock_now();
    if (capture && pipe2(pipe_fds, O_CLOEXEC) < 0)
        die("pipe: %s", strerror(errno));
    pid_t pid = start_program(argv, capture ? pipe_fds[1] : STDOUT_FILENO);
    fd_close(pipe_fds[1]);
    while (capture && read(pipe_fds[0], bytes, sizeof bytes) > 0)
        ;
    wait_program(pid, argv[0]);
    double ms = ms_since(start);
    fd_close(pipe_fds[0]);
    return ms;
}

char *program_why_not(const char *const *argv)
{
    int status;
    _cleanup_fd_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    pid_t pid = start_program(argv, null);
    if (waitpid(pid, &status, 0) < 0)
        die("wait for %s: %s", argv[0], strerror(errno));
    if (status == 0)
        return NULL;
    return WIFEXITED(status) && WEXITSTATUS(status) == 127
               ? xasprintf("%s is not installed", argv[0])
               : xasprintf("%s doesn't work here: status 0x%x", argv[0], (unsigned)status);
}

double measure_programs(const char *const *argv, int count)
{
    pid_t pids[PROGRAMS_MAX];
    _cleanup_fd_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int64_t start = clock_now();
    for (int i = 0; i < count; i++)
        pids[i] = start_program(argv, null);
    for (int i = 0; i < count; i++)
        wait_program(pids[i], argv[0]);
    return ms_since(start);
}

void subject_start(struct subject *s, const char *program, const char *const *args)
{
    struct error err = ERROR_INIT;
    const char *argv[16] = {program};
    for (size_t i = 0; args[i] && i + 2 < ARRAY_LEN(argv); i++)
        argv[i + 1] = args[i];
    static const char hello[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
        "\"" MCP_PROTOCOL "\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n";
    _cleanup_(buf_done) struct buf reply = BUF_INIT(MIB);
    int64_t start = clock_now(), ns;
    *s = (struct subject){.mcp = mcp_start(argv, environ, &err), .last_id = 1};
    if (!s->mcp || mcp_round_trip(s->mcp, hello, sizeof hello - 1, START_SECONDS, &reply, &ns, &err) < 0)
        die("start %s: %s", program, err.msg);
    s->initialize_ms = ms_since(start);
    if (!strstr(buf_str(&reply), "\"serverInfo\""))
        die("%s: initialize: %s", program, buf_str(&reply));
}

static void append_call(struct subject *s, struct buf *line, const char *tool, const char *arguments)
{
    if (buf_printf(line,
                   "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
                   "\"arguments\":%s}}\n",
                   ++s->last_id, tool, arguments) < 0)
        die("the request is too long");
}

/* A peer without structured content says the same inside a text, with the quotes escaped and blanks between.
 */
static bool is_success(const char *reply)
{
    return strstr(reply, "\"isError\":false") &&
           (!strstr(reply, "exit_code") || strstr(reply, "exit_code\":0") ||
            strstr(reply, "exit_code\\\": 0") || strstr(reply, "exit_code\": 0"));
}

double subject_call(struct subject *s, const char *tool, const char *arguments, bool first)
{
    struct error err = ERROR_INIT;
    _cleanup_(buf_done) struct buf line = BUF_INIT(MIB), reply = BUF_INIT(64 * MIB);
    int64_t ns;
    if (first &&
        buf_append_str(&line, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n") < 0)
        die("the request is too long");
    append_call(s, &line, tool, arguments);
    if (mcp_round_trip(s->mcp, line.data, line.len, CALL_SECONDS, &reply, &ns, &err) < 0)
        die("%s %s: %s", tool, arguments, err.msg);
    if (!is_success(buf_str(&reply)))
        die("%s %s: %.1000s\n%s", tool, arguments, buf_str(&reply), mcp_log(s->mcp));
    return (double)ns / NSEC_PER_MSEC;
}

void subject_do(struct subject *s, const char *tool, const char *arguments)
{
    (void)subject_call(s, tool, arguments, false);
}

static void send_calls(struct subject *s, const struct buf *lines)
{
    struct error err = ERROR_INIT;
    if (mcp_send(s->mcp, lines->data, lines->len, &err) < 0)
        die("%s", err.msg);
}

static void await_call(struct subject *s, long id, const char *tool)
{
    struct error err = ERROR_INIT;
    json_t *reply = mcp_wait(s->mcp, id, clock_deadline_after(CALL_SECONDS), &err);
    if (!reply || !json_is_false(json_object_get(json_object_get(reply, "result"), "isError")))
        die("%s: %s", tool, reply ? json_dumps(reply, 0) : err.msg);
    json_decref(reply);
}

static void send_making(struct subject *s, const char *tool, bool temporary, int number)
{
    char arguments[160];
    _cleanup_(buf_done) struct buf line = BUF_INIT(MIB);
    (void)snprintf(arguments, sizeof arguments,
                   "{\"args\":[\"/bin/true\"],\"computer_id\":\"computer-%d\",\"temporary\":%s}", number,
                   temporary ? "true" : "false");
    append_call(s, &line, tool, arguments);
    send_calls(s, &line);
}

double subject_make_computers(struct subject *s, const char *tool, bool temporary, int first, int end,
                              int at_a_time)
{
    long first_id = s->last_id + 1;
    int64_t start = clock_now();
    for (int i = first; i < end + at_a_time; i++) {
        if (i >= first + at_a_time)
            await_call(s, first_id + (i - first) - at_a_time, tool);
        if (i < end)
            send_making(s, tool, temporary, i);
    }
    return ms_since(start);
}

double subject_calls(struct subject *s, const char *tool, const char *arguments, int count)
{
    _cleanup_(buf_done) struct buf lines = BUF_INIT(MIB);
    long first_id = s->last_id + 1;
    for (int i = 0; i < count; i++)
        append_call(s, &lines, tool, arguments);
    int64_t start = clock_now();
    send_calls(s, &lines);
    for (int i = 0; i < count; i++)
        await_call(s, first_id + i, tool);
    return ms_since(start);
}

static double read_field_mib(const char *path, const char *field)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(64 * KIB);
    char key[32];
    (void)snprintf(key, sizeof key, "\n%s:", field);
    if (file_read(AT_FDCWD, path, &text, NULL) < 0)
        die("read %s: %s", path, strerror(errno));
    const char *at = strstr(buf_str(&text), key);
    if (!at)
        die("%s has no %s", path, field);
    return strtod(at + strlen(key), NULL) / 1024;
}

double subject_memory_mib(const struct subject *s, const char *field)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)mcp_pid(s->mcp));
    return read_field_mib(path, field);
}

double subject_cpu_ms(const struct subject *s)
{
    clockid_t its;
    struct timespec used;
    if (clock_getcpuclockid(mcp_pid(s->mcp), &its) != 0 || clock_gettime(its, &used) < 0)
        die("can't read the processor time of the server");
    return (double)used.tv_sec * 1000 + (double)used.tv_nsec / NSEC_PER_MSEC;
}

double subject_end(struct subject *s, double seconds)
{
    struct error err = ERROR_INIT;
    int status = 0;
    int64_t start = clock_now();
    if (mcp_end(s->mcp, seconds, &status, &err) < 0)
        die("%s", err.msg);
    double ms = ms_since(start);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) /* 1: computers are left to the next server */
        die("the server ended with status 0x%x: %s", (unsigned)status, mcp_log(s->mcp));
    s->mcp = mcp_free(s->mcp);
    return ms;
}

double machine_available_mib(void)
{
    double last = read_field_mib("/proc/meminfo", "MemAvailable");
    for (int i = 0; i < SETTLE_TRIES; i++) {
        (void)poll(NULL, 0, 50); /* the kernel frees in its own time; nothing tells when */
        double now = read_field_mib("/proc/meminfo", "MemAvailable");
        if (now - last < SETTLED_MIB && last - now < SETTLED_MIB)
            return now;
        last = now;
    }
    return last;
}
