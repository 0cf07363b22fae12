/* The server runs in a thread of its own, on the loop; the test is the client, with blocking reads and
 * writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../protocol/doubles.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "transport/stdio.h"

#define WATCHDOG_MS 60000
#define PING(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"ping\"}"
#define PONG(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{}}"
#define INITIALIZE                                                                                           \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-"     \
    "25\"}}"
#define TOO_LONG                                                                                             \
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"Invalid request: a message "  \
    "is "                                                                                                    \
    "longer than 24 MiB\"}}"

struct server {
    int in, out; /* what it is started with */
    pthread_t thread;
    struct toolset *toolset;
    struct loop *loop;
    struct stdio *stdio;
    int ends;
    bool started;
    sem_t answered; /* calls that have come to their end */
};

static void on_closed(void *arg, const char *left_behind)
{
    struct server *s = arg;
    assert(!left_behind);
    loop_stop(s->loop);
}

static void on_end(void *arg)
{
    struct server *s = arg;
    s->ends++;
    session_close(stdio_session(s->stdio), DEADLINE_NONE, on_closed, s);
}

static void on_call(void *arg, const struct call_report *report)
{
    struct server *s = arg;
    sem_post(&s->answered);
}

static void *serve(void *arg)
{
    struct server *s = arg;
    struct computers_double record = {0};
    struct computers *computers = computers_double_new(&record);
    struct pool *pool = pool_new(8, 64);
    s->loop = loop_new(NULL);
    struct protocol *protocol = protocol_new(&(struct protocol_options){
        .loop = s->loop,
        .pool = pool,
        .toolset = s->toolset,
        .computers = computers,
        .server_name = "test",
        .server_version = "1",
        .on_call = on_call,
        .ctx = s,
    });
    s->stdio = stdio_new(s->loop, protocol, s->in, s->out, on_end, s, NULL);
    s->started = s->stdio;
    if (s->stdio)
        loop_run(s->loop);
    stdio_free(s->stdio);
    pool_close(pool, DEADLINE_NONE);
    pool_free(pool);
    protocol_free(protocol);
    computers_double_free(computers);
    loop_free(s->loop);
    return NULL;
}

static struct server *start(int in, int out)
{
    struct server *s = xcalloc(1, sizeof(*s));
    s->in = in;
    s->out = out;
    s->toolset = toolset_double_new();
    assert_int_equal(sem_init(&s->answered, 0, 0), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
    return s;
}

/* Waits for the server's own end. */
static void join(struct server *s)
{
    alarm(WATCHDOG_MS / 1000);
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    alarm(0);
    assert_true(s->started);
    assert_int_equal(s->ends, 1);
    toolset_free(s->toolset);
    sem_destroy(&s->answered);
    close(s->in);
    close(s->out);
    free(s);
}

/* A client's ends, and the server's. */
struct wires {
    int to, from;
    int in, out;
    struct buf ahead; /* what was read, and is not used yet */
};

static struct wires pipes(void)
{
    int a[2], b[2];
    assert_int_equal(pipe2(a, O_CLOEXEC), 0);
    assert_int_equal(pipe2(b, O_CLOEXEC), 0);
    return (struct wires){
        .to = a[1], .from = b[0], .in = a[0], .out = b[1], .ahead = BUF_INIT(LIMIT_SEND_QUEUE_BYTES)};
}

static struct wires sockets(void)
{
    int a[2], b[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, b), 0);
    return (struct wires){
        .to = a[0], .from = b[0], .in = a[1], .out = b[1], .ahead = BUF_INIT(LIMIT_SEND_QUEUE_BYTES)};
}

static void tell(const struct wires *w, const char *text)
{
    assert_int_equal(fd_write_all(w->to, text, strlen(text)), 0);
}

static void await_input(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, WATCHDOG_MS) != 1)
        fail_msg("no output for %d ms", WATCHDOG_MS);
}

