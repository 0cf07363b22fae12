/* Containers that are computers, by their labels, whoever made them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/engine/private.h"
#include "base/clock.h"
#include "tests/unit/backends/engine_double.h"
#include "tests/unit/base/check.h"

#define LOOK(name) "GET /v1.41/containers/" name "/json"
#define KEY "0123456789abcdef"

static const struct wait wait_long = {.deadline = DEADLINE_NONE};

struct world {
    struct engine_double engine;
    struct engine_backend backend;
};

static void begin(struct world *w, const struct engine_answer *answers)
{
    *w = (struct world){0};
    engine_double_start(&w->engine, answers);
    w->backend.engine = &w->engine.engine;
    pthread_mutex_init(&w->backend.lock, NULL);
}

static void end(struct world *w)
{
    engine_double_stop(&w->engine);
    pthread_mutex_destroy(&w->backend.lock);
}

/* --- one --- */

#define LABELLED(labels)                                                                                     \
    "{\"Id\":\"c0ffee\",\"State\":{\"Running\":true},\"Config\":{\"Labels\":{" labels "}}}"

static void keep(void *ctx, struct backend_found *f)
{
    struct backend_found *kept = ctx;
    assert_null(kept->id);
    *kept = *f;
    *f = (struct backend_found){0};
}

