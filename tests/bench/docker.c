/* Computers of a container engine, beside what the engine's own command line and API take for the same.
 *
 * The engine is one of our own: see beside.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"
#include "bench.h"
#include "measure.h"
#include "net/http.h"

#define TOOL "terminal_execute"
#define IMAGE "sandbox-test/debian:1" /* that with-engine's engines have */
#define CONTAINER "kilntainer-bench"  /* of the computer "bench" */
#define ARGS_TRUE "{\"args\":[\"true\"],\"computer_id\":\"bench\"}"
#define COMMAND_TRUE "{\"command\":\"true\",\"computer_id\":\"bench\"}"
#define API_SECONDS 60.0
#define END_SECONDS 60.0
#define WARM_CALLS 5 /* for one of theirs, which takes so much that the call behind it isn't warm */
#define COMPUTERS 6  /* of a session whose end is measured */

static const char *const cli_exec_argv[] = {"docker", "exec", CONTAINER, "true", NULL};
static const char *const cli_run_argv[] = {"docker", "run", "--rm", "--network", "none", IMAGE, "true", NULL};

static void start_server(struct bench *b, struct subject *s)
{
    const char *args[] = {"--backend",    "docker",      "--image",    IMAGE,
                          "--no-network", "--state-dir", b->state_dir, NULL};
    subject_start(s, b->server, args);
}

/* For what takes long: a part of the usual number of samples. */
static size_t a_part_of(size_t runs, size_t part)
{
    return (runs + part - 1) / part;
}

/* --- the engine's API --- */

static struct http_client *api_connect(void)
{
    struct error err = ERROR_INIT;
    const char *host = getenv("DOCKER_HOST");
    if (!host || !str_has_prefix(host, "unix://"))
        die("DOCKER_HOST names no socket");
    const struct http_address address = {.url = "http://docker", .unix_path = host + strlen("unix://")};
    struct http_client *c = http_client_new(&address, &err);
    if (!c)
        die("%s: %s", host, err.msg);
    return c;
}

static void api_call(struct http_client *c, const char *method, const char *path, const char *body,
                     struct http_response *ret)
{
    struct error err = ERROR_INIT;
    const struct http_request request = {.method = method,
                                         .path = path,
                                         .body = body,
                                         .body_len = body ? strlen(body) : 0,
                                         .content_type = body ? "application/json" : NULL,
                                         .wait = {.deadline = clock_deadline_after(API_SECONDS)}};
    if (http_do(c, &request, ret, &err) < 0)
        die("%s %s: %s", method, path, err.msg);
    if (ret->status > 299)
        die("%s %s: status %d: %s", method, path, ret->status, buf_str(&ret->body));
}

static json_t *parse(const struct http_response *r)
{
    json_t *value = json_parse(r->body.data, r->body.len, NULL);
    if (!value)
        die("the engine's answer is no JSON: %s", buf_str(&r->body));
    return value;
}

/* How a program with a client library of the engine runs `true`: an exec is made, and started, and its output
 * read to the end. That program would ask for the exit code too, which isn't counted here. */
static double api_exec(struct http_client *c)
{
    _cleanup_(http_response_done) struct http_response made = {0}, output = {0}, told = {0};
    char path[256];
    int64_t begin = clock_now();
    api_call(c, "POST", "/v1.41/containers/" CONTAINER "/exec",
             "{\"AttachStdout\":true,\"AttachStderr\":true,\"Cmd\":[\"true\"]}", &made);
    _cleanup_(cleanup_json_decref) json_t *exec = parse(&made);
    const char *id = json_get_string(exec, "Id");
    (void)snprintf(path, sizeof path, "/v1.41/exec/%s/start", id ? id : "");
    api_call(c, "POST", path, "{\"Detach\":false,\"Tty\":false}", &output);
    double ms = (double)(clock_now() - begin) / NSEC_PER_MSEC;
    (void)snprintf(path, sizeof path, "/v1.41/exec/%s/json", id ? id : "");
    api_call(c, "GET", path, NULL, &told);
    _cleanup_(cleanup_json_decref) json_t *state = parse(&told);
    const json_t *code = json_object_get(state, "ExitCode");
    if (!json_is_integer(code) || json_integer_value(code) != 0)
        die("the engine's exec failed: %s", buf_str(&told.body));
    return ms;
}

/* --- figures --- */

static void add_warm_calls(struct series *warm, struct subject *s)
{
    for (int i = 0; i < WARM_CALLS; i++)
        series_add(warm, subject_call(s, TOOL, ARGS_TRUE, false));
}

static void measure_warm(struct bench *b)
{
    struct series cli = {0}, api = {0}, warm = {0};
    struct http_client *c = api_connect();
    struct subject s;
    start_server(b, &s);
    subject_do(&s, TOOL, ARGS_TRUE);
    for (size_t i = 0; i < b->runs; i++) {
        series_add(&cli, measure_program(cli_exec_argv, false));
        add_warm_calls(&warm, &s);
        series_add(&api, api_exec(c));
        add_warm_calls(&warm, &s);
    }
    (void)subject_end(&s, END_SECONDS);
    (void)http_client_free(c);
    figure_set_ratio(b, DOCKER_WARM_CLI, series_median(&cli), series_median(&warm), cli.count);
    figure_set_ratio(b, DOCKER_WARM_API, series_median(&api), series_median(&warm), api.count);
    series_done(&cli);
    series_done(&api);
    series_done(&warm);
}