/* Up to the line's end, which is cut off; NULL at the end of the output. */
static char *read_line(struct wires *w)
{
    char *line_end = NULL;
    for (size_t seen = 0; !line_end;) {
        assert_int_equal(buf_reserve(&w->ahead, 64 * KIB), 0);
        if (seen == w->ahead.len) {
            await_input(w->from);
            ssize_t n = read(w->from, w->ahead.data + w->ahead.len, 64 * KIB);
            assert_true(n >= 0);
            if (n == 0)
                break;
            w->ahead.len += (size_t)n;
        }
        line_end = memchr(w->ahead.data + seen, '\n', w->ahead.len - seen);
        seen = w->ahead.len;
    }
    if (!line_end) {
        assert_int_equal(w->ahead.len, 0);
        buf_done(&w->ahead);
        return NULL;
    }
    size_t n = (size_t)(line_end - w->ahead.data);
    char *line = xstrndup(w->ahead.data, n);
    buf_consume(&w->ahead, n + 1);
    return line;
}

static void expect(struct wires *w, const char *want)
{
    char *got = read_line(w);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

static void ask(struct wires *w, const char *request, const char *reply)
{
    tell(w, request);
    expect(w, reply);
}

/* The client goes; the server says nothing more and ends. */
static void hang_up(struct wires *w, struct server *s)
{
    close(w->to);
    join(s);
    assert_null(read_line(w));
    close(w->from);
    buf_done(&w->ahead);
}

static void lines_are_served(struct wires w)
{
    struct server *s = start(w.in, w.out);
    ask(&w, PING("1") "\n", PONG("1"));
    ask(&w, PING("2") "\r\n", PONG("2"));
    ask(&w, "\n\r\n  \t\n" PING("3") "\n", PONG("3"));
    tell(&w, PING("4") "\n" PING("5") "\n" PING("6") "\n{\"jsonrpc\":");
    expect(&w, PONG("4"));
    expect(&w, PONG("5"));
    expect(&w, PONG("6"));
    tell(&w, "\"2.0\",\"id\":7,\"method\":");
    ask(&w, "\"ping\"}\n", PONG("7"));
    hang_up(&w, s);
}

static void lines_are_served_over_pipes(void **state)
{
    lines_are_served(pipes());
}

static void lines_are_served_over_sockets(void **state)
{
    lines_are_served(sockets());
}

static void one_socket_serves_both_ways(void **state)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct wires w = {
        .to = pair[0], .from = pair[0], .in = pair[1], .out = dup(pair[1]), .ahead = BUF_INIT(MIB)};
    struct server *s = start(w.in, w.out);
    ask(&w, PING("1") "\n", PONG("1"));
    assert_int_equal(shutdown(pair[0], SHUT_WR), 0);
    join(s);
    close(pair[0]);
    buf_done(&w.ahead);
}

static void files_are_served(void **state)
{
    char in_path[] = "/tmp/test_stdio.XXXXXX", out_path[] = "/tmp/test_stdio.XXXXXX", got[256] = "";
    int in = mkstemp(in_path), out = mkstemp(out_path), result = dup(out);
    const char *requests = PING("1") "\n" PING("2"); /* the last line has no end */
    assert_int_equal(fd_write_all(in, requests, strlen(requests)), 0);
    assert_int_equal(lseek(in, 0, SEEK_SET), 0);
    join(start(in, out));
    assert_true(pread(result, got, sizeof(got) - 1, 0) > 0);
    assert_string_equal(got, PONG("1") "\n" PONG("2") "\n");
    close(result);
    unlink(in_path);
    unlink(out_path);
}

static void no_input_at_all_ends_the_server(void **state)
{
    struct wires w = pipes();
    struct server *s = start(open("/dev/null", O_RDONLY | O_CLOEXEC), dup(w.out));
    join(s);
    close(w.out);
    assert_null(read_line(&w));
    close(w.from);
    buf_done(&w.ahead);
    close(w.to);
    close(w.in);
}

static void the_last_line_needs_no_end(void **state)
{
    struct wires w = pipes();
    struct server *s = start(w.in, w.out);
    tell(&w, PING("1"));
    close(w.to);
    expect(&w, PONG("1"));
    join(s);
    close(w.from);
    buf_done(&w.ahead);
}

/* Modern requests need no handshake. */
#define CALL(id, tool)                                                                                       \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool              \
    "\",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/"    \
    "clientCapabilities\":{}}}}\n"

