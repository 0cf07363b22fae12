/* One poll loop, pump(), serves every wait: it writes what is to be written, and takes in stdout and stderr
 * whenever they have something. Replies are kept in a JSON object by their id, notifications in an array,
 * until somebody asks. */
#include "mcp_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/spawn.h"

#define OUTPUT_MAX (256 * MIB) /* unread bytes of the server's stdout */
#define LOG_MAX (64 * KIB)
#define READ_CHUNK (64 * KIB)

struct mcp {
    pid_t pid;
    int pidfd;
    int in, out, log_fd; /* the server's stdin, stdout, stderr; -1 once closed */
    struct buf bytes;    /* of stdout, not yet taken apart */
    size_t scanned;      /* of them: known to hold no newline */
    struct buf log;
    json_t *replies; /* id as text -> message */
    json_t *notifications;
    int64_t last_id;
};

static int start_process(struct mcp *m, const char *const *argv, char *const *env, struct error *err)
{
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    int result = 0;
    for (size_t i = 0; i < ARRAY_LEN(pipes) && result == 0; i++)
        if (pipe2(pipes[i], O_CLOEXEC) < 0)
            result = error_errno(err, ERR_UNAVAILABLE, errno, "pipe");
    if (result == 0) {
        int fds[] = {pipes[0][0], pipes[1][1], pipes[2][1]};
        struct spawn_request request = {.path = argv[0],
                                        .argv = (char *const *)argv,
                                        .env = env,
                                        .fds = fds,
                                        .fd_count = (int)ARRAY_LEN(fds)};
        result = spawn(&request, &m->pid, &m->pidfd, err);
    }
    fd_close(pipes[0][0]);
    fd_close(pipes[1][1]);
    fd_close(pipes[2][1]);
    m->in = pipes[0][1];
    m->out = pipes[1][0];
    m->log_fd = pipes[2][0];
    return result;
}

struct mcp *mcp_start(const char *const *argv, char *const *env, struct error *err)
{
    _cleanup_(cleanup_mcp_free) struct mcp *m = xcalloc(1, sizeof *m);
    m->in = m->out = m->log_fd = m->pidfd = -1;
    m->bytes.max = OUTPUT_MAX;
    m->log.max = 2 * LOG_MAX;
    m->replies = json_object();
    m->notifications = json_array();
    signal(SIGPIPE, SIG_IGN);
    if (start_process(m, argv, env, err) < 0)
        return NULL;
    fd_set_nonblocking(m->in, true);
    fd_set_nonblocking(m->out, true);
    fd_set_nonblocking(m->log_fd, true);
    return TAKE_PTR(m);
}

struct mcp *mcp_free(struct mcp *m)
{
    if (!m)
        return NULL;
    if (m->pid > 0) {
        (void)kill(m->pid, SIGKILL);
        (void)waitpid(m->pid, NULL, 0);
    }
    fd_close(m->in);
    fd_close(m->out);
    fd_close(m->log_fd);
    fd_close(m->pidfd);
    buf_done(&m->bytes);
    buf_done(&m->log);
    json_decref(m->replies);
    json_decref(m->notifications);
    free(m);
    return NULL;
}

pid_t mcp_pid(const struct mcp *m)
{
    return m->pid;
}

const json_t *mcp_notifications(const struct mcp *m)
{
    return m->notifications;
}

/* Takes what *fd has at this moment; closes it at its end. -1: no room, or a real error. */
static int take_in(int *fd, struct buf *b)
{
    for (;;) {
        if (buf_reserve(b, READ_CHUNK) < 0)
            return -1;
        ssize_t n = read(*fd, b->data + b->len, READ_CHUNK);
        if (n > 0) {
            b->len += (size_t)n;
            if ((size_t)n < READ_CHUNK)
                return 0;
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return 0;
        } else {
            *fd = fd_close(*fd);
            return n == 0 ? 0 : -1;
        }
    }
}

static void take_log(struct mcp *m)
{
    if (m->log_fd >= 0 && take_in(&m->log_fd, &m->log) == 0 && m->log.len > LOG_MAX)
        buf_consume(&m->log, m->log.len - LOG_MAX);
}

const char *mcp_log(struct mcp *m)
{
    take_log(m);
    if (m->log.len == 0 || buf_reserve(&m->log, 1) < 0)
        return "";
    m->log.data[m->log.len] = '\0';
    return m->log.data;
}