static void test_one_is_found_if_it_is_that_computer(void **state)
{
    static const struct {
        int status;
        const char *body;
        int r;
    } cases[] = {
        {404, "{\"message\":\"No such container\"}", 0},
        {200, LABELLED("\"kilntainers.computer-id\":\"box\",\"kilntainers.temporary\":\"true\""), 1},
        {200,
         LABELLED("\"kilntainers.computer-id\":\"box\",\"kilntainers.temporary\":\"true\","
                  "\"kilntainers.principal\":\"local\""),
         1},
        {200,
         LABELLED("\"kilntainers.computer-id\":\"box\",\"kilntainers.temporary\":\"true\","
                  "\"kilntainers.principal\":\"alice\""),
         -1},
        {200, LABELLED("\"kilntainers.computer-id\":\"other\",\"kilntainers.temporary\":\"true\""), -1},
        {200, LABELLED("\"kilntainers.computer-id\":\"box\""), -1},
        {200, LABELLED("\"kilntainers.computer-id\":7,\"kilntainers.temporary\":\"true\""), -1},
        {200, LABELLED(""), -1},
        {200, "{\"Id\":\"c0ffee\",\"Config\":{\"Labels\":null}}", -1},
        {200, "{\"Id\":\"c0ffee\"}", -1},
        {200, "no JSON", -1},
        {500, "{\"message\":\"out of order\"}", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct engine_answer answers[] = {
            {.request = LOOK("kilntainer-box"), .status = cases[i].status, .body = cases[i].body}, {0}};
        const struct computer_spec spec = {.id = "box", .principal = "local", .key = KEY};
        struct world w;
        struct backend_found found = {0};
        struct error err = ERROR_INIT;
        begin(&w, answers);
        int r = engine_find(&w.backend.base, &spec, &wait_long, keep, &found, &err);
        r = r == 0 && found.id ? 1 : r;
        if (r != cases[i].r)
            fail_msg("%s: %d, %s", cases[i].body, r, err.msg);
        if (r < 0)
            assert_int_equal(err.code, ERR_UNAVAILABLE);
        if (r == 1) {
            assert_string_equal(found.id, "box");
            assert_string_equal(found.principal, "local");
            assert_true(found.temporary);
            assert_string_equal(json_string_value(json_object_get(found.data, "container")), "c0ffee");
            assert_string_equal(json_string_value(json_object_get(found.data, "address")), w.engine.path);
        }
        backend_found_done(&found);
        end(&w);
    }
}

/* --- all --- */

static void note(void *ctx, struct backend_found *f)
{
    struct buf *seen = ctx;
    assert_int_equal(buf_printf(seen, "%s.%s %s key=%s owner=%s/%s/%s/%s/%s\n", f->principal, f->id,
                                f->temporary ? "temporary" : "permanent", f->key, f->owner.machine,
                                f->owner.boot, f->owner.pid, f->owner.start, f->owner.state),
                     0);
}

static void note_state(void *ctx, struct backend_found *f)
{
    struct buf *seen = ctx;
    assert_int_equal(buf_printf(seen, "%s %s%s %s %s %s\n", f->id, f->running ? "runs" : "rests",
                                f->aside ? " aside" : "", f->created_at[0] ? f->created_at : "-",
                                f->provider_id, f->image[0] ? f->image : "-"),
                     0);
}

static const char list[] =
    "[{\"Id\":\"a\",\"Labels\":{\"kilntainers\":\"true\",\"kilntainers.computer-id\":\"pythons\","
    "\"kilntainers.temporary\":"
    "\"false\",\"kilntainers.image\":\"debian\"}},"
    "{\"Id\":\"b\",\"Labels\":{\"kilntainers.computer-id\":\"ours\",\"kilntainers.temporary\":\"true\","
    "\"kilntainers.principal\":\"alice\",\"kilntainers.key\":\"" KEY "\",\"kilntainers.owner.machine\":\"m\","
    "\"kilntainers.owner.boot\":\"b\",\"kilntainers.owner.pid\":\"1\",\"kilntainers.owner.start\":\"2\","
    "\"kilntainers.owner.state\":\"s\"}},"
    "{\"Id\":\"c\",\"Labels\":{\"kilntainers.computer-id\":\"forged\",\"kilntainers.temporary\":\"TRUE\","
    "\"kilntainers.key\":\"../../../etc/pwd\",\"kilntainers.owner.pid\":\"123456789012345678901234567890\"}},"
    "{\"Id\":\"d\",\"Labels\":{\"kilntainers.computer-id\":\"no-mode\"}},"
    "{\"Id\":\"e\",\"Labels\":{}},{\"Id\":\"f\",\"Labels\":null},{\"Id\":\"g\"},"
    "{\"Labels\":{\"kilntainers.computer-id\":\"no-id\",\"kilntainers.temporary\":\"true\"}},7,null,[]]";

static void test_all_are_listed_with_what_their_labels_say(void **state)
{
    static const struct engine_answer answers[] = {
        {.request =
             "GET "
             "/v1.41/containers/json?all=1&filters=%7B%22label%22%3A%5B%22kilntainers.computer-id%22%5D%7D",
         .status = 200,
         .body = list},
        {0}};
    struct world w;
    struct error err = ERROR_INIT;
    _cleanup_(buf_done) struct buf seen = BUF_INIT(4096);
    begin(&w, answers);
    if (engine_list(&w.backend.base, &wait_long, note, &seen, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(buf_str(&seen), "local.pythons permanent key= owner=////\n"
                                        "alice.ours temporary key=" KEY " owner=m/b/1/2/s\n"
                                        "local.forged permanent key= owner=//123456789012345//\n");
    end(&w);
}

#define BOX "\"Labels\":{\"kilntainers.computer-id\":\"box\",\"kilntainers.temporary\":\"true\"}"

static const char states[] =
    "[{\"Id\":\"a\",\"Names\":[\"/kilntainer-box\"],\"State\":\"running\",\"Created\":1700000000,"
    "\"Image\":\"debian\"," BOX "},"
    "{\"Id\":\"b\",\"Names\":[\"/other/link\",\"kilntainer-box\"],\"State\":\"paused\"," BOX "},"
    "{\"Id\":\"c\",\"Names\":[\"/kilntainer-box_" KEY "\"],\"State\":\"exited\",\"Image\":\"sha256:0\","
    "\"Labels\":{\"kilntainers.computer-id\":\"box\",\"kilntainers.temporary\":\"true\","
    "\"kilntainers.image\":\"busybox\"}},"
    "{\"Id\":\"d\",\"Names\":[7],\"State\":7,\"Created\":-1,\"Image\":[]," BOX "},"
    "{\"Id\":\"e\",\"Created\":9223372036854775807,\"State\":\"created\"," BOX "}]";

static void test_a_list_tells_states(void **state)
{
    static const struct engine_answer answers[] = {
        {.request = "GET /v1.41/containers/json", .status = 200, .body = states}, {0}};
    struct world w;
    _cleanup_(buf_done) struct buf seen = BUF_INIT(4096);
    begin(&w, answers);
    assert_int_equal(engine_list(&w.backend.base, &wait_long, note_state, &seen, NULL), 0);
    assert_string_equal(buf_str(&seen), "box runs 2023-11-14T22:13:20.000Z a debian\n"
                                        "box runs - b -\n"
                                        "box rests aside - c busybox\n"
                                        "box rests aside - d -\n"
                                        "box rests aside - e -\n");
    end(&w);
}

static void test_lists_that_are_none(void **state)
{
    static const struct {
        int status;
        const char *body;
        int r;
    } cases[] = {{200, "[]", 0}, {200, "{}", 0}, {200, "[", -1}, {200, "", -1}, {500, "[]", -1}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct engine_answer answers[] = {
            {.request = "GET /v1.41/containers/json", .status = cases[i].status, .body = cases[i].body}, {0}};
        struct world w;
        struct error err = ERROR_INIT;
        _cleanup_(buf_done) struct buf seen = BUF_INIT(4096);
        begin(&w, answers);
        assert_int_equal(engine_list(&w.backend.base, &wait_long, note, &seen, &err), cases[i].r);
        assert_int_equal(seen.len, 0);
        end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_is_found_if_it_is_that_computer),
        cmocka_unit_test(test_all_are_listed_with_what_their_labels_say),
        cmocka_unit_test(test_a_list_tells_states),
        cmocka_unit_test(test_lists_that_are_none),
    };
    return cmocka_run_group_tests_name("engine: found", tests, NULL, NULL);
}