static void a_call_that_runs_at_the_end_of_input_is_answered(void **state)
{
    struct wires w = pipes();
    struct server *s = start(w.in, w.out);
    tell(&w, CALL("1", "wait"));
    toolset_await_started(s->toolset, 1);
    close(w.to);
    toolset_release(s->toolset);
    char *reply = read_line(&w);
    assert_non_null(reply);
    assert_non_null(strstr(reply, "\"isError\":false"));
    free(reply);
    join(s);
    close(w.from);
    buf_done(&w.ahead);
}

static void a_call_that_goes_on_after_the_end_of_input_is_ended(void **state)
{
    struct wires w = pipes();
    struct server *s = start(w.in, w.out);
    tell(&w, CALL("1", "wait"));
    toolset_await_started(s->toolset, 1);
    hang_up(&w, s);
}

/* There is no client that waits for the server's end. */
static void a_call_of_a_file_has_its_time(void **state)
{
    char path[] = "/tmp/test_stdio.XXXXXX";
    struct wires w = pipes();
    int in = mkstemp(path);
    assert_int_equal(fd_write_all(in, CALL("1", "wait"), sizeof(CALL("1", "wait")) - 1), 0);
    assert_int_equal(lseek(in, 0, SEEK_SET), 0);
    struct server *s = start(in, w.out);
    toolset_await_started(s->toolset, 1);
    poll(NULL, 0, 1500); /* time to do it wrong: nothing waits for this */
    toolset_release(s->toolset);
    char *reply = read_line(&w);
    assert_non_null(reply);
    assert_non_null(strstr(reply, "\"isError\":false"));
    free(reply);
    join(s);
    close(w.to);
    close(w.from);
    close(w.in);
    buf_done(&w.ahead);
    unlink(path);
}

static void bad_bytes_get_an_error_and_the_next_line_is_served(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *says;
    } bad[] = {
        {"\xEF\xBB\xBF" PING("1") "\n", sizeof(PING("1")) + 3, "byte order mark"},
        {"{\"a\":\"\0\"}\n", 10, "-32700"},
        {"\0\n", 2, "-32700"},
        {"\xFF\xFE\n", 3, "-32700"},
        {"not json\n", 9, "-32700"},
    };
    struct wires w = pipes();
    struct server *s = start(w.in, w.out);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(fd_write_all(w.to, bad[i].bytes, bad[i].n), 0);
        char *reply = read_line(&w);
        assert_non_null(strstr(reply, "\"id\":null,\"error\""));
        assert_non_null(strstr(reply, bad[i].says));
        free(reply);
        ask(&w, PING("2") "\n", PONG("2"));
    }
    hang_up(&w, s);
}

static void write_blanks(const struct wires *w, size_t n)
{
    char *blanks = xmalloc(MIB);
    memset(blanks, 'x', MIB);
    for (; n > 0; n -= n < MIB ? n : MIB)
        assert_int_equal(fd_write_all(w->to, blanks, n < MIB ? n : MIB), 0);
    free(blanks);
}

static void an_endless_line_is_refused_once(void **state)
{
    struct wires w = pipes();
    struct server *s = start(w.in, w.out);
    write_blanks(&w, LIMIT_MESSAGE_BYTES + MIB);
    expect(&w, TOO_LONG); /* before it ends */
    write_blanks(&w, 64 * MIB);
    tell(&w, "\n");
    ask(&w, PING("1") "\n", PONG("1"));
    hang_up(&w, s);
}

/* A request padded to n bytes, its end not included. */
static void tell_padded(const struct wires *w, size_t n)
{
    static const char begin[] = "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\",\"params\":{\"x\":\"";
    tell(w, begin);
    write_blanks(w, n - (sizeof(begin) - 1) - 3);
    tell(w, "\"}}");
}

