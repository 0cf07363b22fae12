/* The set of tools as protocol/ sees it: the list, calls, deadlines; over the fake backend. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "fakes/fake_backend.h"
#include "tools/tools.h"

struct world {
    char *state_dir;
    struct backend *backend;
    struct computers *computers;
    struct computer_session *session;
    struct toolset *tools;
    const char *tool;
};

static void world_init_leased(struct world *w, enum personality personality, const struct fake_hooks *hooks,
                              double lease_s)
{
    struct error err = ERROR_INIT;
    w->state_dir = xstrdup("/tmp/tools-XXXXXX");
    assert_non_null(mkdtemp(w->state_dir));
    w->backend = fake_backend_new(BACKEND_PERSISTENT, hooks);
    w->computers =
        computers_new(&(struct computers_options){.state_dir = w->state_dir, .backend = w->backend});
    w->session = lease_s > 0 ? computer_session_new_leased(w->computers, "local", lease_s)
                             : computer_session_new(w->computers, "local");
    w->tools = toolset_new(&(struct toolset_options){.personality = personality,
                                                     .default_timeout_s = 60,
                                                     .output_limit = 10000,
                                                     .lease_s = lease_s,
                                                     .backend = w->backend},
                           &err);
    if (!w->tools)
        fail_msg("%s", err.msg);
    w->tool = personality == PERSONALITY_COMPUTER ? "terminal_execute" : "sandbox_exec";
}

static void world_init(struct world *w, enum personality personality, const struct fake_hooks *hooks)
{
    world_init_leased(w, personality, hooks, 0);
}

static void world_done(struct world *w)
{
    assert_int_equal(computer_session_end(w->session, DEADLINE_NONE, NULL), 0);
    computers_free(w->computers);
    toolset_free(w->tools);
    w->backend->ops->free(w->backend);
    tree_remove(AT_FDCWD, w->state_dir, NULL);
    free(w->state_dir);
}

/* Calls the tool; the structured content, a new reference. */
static json_t *call(struct world *w, const char *arguments, bool is_error)
{
    _cleanup_(cleanup_json_decref) json_t *json =
        arguments ? json_parse(arguments, strlen(arguments), NULL) : NULL;
    _cleanup_(buf_done) struct buf ret = BUF_INIT(LIMIT_RESULT_BYTES), object = BUF_INIT(LIMIT_RESULT_BYTES);
    struct error err = ERROR_INIT;
    const struct tool_call c = {.name = w->tool, .arguments = json, .session = w->session};
    if (toolset_call(w->tools, &c, &ret, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true((err.code != ERR_NONE) == is_error); /* for who counts such things */
    assert_int_equal(buf_printf(&object, "{%s}", buf_str(&ret)), 0);
    _cleanup_(cleanup_json_decref) json_t *result = json_parse(object.data, object.len, NULL);
    assert_non_null(result);
    if (json_is_true(json_object_get(result, "isError")) != is_error)
        fail_msg("%s", buf_str(&object));
    return json_incref(json_object_get(result, "structuredContent"));
}

static json_t *the_tool(const struct toolset *t)
{
    size_t len;
    const char *text = toolset_list(t, &len);
    _cleanup_(cleanup_json_decref) json_t *list = json_parse(text, len, NULL);
    assert_int_equal(json_array_size(list), 1);
    return json_incref(json_array_get(list, 0));
}

static void check_properties(const json_t *schema, const char *const *names)
{
    const char *key;
    json_t *value;
    size_t i = 0;
    json_t *properties = json_object_get(schema, "properties");
    json_object_foreach (properties, key, value) {
        assert_string_equal(key, names[i++]);
        assert_null(json_object_get(value, "default")); /* some clients send defaults back */
        assert_true(strlen(json_get_string(value, "description")) > 0);
    }
    assert_null(names[i]);
}

static void the_list_of_computer(void **state)
{
    static const char *const NAMES[] = {"command",           "args",        "stdin",     "stdin_base64",
                                        "working_directory", "timeout",     "env",       "output_encoding",
                                        "output_limit",      "computer_id", "temporary", NULL};
    struct world w;
    world_init(&w, PERSONALITY_COMPUTER, NULL);
    assert_true(toolset_has(w.tools, "terminal_execute"));
    assert_false(toolset_has(w.tools, "sandbox_exec"));
    _cleanup_(cleanup_json_decref) json_t *tool = the_tool(w.tools);
    assert_string_equal(json_get_string(tool, "name"), "terminal_execute");
    check_properties(json_object_get(tool, "inputSchema"), NAMES);
    assert_string_equal(json_get_string(json_object_get(tool, "outputSchema"), "type"), "object");
    const json_t *hints = json_object_get(tool, "annotations");
    assert_true(json_is_false(json_object_get(hints, "readOnlyHint")));
    assert_true(json_is_true(json_object_get(hints, "destructiveHint")));
    _cleanup_(cleanup_free) char *meta = json_dumps(json_object_get(tool, "_meta"), JSON_COMPACT);
    assert_string_equal(meta, "{\"ui\":{\"visibility\":[\"model\",\"app\"]}}");
    world_done(&w);
}

static void the_list_of_kilntainers(void **state)
{
    static const char *const NAMES[] = {"command",           "args",    "stdin", "stdin_base64",
                                        "working_directory", "timeout", "env",   "output_encoding",
                                        "output_limit",      NULL};
    struct world w;
    world_init(&w, PERSONALITY_KILNTAINERS, NULL);
    assert_false(toolset_has(w.tools, "terminal_execute"));
    _cleanup_(cleanup_json_decref) json_t *tool = the_tool(w.tools);
    assert_string_equal(json_get_string(tool, "name"), "sandbox_exec");
    check_properties(json_object_get(tool, "inputSchema"), NAMES);
    assert_null(json_object_get(tool, "_meta"));
    world_done(&w);
}

static char *description_of(enum personality personality, double lease_s, const char *override,
                            const char *extra)
{
    struct backend *b = fake_backend_new(0, NULL);
    struct toolset *t = toolset_new(&(struct toolset_options){.personality = personality,
                                                              .lease_s = lease_s,
                                                              .backend = b,
                                                              .default_timeout_s = 45.5,
                                                              .output_limit = 4096,
                                                              .description_override = override,
                                                              .description_extra = extra},
                                    NULL);
    _cleanup_(cleanup_json_decref) json_t *tool = the_tool(t);
    char *text = xstrdup(json_get_string(tool, "description"));
    toolset_free(t);
    b->ops->free(b);
    return text;
}

static char *description(const char *override, const char *extra)
{
    return description_of(PERSONALITY_COMPUTER, 0, override, extra);
}

/* The same number of lines: each transport has its own of one of them. */
static void what_holds_a_computer_depends_on_the_transport(void **state)
{
    static const enum personality BOTH[] = {PERSONALITY_COMPUTER, PERSONALITY_KILNTAINERS};
    for (size_t i = 0; i < ARRAY_LEN(BOTH); i++) {
        _cleanup_(cleanup_free) char *stdio = description_of(BOTH[i], 0, NULL, NULL);
        _cleanup_(cleanup_free) char *http = description_of(BOTH[i], 300, NULL, NULL);
        assert_null(strstr(stdio, "2026-07-28"));
        assert_non_null(strstr(http, "2026-07-28"));
        assert_null(strpbrk(stdio, "{}"));
        assert_null(strpbrk(http, "{}"));
        assert_int_equal(strncmp(strrchr(stdio, '\n'), "\n- ", 3), 0);
        assert_int_equal(strncmp(strrchr(http, '\n'), "\n- ", 3), 0);
        assert_int_equal(strrchr(stdio, '\n') - stdio, strrchr(http, '\n') - http);
        assert_true((strstr(http, "300 seconds") != NULL) == (BOTH[i] == PERSONALITY_COMPUTER));
    }
}

static void descriptions(void **state)
{
    _cleanup_(cleanup_free) char *own = description(NULL, NULL);
    static const char *const WORDS[] = {"a folder of the machine that runs the tests",
                                        "Shell: sh.",
                                        "that of the machine",
                                        "no limits",
                                        "45.5 seconds",
                                        "4096 bytes",
                                        "working_directory",
                                        "stdin"};
    for (size_t i = 0; i < ARRAY_LEN(WORDS); i++)
        if (!strstr(own, WORDS[i]))
            fail_msg("no '%s' in: %s", WORDS[i], own);
    assert_null(strchr(own, '{'));
    _cleanup_(cleanup_free) char *replaced = description("My {shell} words", NULL);
    assert_string_equal(replaced, "My {shell} words");
    _cleanup_(cleanup_free) char *extended = description(NULL, "And more.");
    _cleanup_(cleanup_free) char *expected = xasprintf("%s\n\nAnd more.", own);
    assert_string_equal(extended, expected);
}

static void commands_share_one_computer(void **state)
{
    struct world w;
    world_init(&w, PERSONALITY_COMPUTER, NULL);
    _cleanup_(cleanup_json_decref) json_t *first =
        call(&w, "{\"command\":\"cat > f\",\"stdin\":\"kept\"}", false);
    _cleanup_(cleanup_json_decref) json_t *second = call(&w, "{\"args\":[\"cat\",\"f\"]}", false);
    assert_true(json_is_true(json_object_get(first, "created")));
    assert_null(json_object_get(second, "created"));
    assert_string_equal(json_get_string(first, "computer_id"), json_get_string(second, "computer_id"));
    assert_string_equal(json_get_string(second, "stdout"), "kept");
    assert_true(json_is_true(json_object_get(second, "temporary")));
    _cleanup_(cleanup_json_decref) json_t *named =
        call(&w, "{\"command\":\"ls\",\"computer_id\":\"otter\",\"temporary\":false,\"why\":1}", false);
    assert_string_equal(json_get_string(named, "computer_id"), "otter");
    assert_string_equal(json_get_string(named, "stdout"), "");
    assert_true(json_is_false(json_object_get(named, "temporary")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(named, "ignored_arguments"), 0)),
                        "why");
    world_done(&w);
}

static void without_a_session_a_call_says_what_to_pass(void **state)
{
    struct world w;
    world_init_leased(&w, PERSONALITY_COMPUTER, NULL, 300);
    _cleanup_(cleanup_json_decref) json_t *first = call(&w, "{\"command\":\"echo 1 > f\"}", false);
    _cleanup_(cleanup_json_decref) json_t *second = call(&w, "{\"command\":\"ls\"}", false);
    const char *id = json_get_string(first, "computer_id");
    assert_string_not_equal(id, json_get_string(second, "computer_id"));
    assert_string_equal(json_get_string(second, "stdout"), "");
    assert_int_equal(json_integer_value(json_object_get(first, "expires_in_s")), 300);
    _cleanup_(cleanup_free) char *pass = xasprintf("pass computer_id '%s'", id);
    assert_non_null(strstr(json_get_string(first, "note"), pass));

    _cleanup_(cleanup_free) char *again = xasprintf("{\"command\":\"cat f\",\"computer_id\":\"%s\"}", id);
    _cleanup_(cleanup_json_decref) json_t *third = call(&w, again, false);
    assert_string_equal(json_get_string(third, "stdout"), "1\n");
    assert_int_equal(json_integer_value(json_object_get(third, "expires_in_s")), 300);
    assert_null(json_object_get(third, "note"));

    _cleanup_(cleanup_json_decref) json_t *named =
        call(&w, "{\"command\":\"ls\",\"computer_id\":\"otter\"}", false);
    assert_true(json_is_true(json_object_get(named, "created")));
    assert_null(json_object_get(named, "note")); /* who has given the id knows it */
    _cleanup_(cleanup_json_decref) json_t *kept =
        call(&w, "{\"command\":\"ls\",\"computer_id\":\"heron\",\"temporary\":false}", false);
    assert_null(json_object_get(kept, "expires_in_s"));
    world_done(&w);
}

/* Nobody could name the sandbox in another call, so that none stays. */
static void without_a_session_a_sandbox_is_for_one_call(void **state)
{
    struct world w;
    world_init_leased(&w, PERSONALITY_KILNTAINERS, NULL, 300);
    for (int i = 1; i <= 2; i++) {
        _cleanup_(cleanup_json_decref) json_t *o = call(&w, "{\"command\":\"ls; touch f\"}", false);
        assert_string_equal(json_get_string(o, "stdout"), "");
        assert_true(json_is_true(json_object_get(o, "created")));
        assert_null(json_object_get(o, "expires_in_s"));
        assert_int_equal(fake_backend_counts(w.backend).created, i);
        assert_int_equal(fake_backend_counts(w.backend).live, 0);
    }
    world_done(&w);
}

static void kilntainers_calls(void **state)
{
    struct world w;
    world_init(&w, PERSONALITY_KILNTAINERS, NULL);
    json_decref(call(&w, "{\"command\":\"true\"}", false));
    _cleanup_(cleanup_json_decref) json_t *o = call(&w, "{\"command\":\"echo hi; exit 3\"}", false);
    json_object_set_new(o, "exec_duration_ms", json_integer(1));
    _cleanup_(cleanup_free) char *text = json_dumps(o, JSON_COMPACT);
    assert_string_equal(text,
                        "{\"stdout\":\"hi\\n\",\"stderr\":\"\",\"exit_code\":3,\"exec_duration_ms\":1}");
    world_done(&w);
}

static void refused_calls_make_nothing(void **state)
{
    struct world w;
    world_init(&w, PERSONALITY_COMPUTER, NULL);
    static const char *const ROWS[] = {NULL,
                                       "{}",
                                       "{\"comand\":\"ls\"}",
                                       "{\"command\":\"ls\",\"timeout\":0}",
                                       "{\"command\":\"ls\",\"computer_id\":\"Not A Slug\"}",
                                       "{\"command\":\"ls\",\"working_directory\":\"relative\"}"};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        _cleanup_(cleanup_json_decref) json_t *o = call(&w, ROWS[i], true);
        assert_string_equal(json_get_string(o, "code"), "invalid_argument");
        assert_true(strlen(json_get_string(o, "error")) > 0);
    }
    assert_int_equal(fake_backend_counts(w.backend).created, 0);
    world_done(&w);
}

