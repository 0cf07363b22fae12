/* Images: what is there, what is pulled, who waits for it and who gives up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backends/engine/image.h"
#include "base/clock.h"
#include "base/log.h"
#include "temporary.h"
#include "tests/unit/backends/image_engine.h"

#define DEBIAN "debian:bookworm-slim"
#define HEX16 "0123456789abcdef"
#define DIGEST "sha256:" HEX16 HEX16 HEX16 HEX16
#define IMAGE_FOR(os, architecture)                                                                          \
    "{\"Id\":\"sha256:abc\",\"Os\":\"" os "\",\"Architecture\":\"" architecture                              \
    "\",\"Config\":{\"User\":\"nobody\"}}"
#define IMAGE IMAGE_FOR("linux", "amd64")
#define SEND(text)                                                                                           \
    {                                                                                                        \
        PULL_SEND, text, 0                                                                                   \
    }
#define AWAIT(text)                                                                                          \
    {                                                                                                        \
        PULL_AWAIT, text, 0                                                                                  \
    }
#define LAYER(id) "{\"status\":\"Pulling fs layer\",\"progressDetail\":{},\"id\":\"" id "\"}\r\n"
#define STATE(id, status) "{\"status\":\"" status "\",\"progressDetail\":{},\"id\":\"" id "\"}\r\n"
#define LOADING(id, current, total)                                                                          \
    "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":" current ",\"total\":" total               \
    "},\"id\":\"" id "\"}\r\n"

static const struct pull_step quick[] = {SEND(LAYER("a") STATE("a", "Pull complete")), {PULL_END}};
static const struct pull_step hangs[] = {{PULL_HOLD}};
/* For callers with listeners, who are told two things and then no more. */
static const struct pull_step waits[] = {
    AWAIT("from docker.io"), SEND(LAYER("a")), {PULL_GO}, SEND(STATE("a", "Pull complete")), {PULL_END}};
static const struct pull_step waits_for_ever[] = {AWAIT("from docker.io"), SEND(LAYER("a")), {PULL_HOLD}};
static const struct pull_step begins_and_hangs[] = {SEND(LAYER("a")), {PULL_HOLD}};

static int set_up(void **state)
{
    if (temporary_make(state) < 0)
        return -1;
    setenv("HOME", temporary, 1);
    setenv("XDG_RUNTIME_DIR", temporary, 1);
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("DOCKER_CONFIG");
    unsetenv("REGISTRY_AUTH_FILE");
    return 0;
}

/* One call, as its own thread makes it. */
struct call {
    struct image_engine *f;
    struct images *images;
    const char *image, *platform;
    const struct progress *progress;
    struct cancel *cancel;
    int64_t deadline;
    pthread_t thread;

    int result;
    struct image found;
    struct error err;
};

static void *make_call(void *arg)
{
    struct call *c = arg;
    struct reference r;
    const struct wait wait = {.deadline = c->deadline ? c->deadline : DEADLINE_NONE, .cancel = c->cancel};
    if (reference_parse(c->image ? c->image : DEBIAN, &r, NULL) < 0)
        abort();
    c->result =
        image_ensure(c->images, &c->f->engine, &r, c->platform, c->progress, &wait, &c->found, &c->err);
    return NULL;
}

static void start(struct call *c, struct image_engine *f, struct images *images)
{
    *c = (struct call){.f = f, .images = images, .progress = &f->progress, .cancel = cancel_new()};
    assert_int_equal(pthread_create(&c->thread, NULL, make_call, c), 0);
}

static void finish(struct call *c)
{
    pthread_join(c->thread, NULL);
    cancel_unref(c->cancel);
}

/* A call from start to end, on this thread. */
static struct call run(struct image_engine *f, struct call c)
{
    image_engine_start(f);
    struct images *images = c.images;
    c.f = f;
    c.images = images ? images : images_new();
    make_call(&c);
    assert_null(images_free(c.images));
    image_engine_stop(f);
    return c;
}

static void assert_image(const struct call *c)
{
    if (c->result < 0)
        fail_msg("%s", c->err.msg);
    assert_string_equal(c->found.os, "linux");
    assert_string_equal(c->found.user, "nobody");
}

static void assert_failed(const struct call *c, enum error_code code, const char *words)
{
    assert_int_equal(c->result, -1);
    if (c->err.code != code || !strstr(c->err.msg, words))
        fail_msg("'%s' is not in: %s: %s", words, error_code_name(c->err.code), c->err.msg);
    assert_string_equal(c->found.os, "");
}