static void the_longest_message_is_served(void **state)
{
    struct wires w = pipes();
    struct server *s = start(w.in, w.out);
    tell_padded(&w, LIMIT_MESSAGE_BYTES);
    tell(&w, "\r\n" PING("1") "\n");
    expect(&w, PONG("9"));
    expect(&w, PONG("1"));
    tell_padded(&w, LIMIT_MESSAGE_BYTES + 1);
    ask(&w, "\n", TOO_LONG);
    ask(&w, PING("2") "\n", PONG("2"));
    tell_padded(&w, LIMIT_MESSAGE_BYTES);
    close(w.to); /* the last line, without an end */
    expect(&w, PONG("9"));
    join(s);
    close(w.from);
    buf_done(&w.ahead);
}

static void a_reader_that_waits_stops_nobody(struct wires w)
{
    struct server *s = start(w.in, w.out);
    tell(&w, INITIALIZE "\n");
    free(read_line(&w));
    tell(&w, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
             "call\",\"params\":{\"name\":\"repeat\",\"arguments\":"
             "{\"size\":2000000}}}\n");
    await_input(w.from); /* the result fills the wire now */
    for (int i = 0; i < 5; i++)
        tell(&w, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"nothing\"}\n"
                 "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n");
    tell(&w, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"answer\"}}\n");
    toolset_await_started(s->toolset, 2);

    char *result = read_line(&w);
    size_t length = strlen(result);
    assert_true(length > 2000000);
    assert_string_equal(result + length - 8, "xxx\"}]}}");
    free(result);
    for (int i = 0; i < 5; i++) {
        char *error = read_line(&w);
        assert_non_null(strstr(error, "-32601"));
        free(error);
    }
    expect(&w, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[],\"isError\":false}}");
    hang_up(&w, s);
}

/* All calls run before anything is read: only as much of their results is kept as a limit allows. */
static void results_that_nobody_reads_are_bounded(void **state)
{
    enum { CALLS = 6 };
    const size_t size = LIMIT_RESULT_BYTES - 1 * MIB;
    _cleanup_(buf_done) struct buf calls = BUF_INIT(64 * KIB);
    struct wires w = pipes();
    struct server *s = start(w.in, w.out);
    w.ahead.max = LIMIT_RESULT_BYTES + 1 * MIB;
    tell(&w, INITIALIZE "\n");
    free(read_line(&w));
    for (int i = 1; i <= CALLS; i++)
        assert_int_equal(buf_printf(&calls,
                                    "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{"
                                    "\"name\":\"repeat\",\"arguments\":{\"size\":%zu}}}\n",
                                    i, size),
                         0);
    tell(&w, calls.data); /* in one piece, which is taken in one piece */
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(sem_wait(&s->answered), 0);
    size_t kept = 0, dropped = 0;
    for (int i = 1; i <= CALLS; i++) {
        char *answer = read_line(&w);
        assert_non_null(answer);
        kept += strlen(answer) > size;
        dropped += strlen(answer) < 1000 && strstr(answer, "\"error\":") && strstr(answer, "was dropped");
        free(answer);
    }
    assert_int_equal(kept, LIMIT_UNREAD_BYTES / LIMIT_RESULT_BYTES);
    assert_int_equal(dropped, CALLS - kept);
    hang_up(&w, s);
}

/* It sends on, does not read what it asked for until the server stops reading too, and goes. */
static void a_client_that_goes_without_reading_ends_the_server(void **state)
{
    struct wires w = pipes();
    struct server *s = start(w.in, w.out);
    for (int i = 0; i < 3; i++)
        tell(&w, "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"tools/call\"}\n");
    tell(&w, INITIALIZE "\n");
    for (int i = 1; i <= 4; i++) {
        char *call = xasprintf(
            "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"repeat\","
            "\"arguments\":{\"size\":%lu}}}\n",
            i, LIMIT_SEND_QUEUE_BYTES / 2);
        tell(&w, call);
        free(call);
    }
    toolset_await_started(s->toolset, 4);
    assert_int_equal(fd_set_nonblocking(w.to, true), 0);
    struct pollfd p = {.fd = w.to, .events = POLLOUT};
    while (poll(&p, 1, 300) > 0) /* the wire stays full: nobody reads it any more */
        if (write(w.to, "\n\n\n\n", 4) < 0)
            assert_int_equal(errno, EAGAIN);
    close(w.to);
    join(s);
    close(w.from);
    buf_done(&w.ahead);
}