static void failures_are_results(void **state)
{
    struct world w;
    world_init(&w, PERSONALITY_COMPUTER, NULL);
    _cleanup_(cleanup_json_decref) json_t *cwd =
        call(&w, "{\"command\":\"ls\",\"working_directory\":\"/nope\"}", true);
    assert_string_equal(json_get_string(cwd, "code"), "cwd_not_found");
    json_decref(
        call(&w, "{\"command\":\"ls\",\"computer_id\":\"otter\",\"working_directory\":\"/nope\"}", true));
    assert_int_equal(fake_backend_counts(w.backend).live, 0); /* none for a call that was refused */
    _cleanup_(cleanup_json_decref) json_t *otter =
        call(&w, "{\"command\":\"ls\",\"computer_id\":\"otter\"}", false);
    assert_true(json_is_true(json_object_get(otter, "created")));
    _cleanup_(cleanup_json_decref) json_t *other =
        call(&w, "{\"command\":\"ls\",\"computer_id\":\"otter\",\"temporary\":false}", true);
    assert_string_equal(json_get_string(other, "code"), "invalid_argument");
    fake_backend_crash(w.backend, "otter");
    _cleanup_(cleanup_json_decref) json_t *gone =
        call(&w, "{\"command\":\"ls\",\"computer_id\":\"otter\"}", true);
    assert_string_equal(json_get_string(gone, "code"), "computer_gone");
    _cleanup_(cleanup_json_decref) json_t *again =
        call(&w, "{\"command\":\"ls\",\"computer_id\":\"otter\"}", false);
    assert_true(json_is_true(json_object_get(again, "created")));
    world_done(&w);
}