/* Waits until something happened, and takes it in. writing: ready to write counts as something. */
static int pump(struct mcp *m, bool writing, int64_t deadline, struct error *err)
{
    struct pollfd fds[] = {
        {.fd = m->out, .events = POLLIN},
        {.fd = m->log_fd, .events = POLLIN},
        {.fd = writing ? m->in : -1, .events = POLLOUT},
    };
    int n = poll(fds, ARRAY_LEN(fds), clock_poll_timeout(deadline));
    if (n < 0)
        return errno == EINTR ? 0 : error_errno(err, ERR_INTERNAL, errno, "poll");
    if (n == 0)
        return error_set(err, ERR_TIMEOUT, "the server said nothing in time");
    if (fds[1].revents)
        take_log(m);
    if (fds[0].revents && take_in(&m->out, &m->bytes) < 0)
        return error_set(err, ERR_LIMIT, "more than %lu MiB of unread output", OUTPUT_MAX / MIB);
    return 0;
}

int mcp_send(struct mcp *m, const char *bytes, size_t n, struct error *err)
{
    int64_t deadline = clock_deadline_after(60);
    while (n > 0) {
        ssize_t w = write(m->in, bytes, n);
        if (w > 0) {
            bytes += w;
            n -= (size_t)w;
        } else if (errno != EAGAIN && errno != EINTR) {
            return error_errno(err, ERR_GONE, errno, "write to the server");
        } else if (pump(m, true, deadline, err) < 0) {
            return -1;
        }
    }
    return 0;
}

static int send_message(struct mcp *m, json_t *message, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *owned = message;
    _cleanup_(cleanup_free) char *text = json_dumps(owned, JSON_COMPACT);
    if (!text)
        return error_set(err, ERR_INVALID, "the message can't be written as JSON");
    size_t n = strlen(text);
    text[n] = '\n'; /* in the place of the NUL */
    return mcp_send(m, text, n + 1, err);
}

int mcp_request(struct mcp *m, const char *method, json_t *params, int64_t *ret_id, struct error *err)
{
    int64_t id = ++m->last_id;
    json_t *message = json_pack("{s:s, s:I, s:s, s:o*}", "jsonrpc", "2.0", "id", (json_int_t)id, "method",
                                method, "params", params);
    if (send_message(m, message, err) < 0)
        return -1;
    *ret_id = id;
    return 0;
}

int mcp_notify(struct mcp *m, const char *method, json_t *params, struct error *err)
{
    return send_message(
        m, json_pack("{s:s, s:s, s:o*}", "jsonrpc", "2.0", "method", method, "params", params), err);
}

/* Sorts one line into replies or notifications. */
static int take_line(struct mcp *m, const char *line, size_t n, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *message = json_parse(line, n, err);
    if (!message)
        return error_prefix(err, "the server wrote what isn't JSON");
    const json_t *id = json_object_get(message, "id");
    if (json_is_integer(id)) {
        char key[24];
        (void)snprintf(key, sizeof key, "%lld", (long long)json_integer_value(id));
        json_object_set(m->replies, key, message);
    } else {
        json_array_append(m->notifications, message);
    }
    return 0;
}

static int take_lines(struct mcp *m, struct error *err)
{
    char *newline;
    while (m->bytes.len > m->scanned &&
           (newline = memchr(m->bytes.data + m->scanned, '\n', m->bytes.len - m->scanned))) {
        size_t n = (size_t)(newline - m->bytes.data);
        int result = take_line(m, m->bytes.data, n, err);
        buf_consume(&m->bytes, n + 1);
        m->scanned = 0;
        if (result < 0)
            return -1;
    }
    m->scanned = m->bytes.len;
    return 0;
}

json_t *mcp_wait(struct mcp *m, int64_t id, int64_t deadline, struct error *err)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%lld", (long long)id);
    for (;;) {
        if (take_lines(m, err) < 0)
            return NULL;
        json_t *reply = json_incref(json_object_get(m->replies, key));
        if (reply) {
            json_object_del(m->replies, key);
            return reply;
        }
        if (m->out < 0) {
            error_set(err, ERR_GONE, "the server closed its output. Its last words: %s", mcp_log(m));
            return NULL;
        }
        if (pump(m, false, deadline, err) < 0)
            return NULL;
    }
}