static void a_pipe_reader_that_waits_stops_nobody(void **state)
{
    a_reader_that_waits_stops_nobody(pipes());
}

static void a_socket_reader_that_waits_stops_nobody(void **state)
{
    a_reader_that_waits_stops_nobody(sockets());
}

static void a_closed_output_ends_the_server(struct wires w)
{
    struct server *s = start(w.in, w.out);
    ask(&w, PING("1") "\n", PONG("1"));
    close(w.from);
    buf_done(&w.ahead);
    join(s); /* although nothing is written, and the input stays open */
    close(w.to);
}

static void a_closed_pipe_ends_the_server(void **state)
{
    a_closed_output_ends_the_server(pipes());
}

static void a_closed_socket_ends_the_server(void **state)
{
    a_closed_output_ends_the_server(sockets());
}

static void an_output_lost_amid_a_result_ends_the_server(void **state)
{
    struct wires w = pipes();
    struct server *s = start(w.in, w.out);
    tell(&w, INITIALIZE "\n");
    free(read_line(&w));
    tell(&w, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
             "call\",\"params\":{\"name\":\"repeat\",\"arguments\":"
             "{\"size\":2000000}}}\n");
    await_input(w.from);
    close(w.from);
    buf_done(&w.ahead);
    join(s);
    close(w.to);
}

static void a_client_that_only_stops_sending_is_still_served(void **state)
{
    struct wires w = sockets();
    struct server *s = start(w.in, w.out);
    ask(&w, PING("1") "\n", PONG("1"));
    assert_int_equal(shutdown(w.from, SHUT_WR), 0);
    ask(&w, PING("2") "\n", PONG("2"));
    ask(&w, PING("3") "\n", PONG("3"));
    hang_up(&w, s);
}

static void the_descriptors_are_private(void **state)
{
    struct wires w = pipes();
    int in_before = dup(w.in), out_before = dup(w.out);
    struct server *s = start(w.in, w.out);
    ask(&w, PING("1") "\n", PONG("1"));
    struct stat null, err, in, out;
    assert_int_equal(stat("/dev/null", &null), 0);
    assert_int_equal(fstat(STDERR_FILENO, &err), 0);
    assert_int_equal(fstat(w.in, &in), 0);
    assert_int_equal(fstat(w.out, &out), 0);
    assert_int_equal(in.st_rdev, null.st_rdev);
    assert_true(out.st_dev == err.st_dev && out.st_ino == err.st_ino);
    /* What others share with us still blocks. */
    assert_int_equal(fcntl(in_before, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(fcntl(out_before, F_GETFL) & O_NONBLOCK, 0);
    close(in_before);
    close(out_before);
    hang_up(&w, s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_served_over_pipes),
        cmocka_unit_test(a_call_that_runs_at_the_end_of_input_is_answered),
        cmocka_unit_test(a_call_that_goes_on_after_the_end_of_input_is_ended),
        cmocka_unit_test(a_call_of_a_file_has_its_time),
        cmocka_unit_test(lines_are_served_over_sockets),
        cmocka_unit_test(one_socket_serves_both_ways),
        cmocka_unit_test(files_are_served),
        cmocka_unit_test(no_input_at_all_ends_the_server),
        cmocka_unit_test(the_last_line_needs_no_end),
        cmocka_unit_test(bad_bytes_get_an_error_and_the_next_line_is_served),
        cmocka_unit_test(an_endless_line_is_refused_once),
        cmocka_unit_test(the_longest_message_is_served),
        cmocka_unit_test(results_that_nobody_reads_are_bounded),
        cmocka_unit_test(a_client_that_goes_without_reading_ends_the_server),
        cmocka_unit_test(a_pipe_reader_that_waits_stops_nobody),
        cmocka_unit_test(a_socket_reader_that_waits_stops_nobody),
        cmocka_unit_test(a_closed_pipe_ends_the_server),
        cmocka_unit_test(a_closed_socket_ends_the_server),
        cmocka_unit_test(an_output_lost_amid_a_result_ends_the_server),
        cmocka_unit_test(a_client_that_only_stops_sending_is_still_served),
        cmocka_unit_test(the_descriptors_are_private),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