static void a_timeout_is_a_result(void **state)
{
    struct world w;
    world_init(&w, PERSONALITY_COMPUTER, NULL);
    _cleanup_(cleanup_json_decref) json_t *o =
        call(&w, "{\"command\":\"echo so far; sleep 300\",\"timeout\":0.3}", false);
    assert_string_equal(json_get_string(o, "stdout"), "so far\n");
    assert_string_equal(json_get_string(o, "stderr"), "[kilntainers: command timed out after 0.3s]");
    assert_int_equal(json_integer_value(json_object_get(o, "exit_code")), 124);
    world_done(&w);
}

static void cancelled_calls_say_nothing(void **state)
{
    struct world w;
    _cleanup_(buf_done) struct buf ret = BUF_INIT(LIMIT_RESULT_BYTES);
    _cleanup_(cleanup_json_decref) json_t *arguments = json_pack("{s:s}", "command", "true");
    _cleanup_(cleanup_cancel_unref) struct cancel *cancel = cancel_new();
    struct error err = ERROR_INIT;
    world_init(&w, PERSONALITY_COMPUTER, NULL);
    cancel_fire(cancel, ERR_CANCELLED);
    const struct tool_call c = {
        .name = w.tool, .arguments = arguments, .session = w.session, .cancel = cancel};
    assert_int_equal(toolset_call(w.tools, &c, &ret, &err), -1);
    assert_int_equal(err.code, ERR_CANCELLED);
    assert_int_equal(ret.len, 0);
    assert_int_equal(fake_backend_counts(w.backend).live, 0);
    world_done(&w);
}