json_t *mcp_call(struct mcp *m, const char *method, json_t *params, double seconds, struct error *err)
{
    int64_t id;
    if (mcp_request(m, method, params, &id, err) < 0)
        return NULL;
    _cleanup_(cleanup_json_decref) json_t *reply = mcp_wait(m, id, clock_deadline_after(seconds), err);
    if (!reply) {
        error_prefix(err, "%s", method);
        return NULL;
    }
    json_t *result = json_object_get(reply, "result");
    if (!result) {
        const char *why = json_get_string(json_get_object(reply, "error"), "message");
        error_set(err, ERR_INVALID, "%s: %s", method, why ? why : "a reply without result and error");
        return NULL;
    }
    return json_incref(result);
}

json_t *mcp_initialize(struct mcp *m, double seconds, struct error *err)
{
    json_t *params = json_pack("{s:s, s:{}, s:{s:s, s:s}}", "protocolVersion", MCP_PROTOCOL, "capabilities",
                               "clientInfo", "name", "c-client", "version", "1");
    json_t *result = mcp_call(m, "initialize", params, seconds, err);
    if (result && mcp_notify(m, "notifications/initialized", NULL, err) < 0) {
        json_decref(result);
        return NULL;
    }
    return result;
}

static const char *member_text(const json_t *object, const char *member)
{
    const char *s = json_string_value(json_object_get(object, member));
    return s ? s : "";
}

int mcp_tool(struct mcp *m, const char *tool, json_t *arguments, double seconds, struct mcp_tool_result *ret,
             struct error *err)
{
    int64_t start = clock_now();
    json_t *params = json_pack("{s:s, s:o}", "name", tool, "arguments", arguments);
    json_t *result = mcp_call(m, "tools/call", params, seconds, err);
    if (!result)
        return -1;
    const json_t *data = json_get_object(result, "structuredContent");
    const json_t *code = json_object_get(data, "exit_code");
    *ret = (struct mcp_tool_result){
        .result = result,
        .data = data,
        .is_error = json_is_true(json_object_get(result, "isError")),
        .text = member_text(json_array_get(json_object_get(result, "content"), 0), "text"),
        .out = member_text(data, "stdout"),
        .err = member_text(data, "stderr"),
        .exit_code = json_is_integer(code) ? (int)json_integer_value(code) : -1,
        .took_ns = clock_now() - start,
    };
    return 0;
}

void mcp_tool_result_done(struct mcp_tool_result *r)
{
    json_decref(r->result);
    *r = (struct mcp_tool_result){.result = NULL};
}

int mcp_round_trip(struct mcp *m, const char *line, size_t n, double seconds, struct buf *reply,
                   int64_t *ret_ns, struct error *err)
{
    take_log(m);
    buf_clear(&m->bytes);
    m->scanned = 0;
    if (buf_reserve(&m->bytes, 2 * READ_CHUNK) < 0)
        return error_set(err, ERR_LIMIT, "no memory for a reply");
    int64_t start = clock_now();
    int64_t deadline = clock_deadline_after(seconds);
    if (mcp_send(m, line, n, err) < 0)
        return -1;
    while (m->bytes.len == 0 || m->bytes.data[m->bytes.len - 1] != '\n') {
        if (m->out < 0)
            return error_set(err, ERR_GONE, "the server closed its output. Its last words: %s", mcp_log(m));
        if (pump(m, false, deadline, err) < 0)
            return -1;
    }
    *ret_ns = clock_now() - start;
    buf_move(reply, &m->bytes);
    return 0;
}

int mcp_end(struct mcp *m, double seconds, int *ret_status, struct error *err)
{
    int64_t deadline = clock_deadline_after(seconds);
    m->in = fd_close(m->in);
    while (m->out >= 0 && pump(m, false, deadline, err) == 0)
        if (take_lines(m, err) < 0)
            return -1;
    struct pollfd ended = {.fd = m->pidfd, .events = POLLIN};
    if (poll(&ended, 1, clock_poll_timeout(deadline)) <= 0)
        return error_set(err, ERR_TIMEOUT, "the server didn't end within %g s of its input's end", seconds);
    if (waitpid(m->pid, ret_status, 0) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "waitpid");
    take_log(m);
    m->pid = 0;
    return 0;
}
