/* Commands by the engine's own exec: what it is asked, and what its words mean. The words are those of
 * dockerd 20.10 and podman 4.3, both with runc 1.1. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/engine/private.h"
#include "base/clock.h"
#include "base/mem.h"
#include "tests/unit/backends/engine_double.h"
#include "tests/unit/base/check.h"

#define MAKE "POST /v1.41/containers/c0ffee/exec"
#define START "POST /v1.41/exec/e1/start"
#define ASK "GET /v1.41/exec/e1/json"
#define LOOK "GET /v1.41/containers/c0ffee/json"
#define AWAIT "POST /v1.41/containers/c0ffee/wait?condition=not-running"
#define MADE                                                                                                 \
    {                                                                                                        \
        .request = MAKE, .status = 201, .body = "{\"Id\":\"e1\"}", .uses = 1                                 \
    }

struct world {
    struct engine_double engine;
    struct engine_backend backend;
    struct engine_instance instance;
};

static void begin(struct world *w, const struct engine_answer *answers, enum engine_kind kind)
{
    *w = (struct world){0};
    engine_double_start(&w->engine, answers);
    w->engine.engine.kind = kind;
    w->instance = (struct engine_instance){.backend = &w->backend,
                                           .engine = &w->engine.engine,
                                           .id = "box",
                                           .container = "c0ffee",
                                           .way = WAY_EXEC};
    w->instance.has_bash = w->instance.has_sh = true;
    pthread_mutex_init(&w->instance.lock, NULL);
    list_init(&w->instance.plains);
}

static void end(struct world *w)
{
    engine_double_stop(&w->engine);
    pthread_mutex_destroy(&w->instance.lock);
}

static struct exec_request request_of(const char *command)
{
    return (struct exec_request){.command = command,
                                 .command_len = strlen(command),
                                 .output_limit = 4096,
                                 .wait = {.deadline = clock_deadline_after(30)}};
}

static struct exec_request request_of_program(char **argv)
{
    struct exec_request r = request_of("");
    r.command = NULL;
    r.argv = argv;
    return r;
}

static int run(struct world *w, const struct exec_request *request, struct exec_result *ret,
               struct error *err)
{
    *ret = (struct exec_result){0};
    *err = (struct error)ERROR_INIT;
    return engine_instance_exec(&w->instance.base, request, ret, err);
}

/* --- what comes of a command --- */

static void test_a_command_is_asked_for_and_told(void **state)
{
    static const struct engine_answer answers[] = {
        MADE,
        {.request = START, .status = 101, .body = "\1\0\0\0\0\0\0\3out\2\0\0\0\0\0\0\3err", .body_size = 22},
        {.request = ASK, .status = 200, .body = "{\"Running\":true,\"ExitCode\":null}", .uses = 1},
        {.request = ASK, .status = 200, .body = "{\"Running\":false,\"ExitCode\":5,\"Pid\":77}"},
        {0},
    };
    struct world w;
    struct exec_result r;
    struct error err;
    char one[] = "ONE=1", *env[] = {one, NULL};
    struct exec_request request = request_of("echo \"x\"");
    request.cwd = "/usr";
    request.env = env;
    begin(&w, answers, ENGINE_DOCKER);
    assert_int_equal(run(&w, &request, &r, &err), 0);
    assert_int_equal(r.exit_code, 5);
    assert_string_equal(buf_str(&r.out.head), "out");
    assert_string_equal(buf_str(&r.err.head), "err");
    assert_int_equal(r.out.total, 3);
    assert_null(r.note);
    const char *seen = engine_double_seen(&w.engine);
    assert_non_null(strstr(seen, "\"Cmd\":[\"/bin/bash\",\"-c\",\"echo \\\"x\\\"\"]"));
    assert_non_null(strstr(seen, "\"Env\":[\"ONE=1\",\"SANDBOX_COMMAND="));
    assert_non_null(strstr(seen, "\"WorkingDir\":\"/usr\""));
    assert_non_null(strstr(seen, "\"AttachStdin\":false"));
    exec_result_done(&r);
    end(&w);
}

/* An engine's words, as they come in its stream. */
struct refusal {
    enum engine_kind kind;
    unsigned char stream;
    const char *words;
    int code; /* that it tells */
    enum error_code error;
    int exit_code; /* of the result, if it is no error */
};
#define RUNC "OCI runtime exec failed: exec failed: unable to start container process: "
#define PODMAN_RUNC "Error: runc: exec failed: unable to start container process: "
#define NOT_FOUND ": OCI runtime attempted to invoke a command that was not found\n"