static void assert_asked(const struct image_engine *f, const char *part)
{
    if (!strstr(f->head, part))
        fail_msg("'%s' is not in: %s", part, f->head);
}

static void what_is_there_is_not_pulled(void **state)
{
    struct image_engine f = {.before = IMAGE};
    struct call c = run(&f, (struct call){0});
    assert_image(&c);
    assert_string_equal(c.found.architecture, "amd64");
    assert_int_equal(f.pulls, 0);
}

static void what_is_absent_is_pulled_as_one_image(void **state)
{
    static const struct {
        const char *image, *query;
    } rows[] = {
        {"debian", "?fromImage=debian&tag=latest HTTP"},
        {DEBIAN, "?fromImage=debian&tag=bookworm-slim HTTP"},
        {"localhost:5000/x", "?fromImage=localhost%3A5000%2Fx&tag=latest HTTP"},
        {"team/x@" DIGEST, "?fromImage=team%2Fx&tag=sha256%3A" HEX16 HEX16 HEX16 HEX16 " HTTP"},
        {"team/x:1@" DIGEST, "?fromImage=team%2Fx&tag=sha256%3A" HEX16 HEX16 HEX16 HEX16 " HTTP"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct image_engine f = {.after = IMAGE, .steps = quick};
        struct call c = run(&f, (struct call){.image = rows[i].image});
        assert_image(&c);
        assert_int_equal(f.pulls, 1);
        assert_asked(&f, rows[i].query);
        assert_null(strcasestr(f.head, "x-registry-auth"));
    }
}

static void platform_decides_whether_it_is_there(void **state)
{
    static const struct {
        const char *platform, *query;
    } rows[] = {
        {"linux/amd64", NULL},
        {"linux/x86_64", NULL},
        {"amd64", NULL},
        {"linux", NULL},
        {"linux/arm64", "&platform=linux%2Farm64 HTTP"},
        {"linux/arm64/v8", "&platform=linux%2Farm64%2Fv8 HTTP"},
        {"aarch64", "&platform=aarch64 HTTP"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct image_engine f = {.before = IMAGE, .after = IMAGE_FOR("linux", "arm64"), .steps = quick};
        struct call c = run(&f, (struct call){.platform = rows[i].platform});
        assert_image(&c);
        assert_int_equal(f.pulls, rows[i].query != NULL);
        assert_string_equal(c.found.architecture, rows[i].query ? "arm64" : "amd64");
        if (rows[i].query)
            assert_asked(&f, rows[i].query);
    }
    struct image_engine f = {.before = IMAGE, .after = IMAGE, .steps = quick};
    struct call c = run(&f, (struct call){.platform = "linux/s390x"});
    assert_failed(&c, ERR_UNSUPPORTED, "is for linux/amd64, not for linux/s390x");
}

static void progress_tells_layers_and_bytes(void **state)
{
    static const struct pull_step steps[] = {
        AWAIT("pulling debian:bookworm-slim from docker.io"),
        SEND(LAYER("a") LAYER("b")),
        AWAIT("pulling debian:bookworm-slim: 0 of 2 layers"),
        SEND(LOADING("a", "1500000", "30000000") LOADING("b", "2000000", "18100000")),
        AWAIT("pulling debian:bookworm-slim: 0 of 2 layers, 3.5 of 48.1 MB"),
        SEND(STATE("a", "Download complete")),
        AWAIT("pulling debian:bookworm-slim: 1 of 2 layers, 32.0 of 48.1 MB"),
        SEND(STATE("b", "Download complete")),
        AWAIT("pulling debian:bookworm-slim: 2 of 2 layers, 48.1 of 48.1 MB, unpacking"),
        SEND(STATE("a", "Pull complete") STATE("b", "Pull complete")),
        {PULL_END},
    };
    struct image_engine f = {.after = IMAGE, .steps = steps};
    struct call c = run(&f, (struct call){.progress = &f.progress});
    assert_image(&c);
}

static void without_a_listener_the_log_tells(void **state)
{
    _cleanup_(cleanup_free) char *path = temporary_path("log");
    assert_int_equal(log_open("test", LOG_INFO, false, path, NULL), 0);
    struct image_engine f = {.after = IMAGE, .steps = quick};
    struct call c = run(&f, (struct call){0});
    log_close();
    assert_image(&c);
    struct buf text = BUF_INIT(4096);
    assert_int_equal(file_read(AT_FDCWD, path, &text, NULL), 0);
    assert_non_null(strstr(text.data, "pulling debian:bookworm-slim"));
    assert_non_null(strstr(text.data, "pulled debian:bookworm-slim"));
    buf_done(&text);
}

static void credentials_go_with_the_pull(void **state)
{
    temporary_file(".docker/config.json", "{\"auths\": {\"localhost:5000\": {\"auth\": \"bWU6cHc=\"}}}");
    struct image_engine f = {.after = IMAGE, .steps = quick};
    struct call c = run(&f, (struct call){.image = "localhost:5000/x"});
    assert_image(&c);
    /* {"username":"me","password":"pw","serveraddress":"localhost:5000"} */
    assert_asked(&f,
                 "X-Registry-Auth: eyJ1c2VybmFtZSI6Im1lIiwicGFzc3dvcmQiOiJwdyIsInNlcnZlcmFkZHJlc3MiOiJsb2Nh"
                 "bGhvc3Q6NTAwMCJ9\r\n");
}

static void broken_credentials_matter_only_if_some_are_needed(void **state)
{
    temporary_file(".docker/config.json", "{\"credsStore\": \"nosuch\"}");
    struct image_engine f = {.after = IMAGE, .steps = quick};
    struct call c = run(&f, (struct call){0});
    assert_image(&c);
    struct image_engine g = {.pull_status = 500, .pull_body = "{\"message\":\"unauthorized\"}"};
    c = run(&g, (struct call){0});
    assert_failed(&c, ERR_DENIED, "docker-credential-nosuch is not in PATH");
}

static void refusals_name_the_registry_and_its_words(void **state)
{
    static const struct {
        int status;
        const char *message;
        enum error_code code;
        const char *words;
    } rows[] = {
        {404, "manifest for x not found: manifest unknown", ERR_NOT_FOUND, "from localhost:5000: "},
        {404, "manifest for x not found: manifest unknown", ERR_NOT_FOUND, "manifest unknown"},
        {404, "pull access denied for x", ERR_DENIED, "to log in: docker login localhost:5000"},
        {500, "no basic auth credentials", ERR_DENIED, "to log in: docker login localhost:5000"},
        {500, "no matching manifest for linux/s390x", ERR_UNSUPPORTED, "linux/s390x"},
        {500, "dial tcp 127.0.0.1:5000: connection refused", ERR_UNAVAILABLE, "connection refused"},
        {400, "invalid platform", ERR_INVALID, "invalid platform"},
        {500, "one\\ntwo\\u001b[31m\\u009b", ERR_UNAVAILABLE, "one two [31m"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char body[200], object[300];
        snprintf(body, sizeof(body), "{\"message\":\"%s\"}", rows[i].message);
        struct image_engine f = {.pull_status = rows[i].status, .pull_body = body};
        struct call c = run(&f, (struct call){.image = "localhost:5000/x"});
        assert_failed(&c, rows[i].code, rows[i].words);
        if (rows[i].status == 400)
            continue;
        /* The same amid an answer that began well. */
        snprintf(object, sizeof(object), "{\"errorDetail\":%s,\"error\":\"\"}", body);
        const struct pull_step steps[] = {SEND(LAYER("a")), SEND(object), {PULL_HOLD}};
        struct image_engine g = {.steps = steps};
        c = run(&g, (struct call){.image = "localhost:5000/x"});
        assert_failed(&c, rows[i].code, rows[i].words);
    }
}

static void long_words_leave_room_for_what_to_do(void **state)
{
    char body[4000];
    memset(body, 'x', sizeof(body));
    memcpy(body, "{\"message\":\"unauthorized ", 25);
    memcpy(body + sizeof(body) - 3, "\"}", 3);
    struct image_engine f = {.pull_status = 500, .pull_body = body};
    struct call c = run(&f, (struct call){.image = "localhost:5000/x"});
    assert_failed(&c, ERR_DENIED, "to log in: docker login localhost:5000");
}

static void an_engine_out_of_order_is_told_from_an_absent_image(void **state)
{
    struct image_engine f = {.inspect_status = 500};
    struct call c = run(&f, (struct call){0});
    assert_failed(&c, ERR_UNAVAILABLE, "out of order");
    assert_int_equal(f.pulls, 0);
    struct image_engine g = {.before = "{}"};
    c = run(&g, (struct call){0});
    assert_failed(&c, ERR_UNAVAILABLE, "without an id");
    struct image_engine h = {.before = "[1"};
    c = run(&h, (struct call){0});
    assert_failed(&c, ERR_UNAVAILABLE, "JSON");
}

static void a_pull_that_left_nothing_is_told(void **state)
{
    struct image_engine f = {.steps = quick};
    struct call c = run(&f, (struct call){0});
    assert_failed(&c, ERR_UNAVAILABLE, "which was just pulled");
}

static void answers_that_are_none_are_refused(void **state)
{
    static const struct pull_step garbage[] = {SEND("<html>"), {PULL_HOLD}};
    static const struct pull_step half[] = {SEND("{\"status\":"), {PULL_END}};
    static const struct pull_step cut[] = {SEND(LAYER("a")), {PULL_CUT}};
    static const struct {
        const struct pull_step *steps;
        const char *words;
    } rows[] = {{garbage, "no JSON"}, {half, "cut short"}, {cut, DEBIAN}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct image_engine f = {.after = IMAGE, .steps = rows[i].steps};
        struct call c = run(&f, (struct call){0});
        assert_failed(&c, ERR_UNAVAILABLE, rows[i].words);
    }
}

static void a_hanging_registry_is_given_up(void **state)
{
    struct image_engine f = {.steps = hangs};
    struct call c = run(&f, (struct call){.images = images_new_limited(600, 0.2)});
    assert_failed(&c, ERR_TIMEOUT, "the registry docker.io sent nothing for 0.2 s");
    assert_int_equal(f.pulls_closed, 1);
    struct image_engine g = {.steps = begins_and_hangs};
    c = run(&g, (struct call){.images = images_new_limited(600, 0.2)});
    assert_failed(&c, ERR_TIMEOUT, "the registry docker.io sent nothing for 0.2 s");
    assert_int_equal(g.pulls_closed, 1);
}

static void unpacking_in_silence_is_no_hanging(void **state)
{
    static const struct pull_step steps[] = {
        SEND(LAYER("a") STATE("a", "Download complete")),
        {PULL_PAUSE, NULL, 1000},
        SEND(STATE("a", "Pull complete")),
        {PULL_END},
    };
    struct image_engine f = {.after = IMAGE, .steps = steps};
    struct call c = run(&f, (struct call){.images = images_new_limited(600, 0.3)});
    assert_image(&c);
}

static void a_pull_has_a_limit_in_all(void **state)
{
    struct image_engine f = {.steps = begins_and_hangs};
    struct call c = run(&f, (struct call){.images = images_new_limited(0.2, 600)});
    assert_failed(&c, ERR_TIMEOUT, "not done after 0.2 s");
}

/* Where all is slow, a short one is over before the pull has begun. */
static void a_caller_has_a_limit_of_its_own(void **state)
{
    int pulls = 0;
    for (double limit_s = 0.3; pulls == 0 && limit_s < 60; limit_s *= 2) {
        struct image_engine f = {.steps = begins_and_hangs};
        struct call c = run(&f, (struct call){.deadline = clock_deadline_after(limit_s)});
        pulls = f.pulls_closed;
        assert_failed(&c, ERR_TIMEOUT,
                      pulls > 0 ? "pull debian:bookworm-slim: the time limit was reached" : "");
    }
    assert_int_equal(pulls, 1);
}

static void a_hanging_pull_can_be_cancelled(void **state)
{
    struct image_engine f = {.steps = hangs};
    struct images *images = images_new();
    struct call c;
    image_engine_start(&f);
    start(&c, &f, images);
    image_engine_await_tells(&f, 1);
    cancel_fire(c.cancel, ERR_DELETED);
    finish(&c);
    assert_failed(&c, ERR_DELETED, "pull debian:bookworm-slim: ");
    images_free(images);
    image_engine_stop(&f);
}

/* Both wait for the same pull when this returns. */
static void start_two(struct call *a, struct call *b, struct image_engine *f, struct images *images)
{
    image_engine_start(f);
    start(a, f, images);
    image_engine_await_tells(f, 2); /* then no more comes */
    start(b, f, images);
    image_engine_await_tells(f, 3);
}

static void two_callers_share_one_pull(void **state)
{
    struct image_engine f = {.after = IMAGE, .steps = waits};
    struct images *images = images_new();
    struct call a, b;
    start_two(&a, &b, &f, images);
    image_engine_go(&f);
    finish(&a);
    finish(&b);
    assert_image(&a);
    assert_image(&b);
    assert_int_equal(f.pulls, 1);
    images_free(images);
    image_engine_stop(&f);
}

static void the_first_may_leave_while_the_second_goes_on(void **state)
{
    struct image_engine f = {.after = IMAGE, .steps = waits};
    struct images *images = images_new();
    struct call a, b;
    start_two(&a, &b, &f, images);
    cancel_fire(a.cancel, ERR_CANCELLED);
    finish(&a);
    assert_failed(&a, ERR_CANCELLED, "cancelled");
    image_engine_go(&f);
    finish(&b);
    assert_image(&b);
    assert_int_equal(f.pulls, 1);
    images_free(images);
    image_engine_stop(&f);
}

static void the_last_to_leave_ends_it(void **state)
{
    struct image_engine f = {.steps = waits_for_ever};
    struct images *images = images_new();
    struct call a, b;
    start_two(&a, &b, &f, images);
    cancel_fire(b.cancel, ERR_CANCELLED);
    finish(&b);
    assert_failed(&b, ERR_CANCELLED, "cancelled");
    assert_int_equal(f.pulls_closed, 0);
    cancel_fire(a.cancel, ERR_CANCELLED);
    finish(&a);
    assert_failed(&a, ERR_CANCELLED, "cancelled");
    image_engine_await_closed(&f, 1);
    assert_int_equal(f.pulls, 1);
    images_free(images);
    image_engine_stop(&f);
}

static void a_failure_is_everybodys(void **state)
{
    static const struct pull_step steps[] = {AWAIT("from docker.io"),
                                             SEND(LAYER("a")),
                                             {PULL_GO},
                                             SEND("{\"error\":\"manifest unknown\"}"),
                                             {PULL_HOLD}};
    struct image_engine f = {.steps = steps};
    struct images *images = images_new();
    struct call a, b;
    start_two(&a, &b, &f, images);
    image_engine_go(&f);
    finish(&a);
    finish(&b);
    assert_failed(&a, ERR_NOT_FOUND, "manifest unknown");
    assert_failed(&b, ERR_NOT_FOUND, "manifest unknown");
    assert_int_equal(f.pulls, 1);
    images_free(images);
    image_engine_stop(&f);
}

static void after_a_failure_it_is_tried_anew(void **state)
{
    struct image_engine f = {.pull_status = 500, .pull_body = "{\"message\":\"busy\"}"};
    struct images *images = images_new();
    image_engine_start(&f);
    struct call c = {.f = &f, .images = images};
    make_call(&c);
    assert_failed(&c, ERR_UNAVAILABLE, "busy");
    f.pull_status = 0;
    f.steps = quick;
    f.after = IMAGE;
    make_call(&c);
    assert_image(&c);
    assert_int_equal(f.pulls, 2);
    images_free(images);
    image_engine_stop(&f);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, temporary_remove)
    const struct CMUnitTest tests[] = {
        CASE(what_is_there_is_not_pulled),
        CASE(what_is_absent_is_pulled_as_one_image),
        CASE(platform_decides_whether_it_is_there),
        CASE(progress_tells_layers_and_bytes),
        CASE(without_a_listener_the_log_tells),
        CASE(credentials_go_with_the_pull),
        CASE(broken_credentials_matter_only_if_some_are_needed),
        CASE(refusals_name_the_registry_and_its_words),
        CASE(long_words_leave_room_for_what_to_do),
        CASE(an_engine_out_of_order_is_told_from_an_absent_image),
        CASE(a_pull_that_left_nothing_is_told),
        CASE(answers_that_are_none_are_refused),
        CASE(a_hanging_registry_is_given_up),
        CASE(unpacking_in_silence_is_no_hanging),
        CASE(a_pull_has_a_limit_in_all),
        CASE(a_caller_has_a_limit_of_its_own),
        CASE(a_hanging_pull_can_be_cancelled),
        CASE(two_callers_share_one_pull),
        CASE(the_first_may_leave_while_the_second_goes_on),
        CASE(the_last_to_leave_ends_it),
        CASE(a_failure_is_everybodys),
        CASE(after_a_failure_it_is_tried_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