static void what_is_the_protocols(void **state)
{
    struct world w;
    _cleanup_(buf_done) struct buf ret = BUF_INIT(LIMIT_RESULT_BYTES);
    _cleanup_(cleanup_json_decref) json_t *list = json_array();
    struct error err = ERROR_INIT;
    world_init(&w, PERSONALITY_COMPUTER, NULL);
    const struct tool_call unknown = {.name = "no_such_tool", .session = w.session};
    assert_int_equal(toolset_call(w.tools, &unknown, &ret, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    const struct tool_call odd = {.name = w.tool, .arguments = list, .session = w.session};
    assert_int_equal(toolset_call(w.tools, &odd, &ret, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    world_done(&w);
}

static void deadlines(void **state)
{
    static const struct {
        const char *timeout; /* JSON; NULL: absent */
        double seconds;
    } ROWS[] = {{NULL, 60},  {"5", 5},      {"\"7.5\"", 7.5}, {"0", 60},
                {"1e9", 60}, {"\"x\"", 60}, {"null", 60},     {"[]", 60}};
    struct world w;
    world_init(&w, PERSONALITY_COMPUTER, NULL);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        _cleanup_(cleanup_free) char *text =
            ROWS[i].timeout ? xasprintf("{\"timeout\":%s}", ROWS[i].timeout) : xstrdup("{}");
        _cleanup_(cleanup_json_decref) json_t *arguments = json_parse(text, strlen(text), NULL);
        const struct tool_call c = {.name = w.tool, .arguments = arguments};
        int64_t before = clock_deadline_after(ROWS[i].seconds);
        int64_t deadline = toolset_deadline(w.tools, &c);
        assert_true(deadline >= before && deadline <= clock_deadline_after(ROWS[i].seconds));
    }
    const struct tool_call none = {.name = w.tool};
    assert_true(toolset_deadline(w.tools, &none) <= clock_deadline_after(60));
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_of_computer),
        cmocka_unit_test(the_list_of_kilntainers),
        cmocka_unit_test(descriptions),
        cmocka_unit_test(commands_share_one_computer),
        cmocka_unit_test(what_holds_a_computer_depends_on_the_transport),
        cmocka_unit_test(without_a_session_a_call_says_what_to_pass),
        cmocka_unit_test(without_a_session_a_sandbox_is_for_one_call),
        cmocka_unit_test(kilntainers_calls),
        cmocka_unit_test(refused_calls_make_nothing),
        cmocka_unit_test(failures_are_results),
        cmocka_unit_test(a_timeout_is_a_result),
        cmocka_unit_test(cancelled_calls_say_nothing),
        cmocka_unit_test(what_is_the_protocols),
        cmocka_unit_test(deadlines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