static const struct refusal refusals[] = {
    {ENGINE_DOCKER, 1, RUNC "exec: \"p\": executable file not found in $PATH: unknown\r\n", 126, ERR_NONE,
     127},
    {ENGINE_DOCKER, 1, RUNC "exec: \"/p\": stat /p: no such file or directory: unknown\r\n", 126, ERR_NONE,
     127},
    {ENGINE_DOCKER, 1, RUNC "exec: \"/etc\": permission denied: unknown\r\n", 126, ERR_NONE, 126},
    {ENGINE_DOCKER, 1,
     RUNC "chdir to cwd (\"/nope\") set in config.json failed: no such file or directory: unknown\r\n", 126,
     ERR_CWD_NOT_FOUND, 0},
    {ENGINE_DOCKER, 1,
     RUNC "chdir to cwd (\"/etc/passwd\") set in config.json failed: not a directory: unknown: Are you "
          "trying to mount a "
          "directory onto a file (or vice-versa)? Check if the specified host path exists and is the "
          "expected type\r\n",
     126, ERR_CWD_NOT_FOUND, 0},
    {ENGINE_DOCKER, 1, RUNC "exec: \"chdir\": executable file not found in $PATH: unknown\r\n", 126, ERR_NONE,
     127},
    {ENGINE_DOCKER, 2, RUNC "exec: \"p\": executable file not found in $PATH\n", 127, ERR_NONE, 127},
    {ENGINE_DOCKER, 1, RUNC "the moon is in the wrong place: unknown\r\n", 126, ERR_UNAVAILABLE, 0},
    {ENGINE_PODMAN, 2, PODMAN_RUNC "exec: \"p\": executable file not found in $PATH" NOT_FOUND, 127, ERR_NONE,
     127},
    {ENGINE_PODMAN, 2, PODMAN_RUNC "exec: \"/p\": stat /p: no such file or directory" NOT_FOUND, 127,
     ERR_NONE, 127},
    {ENGINE_PODMAN, 2, PODMAN_RUNC "exec: \"/etc\": permission denied: OCI permission denied\n", 126,
     ERR_NONE, 126},
    {ENGINE_PODMAN, 2,
     PODMAN_RUNC "chdir to cwd (\"/nope\") set in config.json failed: no such file or directory" NOT_FOUND,
     127, ERR_CWD_NOT_FOUND, 0},
    {ENGINE_PODMAN, 2,
     PODMAN_RUNC
     "chdir to cwd (\"/etc/passwd\") set in config.json failed: not a directory: OCI runtime error\n",
     125, ERR_CWD_NOT_FOUND, 0},
};

static size_t frame_words(const struct refusal *f, char *ret)
{
    size_t n = strlen(f->words);
    const unsigned char head[8] = {f->stream, 0, 0, 0, 0, 0, (unsigned char)(n >> 8), (unsigned char)n};
    memcpy(ret, head, 8);
    memcpy(ret + 8, f->words, n);
    return n + 8;
}

static void test_refusals_are_understood(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        const struct refusal *f = &refusals[i];
        struct world w;
        struct exec_result r;
        struct error err;
        char stream[1024], ended[100], program[] = "p", *argv[] = {program, NULL};
        snprintf(ended, sizeof(ended), "{\"Running\":false,\"ExitCode\":%d,\"Pid\":0}", f->code);
        const struct engine_answer answers[] = {
            MADE,
            {.request = START, .status = 101, .body = stream, .body_size = frame_words(f, stream)},
            {.request = ASK, .status = 200, .body = ended},
            {.request = LOOK, .status = 200, .body = "{\"State\":{\"Running\":true}}"},
            {0},
        };
        const struct exec_request request = request_of_program(argv);
        begin(&w, answers, f->kind);
        int failed = run(&w, &request, &r, &err);
        if ((failed < 0 ? err.code : ERR_NONE) != f->error)
            fail_msg("%s: %s", f->words, failed < 0 ? err.msg : "no error");
        if (failed == 0) {
            assert_int_equal(r.exit_code, f->exit_code);
            assert_non_null(r.note);
            assert_int_equal(r.out.total + r.err.total, 0); /* the engine's words are no output */
            exec_result_done(&r);
        }
        end(&w);
    }
}

static void test_a_command_may_say_the_same(void **state)
{
    const struct refusal said = refusals[0];
    char stream[1024];
    const struct engine_answer answers[] = {
        MADE,
        {.request = START, .status = 101, .body = stream, .body_size = frame_words(&said, stream)},
        {.request = ASK, .status = 200, .body = "{\"Running\":false,\"ExitCode\":126,\"Pid\":9}"},
        {0},
    };
    struct world w;
    struct exec_result r;
    struct error err;
    const struct exec_request request = request_of("docker exec");
    begin(&w, answers, ENGINE_DOCKER);
    assert_int_equal(run(&w, &request, &r, &err), 0);
    assert_int_equal(r.exit_code, 126);
    assert_string_equal(buf_str(&r.out.head), said.words);
    exec_result_done(&r);
    end(&w);
}