/* The Python program takes the image of its own default, which the engine has too. */
static void start_python(struct subject *s)
{
    static const char *const no_args[] = {NULL};
    subject_start(s, peer_python(), no_args);
}

static void measure_python_calls(struct bench *b, const char *theirs_asked, const char *ours_asked,
                                 enum figure_id id)
{
    struct series theirs = {0}, ours = {0};
    struct subject peer, s;
    start_server(b, &s);
    start_python(&peer);
    subject_do(&s, TOOL, ours_asked);
    (void)subject_call(&peer, TOOL, theirs_asked, true);
    for (size_t i = 0; i < a_part_of(b->runs, 4); i++) {
        series_add(&theirs, subject_call(&peer, TOOL, theirs_asked, false));
        for (int n = 0; n < WARM_CALLS; n++)
            series_add(&ours, subject_call(&s, TOOL, ours_asked, false));
    }
    (void)subject_end(&peer, END_SECONDS);
    (void)subject_end(&s, END_SECONDS);
    figure_set_ratio(b, id, series_median(&theirs), series_median(&ours), ours.count);
    series_done(&theirs);
    series_done(&ours);
}

/* A shell's own time is none of either's. */
static void measure_python(struct bench *b)
{
    measure_python_calls(b, "{\"args\":[\"true\"]}", ARGS_TRUE, DOCKER_WARM_PYTHON);
    measure_python_calls(b, "{\"command\":\"true\"}", COMMAND_TRUE, DOCKER_SHELL_PYTHON);
}

static double end_with_computers(struct subject *s)
{
    char arguments[64];
    for (int n = 0; n < COMPUTERS; n++) {
        (void)snprintf(arguments, sizeof arguments, "{\"args\":[\"true\"],\"computer_id\":\"end-%d\"}", n);
        (void)subject_call(s, TOOL, arguments, n == 0);
    }
    return subject_end(s, END_SECONDS);
}

/* Once: theirs takes half a minute. */
static void measure_python_end(struct bench *b)
{
    struct subject peer, s;
    start_python(&peer);
    const double theirs = end_with_computers(&peer);
    start_server(b, &s);
    figure_set_ratio(b, DOCKER_END_PYTHON, theirs, end_with_computers(&s), 1);
}

/* Session after session of a few computers each. The first of each also waits for the connection to the
 * engine. */
static void measure_sessions(struct bench *b)
{
    struct series run = {0}, create = {0}, end = {0};
    for (size_t i = 0; i < a_part_of(b->runs, 10); i++) {
        struct subject s;
        start_server(b, &s);
        for (int n = 0; n < COMPUTERS; n++) {
            char arguments[64];
            (void)snprintf(arguments, sizeof arguments, "{\"args\":[\"true\"],\"computer_id\":\"create-%d\"}",
                           n);
            series_add(&run, measure_program(cli_run_argv, false));
            series_add(&create, subject_call(&s, TOOL, arguments, false));
        }
        series_add(&end, subject_end(&s, END_SECONDS));
    }
    figure_set_ratio(b, DOCKER_CREATE, series_median(&create), series_median(&run), create.count);
    figure_set(b, DOCKER_END, series_median(&end), end.count);
    series_done(&run);
    series_done(&create);
    series_done(&end);
}

/* Both inside, so the engine's limits hold for both. */
static void measure_parallel(struct bench *b)
{
    static const char one[] = "{\"args\":[\"sha256sum\",\"/root/block\"],\"computer_id\":\"bench\"}";
    static const char all[] = "{\"command\":\"for i in $(seq 20); do sha256sum /root/block & done; "
                              "wait\",\"computer_id\":\"bench\"}";
    struct series shell = {0}, calls = {0};
    struct subject s;
    start_server(b, &s);
    subject_do(&s, TOOL, "{\"command\":\"yes | head -c 4194304 > /root/block\",\"computer_id\":\"bench\"}");
    for (size_t i = 0; i < a_part_of(b->runs, 2); i++) {
        series_add(&shell, subject_call(&s, TOOL, all, false));
        series_add(&calls, subject_calls(&s, TOOL, one, 20));
    }
    (void)subject_end(&s, END_SECONDS);
    figure_set_ratio(b, DOCKER_PARALLEL, series_median(&calls), series_median(&shell), calls.count);
    series_done(&shell);
    series_done(&calls);
}

static void measure_flood(struct bench *b)
{
    struct subject s;
    start_server(b, &s);
    subject_do(&s, TOOL, "{\"command\":\"head -c 1G /dev/zero | tr '\\\\0' x\",\"timeout\":240}");
    figure_set(b, DOCKER_MEMORY, subject_memory_mib(&s, "VmHWM"), 1);
    (void)subject_end(&s, END_SECONDS);
}

static void measure(struct bench *b)
{
    measure_warm(b);
    if (peer_python()) {
        measure_python(b);
        measure_python_end(b);
    }
    measure_sessions(b);
    measure_parallel(b);
    measure_flood(b);
}

void stage_docker(struct bench *b)
{
    if (!peer_python())
        b->figures[DOCKER_WARM_PYTHON].note = b->figures[DOCKER_SHELL_PYTHON].note =
            b->figures[DOCKER_END_PYTHON].note = PEER_PYTHON_ABSENT;
    if (getenv("SANDBOX_ENGINE")) {
        measure(b);
        return;
    }
    bench_beside_engine(b, "docker", "docker", DOCKER_FIRST, DOCKER_LAST);
}
