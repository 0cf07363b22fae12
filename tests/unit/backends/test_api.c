/* First words with an engine, and what its answers mean. */
#include "backends/engine/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backends/engine/engine.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/unit/backends/engine_double.h"
#include "tests/unit/base/check.h"

static const struct wait wait_long = {.deadline = DEADLINE_NONE};

#define INFO                                                                                                 \
    "{\"OSType\":\"linux\",\"CgroupVersion\":\"2\",\"Architecture\":\"x86_64\",\"ServerVersion\":\"20.10\"," \
    "\"MemTotal\":1024,\"NCPU\":2,\"MemoryLimit\":true,\"PidsLimit\":true,\"CpuCfsQuota\":false,"            \
    "\"SecurityOptions\":[\"name=seccomp,profile=default\",\"name=rootless\"]}"

static struct engine *connect_to(struct engine_double *d, const struct engine_answer *answers,
                                 struct error *err)
{
    engine_double_start(d, answers);
    char *host = xasprintf("unix://%s", d->path);
    const struct engine_options options = {.engine = "docker", .docker_host = host, .state_dir = d->dir};
    const struct wait wait = {.deadline = clock_deadline_after(10)};
    struct engine *e = engine_connect(&options, &wait, err);
    free(host);
    return e;
}

static void test_a_version_is_agreed_on(void **state)
{
    static const struct {
        const char *header, *agreed; /* NULL: none */
    } cases[] = {
        {"1.41", "1.41"},  {"1.44", "1.44"}, {"1.47", "1.47"}, {"1.99", "1.47"},       {"2.0", "1.47"},
        {"1.041", "1.41"}, {"1.40", NULL},   {"1.4", NULL},    {"0.99", NULL},         {"1", NULL},
        {"1.", NULL},      {".41", NULL},    {"1.41.2", NULL}, {"1.41x", NULL},        {"x1.41", NULL},
        {"1. 41", NULL},   {"1.-41", NULL},  {"+1.41", NULL},  {"1.4294967337", NULL}, {"9999999999.1", NULL},
        {"1/41", NULL},    {"../..", NULL},  {"", NULL},       {NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char header[100] = "";
        if (cases[i].header)
            snprintf(header, sizeof(header), "Api-Version: %s\r\n", cases[i].header);
        const struct engine_answer answers[] = {
            {.request = "GET /_ping", .status = 200, .headers = header, .body = "OK"},
            {.request = "GET /v", .status = 200, .body = INFO},
            {0}};
        struct engine_double d;
        struct error err = ERROR_INIT;
        struct engine *e = connect_to(&d, answers, &err);
        if (!e != !cases[i].agreed)
            fail_msg("%s: %s", cases[i].header, e ? e->api : err.msg);
        if (e)
            assert_string_equal(e->api, cases[i].agreed);
        else
            assert_int_equal(err.code, ERR_UNAVAILABLE);
        engine_disconnect(e);
        engine_double_stop(&d);
    }
}

static void test_what_an_engine_tells_of_itself(void **state)
{
    static const char *const headers[] = {"Api-Version: 1.41\r\n",
                                          "Api-Version: 1.41\r\nLibpod-Api-Version: 4.3.1\r\n"};
    for (int podman = 0; podman < 2; podman++) {
        const struct engine_answer answers[] = {
            {.request = "GET /_ping", .status = 200, .headers = headers[podman]},
            {.request = "GET /v1.41/info", .status = 200, .body = INFO},
            {0}};
        struct engine_double d;
        struct error err = ERROR_INIT;
        struct engine *e = connect_to(&d, answers, &err);
        if (!e)
            fail_msg("%s", err.msg);
        assert_string_equal(engine_name(e), podman ? "podman" : "docker");
        assert_int_equal(e->memory_bytes, 1024);
        assert_true(e->limits_memory && e->limits_pids && !e->limits_cpu);
        engine_disconnect(e);
        engine_double_stop(&d);
    }
}

static void test_what_is_no_engine_for_us(void **state)
{
    static const struct {
        int ping, info;
        const char *body, *words;
        enum error_code code;
    } cases[] = {
        {404, 200, INFO, "is no engine", ERR_UNAVAILABLE},
        {200, 500, "{\"message\":\"out of order\"}", "out of order", ERR_UNAVAILABLE},
        {200, 200, "no JSON", "no JSON", ERR_UNAVAILABLE},
        {200, 200, "{\"OSType\":\"windows\"}", "windows", ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct engine_answer answers[] = {
            {.request = "GET /_ping", .status = cases[i].ping, .headers = "Api-Version: 1.41\r\n"},
            {.request = "GET /v1.41/info", .status = cases[i].info, .body = cases[i].body},
            {0}};
        struct engine_double d;
        struct error err = ERROR_INIT;
        assert_null(connect_to(&d, answers, &err));
        assert_int_equal(err.code, cases[i].code);
        if (!strstr(err.msg, cases[i].words) || !strstr(err.msg, cases[i].ping == 404 ? d.path : ""))
            fail_msg("%s", err.msg);
        engine_double_stop(&d);
    }
}

static void test_statuses_are_codes(void **state)
{
    static const struct {
        int status;
        enum error_code code;
    } cases[] = {{200, ERR_NONE},        {201, ERR_NONE},        {204, ERR_NONE},
                 {304, ERR_NONE},        {400, ERR_INVALID},     {401, ERR_DENIED},
                 {403, ERR_DENIED},      {404, ERR_NOT_FOUND},   {409, ERR_EXISTS},
                 {418, ERR_UNAVAILABLE}, {500, ERR_UNAVAILABLE}, {501, ERR_UNSUPPORTED},
                 {503, ERR_UNAVAILABLE}, {301, ERR_UNAVAILABLE}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const bool has_body = cases[i].status != 204 && cases[i].status != 304;
        const struct engine_answer answers[] = {{.request = "POST /v1.41/x",
                                                 .status = cases[i].status,
                                                 .body = has_body ? "{\"message\":\"why\"}" : NULL},
                                                {0}};
        struct engine_double d;
        struct error err = ERROR_INIT;
        engine_double_start(&d, answers);
        int r = engine_call(&d.engine, "POST", "/x", NULL, &wait_long, NULL, &err);
        assert_int_equal(r, cases[i].code == ERR_NONE ? 0 : -1);
        assert_int_equal(err.code, cases[i].code);
        if (r < 0)
            assert_non_null(strstr(err.msg, ": why"));
        engine_double_stop(&d);
    }
}

static void be_refused_with_500(const char *body, struct error *err)
{
    const struct engine_answer answers[] = {{.request = "GET /v1.41/x", .status = 500, .body = body}, {0}};
    struct engine_double d;
    engine_double_start(&d, answers);
    assert_int_equal(engine_call(&d.engine, "GET", "/x", NULL, &wait_long, NULL, err), -1);
    engine_double_stop(&d);
}

static void test_absence_may_be_told_with_500(void **state)
{
    static const struct {
        const char *body;
        enum error_code code;
    } cases[] = {
        {"{\"cause\":\"no such container\",\"message\":\"no container with ID c0ffee: no such container\"}",
         ERR_NOT_FOUND},
        {"{\"cause\":\"container has already been removed\",\"message\":\"c0ffee\"}", ERR_NOT_FOUND},
        {"{\"cause\":\"no such container or worse\",\"message\":\"no such container\"}", ERR_UNAVAILABLE},
        {"{\"cause\":7,\"message\":\"no such container\"}", ERR_UNAVAILABLE},
        {"no such container", ERR_UNAVAILABLE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        be_refused_with_500(cases[i].body, &err);
        if (err.code != cases[i].code)
            fail_msg("%s: %s", cases[i].body, err.msg);
    }
}

static void test_refusals_are_shown_as_plain_text(void **state)
{
    char many[2000];
    memset(many, 'x', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    const struct {
        const char *body, *words;
    } cases[] = {
        {"{\"message\":\"no such image\"}", "docker answered 500: no such image"},
        {"{\"message\":\"a\\u001b[2J\\nb\"}", "docker answered 500: a [2J b"},
        {"{\"message\":\"caf\\u00e9\"}", "docker answered 500: caf\xc3\xa9"},
        {"plain text\r\n", "docker answered 500: plain text"},
        {"bad \xff\xfe bytes", "docker answered 500: bad \xef\xbf\xbd\xef\xbf\xbd bytes"},
        {"{\"message\":7}", "docker answered 500: {\"message\":7}"},
        {"", "docker answered 500: nothing more"},
        {many, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        be_refused_with_500(cases[i].body, &err);
        if (cases[i].words)
            assert_string_equal(err.msg, cases[i].words);
        else
            assert_true(strlen(err.msg) < 400);
    }
}

static void test_json_both_ways(void **state)
{
    static const struct engine_answer answers[] = {
        {.request = "POST /v1.41/good", .status = 200, .body = "{\"a\":1}"},
        {.request = "POST /v1.41/bad", .status = 200, .body = "{\"a\":1"},
        {0}};
    struct engine_double d;
    struct error err = ERROR_INIT;
    _cleanup_(cleanup_json_decref) json_t *sent = json_pack("{s:s}", "x", "\xc3\xa9"), *got = NULL;
    engine_double_start(&d, answers);
    assert_int_equal(engine_call(&d.engine, "POST", "/good", sent, &wait_long, &got, &err), 0);
    assert_int_equal(json_integer_value(json_object_get(got, "a")), 1);
    assert_string_equal(engine_double_seen(&d), "POST /v1.41/good {\"x\":\"\xc3\xa9\"}\n");
    json_decref(got);
    got = NULL;
    assert_int_equal(engine_call(&d.engine, "POST", "/bad", sent, &wait_long, &got, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_null(got);
    engine_double_stop(&d);
}

/* One that takes connections, and says nothing. */
static int listen_silently(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void test_connecting_holds_up_nobody(void **state)
{
    char dir[] = "/tmp/test-engine-XXXXXX";
    struct cancel *cancel = cancel_new();
    const struct wait over = {.deadline = DEADLINE_NONE, .cancel = cancel};
    struct error err = ERROR_INIT;
    assert_non_null(mkdtemp(dir));
    _cleanup_(cleanup_free) char *path = xasprintf("%s/silent.sock", dir);
    _cleanup_(cleanup_free) char *host = xasprintf("unix://%s", path);
    const int listener = listen_silently(path);
    struct backend *b =
        engine_new(&(struct engine_options){.engine = "docker", .docker_host = host, .state_dir = dir}, &err);
    assert_non_null(b);
    cancel_fire(cancel, ERR_CANCELLED);
    for (int times = 0; times < 2; times++) {
        assert_int_equal(b->ops->probe(b, &over, &err), -1);
        assert_int_equal(err.code, ERR_CANCELLED);
    }
    assert_null(b->ops->free(b));
    cancel_unref(cancel);
    fd_close(listener);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_version_is_agreed_on),
        cmocka_unit_test(test_what_an_engine_tells_of_itself),
        cmocka_unit_test(test_what_is_no_engine_for_us),
        cmocka_unit_test(test_statuses_are_codes),
        cmocka_unit_test(test_absence_may_be_told_with_500),
        cmocka_unit_test(test_refusals_are_shown_as_plain_text),
        cmocka_unit_test(test_json_both_ways),
        cmocka_unit_test(test_connecting_holds_up_nobody),
    };
    return cmocka_run_group_tests_name("engine: api", tests, NULL, NULL);
}