static void test_without_bash_it_is_sh(void **state)
{
    const struct refusal no_bash = {
        ENGINE_DOCKER,
        1,
        RUNC "exec: \"/bin/bash\": stat /bin/bash: no such file or directory: unknown\r\n",
        126,
        ERR_NONE,
        0};
    char stream[1024];
    const struct engine_answer answers[] = {
        {.request = MAKE, .status = 201, .body = "{\"Id\":\"e1\"}"},
        {.request = START,
         .status = 101,
         .body = stream,
         .body_size = frame_words(&no_bash, stream),
         .uses = 1},
        {.request = START, .status = 101},
        {.request = ASK, .status = 200, .body = "{\"Running\":false,\"ExitCode\":126,\"Pid\":0}", .uses = 1},
        {.request = ASK, .status = 200, .body = "{\"Running\":false,\"ExitCode\":0,\"Pid\":9}"},
        {0},
    };
    struct world w;
    struct exec_result r;
    struct error err;
    const struct exec_request request = request_of("true");
    begin(&w, answers, ENGINE_DOCKER);
    assert_int_equal(run(&w, &request, &r, &err), 0);
    assert_non_null(strstr(engine_double_seen(&w.engine), "\"Cmd\":[\"/bin/sh\",\"-c\",\"true\"]"));
    exec_result_done(&r);
    end(&w);
}

/* --- what ends early --- */

static void test_a_deadline_kills_by_a_mark(void **state)
{
    static const char runs[] = "{\"Running\":true}", done[] = "{\"Running\":false,\"ExitCode\":0,\"Pid\":9}";
    static const struct {
        const char *killer; /* the shell that looks for the mark */
        const char *last;   /* with the start of which the command is one that ends; or it never does */
        int status;         /* of what is asked of it from then on */
        bool noted;
    } cases[] = {{done, "/exec/e2/start", 200, false},
                 {done, "/exec/e3/start", 200, false}, /* the engine was still at its start */
                 {done, "never", 200, true},
                 {done, "/exec/e2/start", 404, false}, /* its container is gone */
                 {done, "/exec/e2/start", 500, true},
                 {"{\"Running\":false,\"ExitCode\":1,\"Pid\":9}", "/exec/e2/start", 200, true},
                 {runs, "/exec/e2/start", 200, true}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct engine_answer answers[] = {
            {.request = MAKE, .status = 201, .body = "{\"Id\":\"e1\"}", .uses = 1},
            {.request = START, .status = 101, .body = "\1\0\0\0\0\0\0\3out", .body_size = 11, .holds = true},
            {.request = ASK, .status = cases[i].status, .body = done, .after = cases[i].last},
            {.request = ASK, .status = 200, .body = runs},
            {.request = MAKE, .status = 201, .body = "{\"Id\":\"e2\"}", .uses = 1},
            {.request = "POST /v1.41/exec/e2/start", .status = 101},
            {.request = "GET /v1.41/exec/e2/json", .status = 200, .body = cases[i].killer},
            {.request = MAKE, .status = 201, .body = "{\"Id\":\"e3\"}"},
            {.request = "POST /v1.41/exec/e3/start", .status = 101},
            {.request = "GET /v1.41/exec/e3/json", .status = 200, .body = done},
            {0},
        };
        struct world w;
        struct exec_result r;
        struct error err;
        struct exec_request request = request_of("sleep 1000");
        request.wait.deadline = clock_deadline_after(0.2);
        begin(&w, answers, ENGINE_DOCKER);
        assert_int_equal(run(&w, &request, &r, &err), 0);
        assert_true(r.timed_out);
        assert_string_equal(buf_str(&r.out.head), "out");
        assert_int_equal(r.note != NULL, cases[i].noted);
        const char *mark =
            strstr(engine_double_seen(&w.engine), "SANDBOX_COMMAND=") + strlen("SANDBOX_COMMAND=");
        _cleanup_(cleanup_free) char *killer = xasprintf("\"killer\",\"%.32s\"", mark);
        assert_non_null(strstr(engine_double_seen(&w.engine), killer));
        exec_result_done(&r);
        end(&w);
    }
}

struct cutting {
    struct world *w;
    struct exec_request request;
    struct exec_result result;
    struct error err;
    int r;
};

static void *run_thread(void *arg)
{
    struct cutting *c = arg;
    c->r = run(c->w, &c->request, &c->result, &c->err);
    return NULL;
}

static void test_a_kill_ends_commands(void **state)
{
    static const struct engine_answer answers[] = {
        MADE,
        {.request = START, .status = 101, .holds = true},
        {.request = ASK, .status = 200, .body = "{\"Running\":true}"},
        {0},
    };
    struct world w;
    pthread_t thread;
    struct cutting c = {.w = &w, .request = request_of("sleep 1000")};
    begin(&w, answers, ENGINE_DOCKER);
    assert_int_equal(pthread_create(&thread, NULL, run_thread, &c), 0);
    engine_instance_kill(&w.instance.base); /* whether it has begun or not */
    pthread_join(thread, NULL);
    assert_int_equal(c.r, -1);
    assert_int_equal(c.err.code, ERR_GONE);
    end(&w);
}

static void assert_it_fails(const struct engine_answer *answers, enum engine_kind kind, enum error_code code,
                            const char *of)
{
    struct world w;
    struct exec_result r;
    struct error err;
    const struct exec_request request = request_of("true");
    begin(&w, answers, kind);
    assert_int_equal(run(&w, &request, &r, &err), -1);
    if (err.code != code)
        fail_msg("%s: %s", of, err.msg);
    end(&w);
}

static void test_a_container_that_is_gone(void **state)
{
    static const struct {
        const char *look;
        int status;
        enum error_code code;
    } cases[] = {
        {"{\"message\":\"No such container: c0ffee\"}", 404, ERR_GONE},
        {"{\"State\":{\"Running\":false,\"ExitCode\":1}}", 200, ERR_GONE},
        {"{\"State\":{\"Running\":true,\"Paused\":true}}", 200, ERR_UNAVAILABLE},
        {"{\"message\":\"out of order\"}", 500, ERR_UNAVAILABLE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct engine_answer answers[] = {
            {.request = MAKE, .status = 409, .body = "{\"message\":\"Container c0ffee is not running\"}"},
            {.request = LOOK, .status = cases[i].status, .body = cases[i].look},
            {0},
        };
        assert_it_fails(answers, ENGINE_DOCKER, cases[i].code, cases[i].look);
    }
}

/* The engine says that it runs, until it is asked to tell of its end. */
static void test_an_end_that_is_noticed_late(void **state)
{
    static const struct {
        int status;
        const char *end, *look;
    } cases[] = {
        {200, "{\"StatusCode\":0}", "{\"State\":{\"Running\":false,\"ExitCode\":1}}"},
        {200, "{\"StatusCode\":0}", NULL},
        {404, "{\"message\":\"No such container: c0ffee\"}", NULL},
        {500, "{\"cause\":\"container has already been removed\",\"message\":\"c0ffee\"}", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *look = cases[i].look;
        const struct engine_answer answers[] = {
            {.request = MAKE, .status = 409, .body = "{\"message\":\"Container c0ffee is not running\"}"},
            {.request = LOOK, .status = 200, .body = "{\"State\":{\"Running\":true}}", .uses = 1},
            {.request = AWAIT, .status = cases[i].status, .body = cases[i].end},
            {.request = LOOK, .status = look ? 200 : 404, .body = look ? look : "{\"message\":\"none\"}"},
            {0},
        };
        assert_it_fails(answers, ENGINE_PODMAN, ERR_GONE, cases[i].end);
    }
}

static void test_what_no_engine_can_be_given(void **state)
{
    static const struct engine_answer none[] = {{0}};
    struct world w;
    struct exec_result r;
    struct error err;
    char good[] = "true", bad[] = "\xff", *argv[] = {good, bad, NULL}, *plain[] = {good, NULL};
    begin(&w, none, ENGINE_DOCKER);

    struct exec_request request = request_of_program(argv);
    assert_int_equal(run(&w, &request, &r, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    request = request_of_program(plain);
    request.env = argv;
    assert_int_equal(run(&w, &request, &r, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    request = request_of_program(plain);
    request.cwd = bad;
    assert_int_equal(run(&w, &request, &r, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    request = request_of("a");
    request.command_len = 2; /* with its NUL */
    assert_int_equal(run(&w, &request, &r, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    _cleanup_(cleanup_free) char *text = xcalloc(1, LIMIT_COMMAND_INLINE_BYTES + 1);
    memset(text, ' ', LIMIT_COMMAND_INLINE_BYTES);
    request = request_of(text);
    assert_int_equal(run(&w, &request, &r, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);

    assert_string_equal(engine_double_seen(&w.engine), ""); /* it wasn't even asked */
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_command_is_asked_for_and_told),
        cmocka_unit_test(test_refusals_are_understood),
        cmocka_unit_test(test_a_command_may_say_the_same),
        cmocka_unit_test(test_without_bash_it_is_sh),
        cmocka_unit_test(test_a_deadline_kills_by_a_mark),
        cmocka_unit_test(test_a_kill_ends_commands),
        cmocka_unit_test(test_a_container_that_is_gone),
        cmocka_unit_test(test_an_end_that_is_noticed_late),
        cmocka_unit_test(test_what_no_engine_can_be_given),
    };
    return cmocka_run_group_tests_name("engine: plain", tests, NULL, NULL);
}
