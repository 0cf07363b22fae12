/* Arguments of the exec tools: what is understood, and what is refused with which words. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "tools/exec_arguments.h"

static const struct exec_defaults COMPUTER = {PERSONALITY_COMPUTER, 120, 1000};
static const struct exec_defaults KILNTAINERS = {PERSONALITY_KILNTAINERS, 120, 1000};

/* Reads a JSON text; the parsed arguments live in *ret_json, which `a` borrows from. */
static int read_text(const char *text, const struct exec_defaults *defaults, json_t **ret_json,
                     struct exec_arguments *a, struct error *err)
{
    struct error why = ERROR_INIT;
    *ret_json = json_parse(text, strlen(text), &why);
    if (!*ret_json)
        fail_msg("the test's own JSON: %s: %s", text, why.msg);
    return exec_arguments_read(*ret_json, defaults, a, err);
}

static void refused_by(const char *text, const struct exec_defaults *defaults, const char *words)
{
    _cleanup_(cleanup_json_decref) json_t *json = NULL;
    _cleanup_(exec_arguments_done) struct exec_arguments a;
    struct error err = ERROR_INIT;
    if (read_text(text, defaults, &json, &a, &err) == 0)
        fail_msg("accepted: %s", text);
    assert_int_equal(err.code, ERR_INVALID);
    if (!strstr(err.msg, words))
        fail_msg("%s: '%s' does not say '%s'", text, err.msg, words);
}

static const struct {
    const char *arguments, *words;
} REFUSALS[] = {
    /* what to run */
    {"{}", "nothing to run"},
    {"{\"command\":\"\"}", "nothing to run"},
    {"{\"args\":[]}", "nothing to run"},
    {"{\"args\":\"[]\"}", "nothing to run"},
    {"{\"command\":null,\"args\":null}", "nothing to run"},
    {"{\"command\":\"ls\",\"args\":[\"ls\"]}", "'command' and 'args' are both given"},
    {"{\"args\":[\"\"]}", "element 0 of 'args' is empty"},
    {"{\"args\":[\"\",\"x\"]}", "element 0 of 'args' is empty"},
    /* types */
    {"{\"command\":5}", "'command' must be a string, and is a number"},
    {"{\"command\":[\"ls\"]}", "'command' must be a string, and is a list"},
    {"{\"args\":[\"ls\",5]}", "element 1 is a number"},
    {"{\"args\":\"ls -l\"}", "not the JSON text of one"},
    {"{\"args\":\"{}\"}", "not the JSON text of one"},
    {"{\"args\":{\"a\":\"b\"}}", "is an object"},
    {"{\"command\":\"ls\",\"env\":[\"A=1\"]}", "'env' must be an object of strings"},
    {"{\"command\":\"ls\",\"env\":\"A=1\"}", "'env' must be an object of strings"},
    {"{\"command\":\"ls\",\"env\":{\"A\":1}}", "'A' is a number: write it as a string"},
    {"{\"command\":\"ls\",\"temporary\":\"maybe\"}", "'temporary' must be true or false"},
    {"{\"command\":\"ls\",\"temporary\":1}", "'temporary' must be true or false"},
    {"{\"command\":\"ls\",\"computer_id\":7}", "'computer_id' must be a string"},
    {"{\"command\":\"ls\",\"output_encoding\":\"hex\"}", "must be \"text\" or \"base64\", and is \"hex\""},
    {"{\"command\":\"ls\",\"output_encoding\":1}", "must be \"text\" or \"base64\", and is a number"},
    /* numbers */
    {"{\"command\":\"ls\",\"timeout\":0}", "'timeout' is 0, and must be from 0.1 to 86400"},
    {"{\"command\":\"ls\",\"timeout\":-1}", "'timeout' is -1"},
    {"{\"command\":\"ls\",\"timeout\":1e9}", "'timeout' is 1000000000"},
    {"{\"command\":\"ls\",\"timeout\":86400.5}", "'timeout' is 86400.5"},
    {"{\"command\":\"ls\",\"timeout\":\"NaN\"}", "'timeout' must be a number from 0.1 to 86400"},
    {"{\"command\":\"ls\",\"timeout\":\"inf\"}", "'timeout' must be a number"},
    {"{\"command\":\"ls\",\"timeout\":\"30s\"}", "'timeout' must be a number"},
    {"{\"command\":\"ls\",\"timeout\":\"3\\u00000\"}", "'timeout' must be a number"},
    {"{\"command\":\"ls\",\"timeout\":true}",
     "'timeout' must be a number from 0.1 to 86400 seconds, and is a boolean"},
    {"{\"command\":\"ls\",\"output_limit\":0}", "'output_limit' is 0, and must be from 1 to 8388608"},
    {"{\"command\":\"ls\",\"output_limit\":1.5}", "must be a whole number"},
    {"{\"command\":\"ls\",\"output_limit\":99999999}", "'output_limit' is 99999999"},
    /* stdin */
    {"{\"command\":\"cat\",\"stdin\":\"a\",\"stdin_base64\":\"YQ==\"}",
     "'stdin' and 'stdin_base64' are both given"},
    {"{\"command\":\"cat\",\"stdin_base64\":\"YQ=\"}", "'stdin_base64' cannot be decoded"},
    {"{\"command\":\"cat\",\"stdin_base64\":\"YW*j\"}", "2"}, /* where */
    /* places */
    {"{\"command\":\"ls\",\"working_directory\":\"tmp\"}", "'working_directory' is 'tmp', which is relative"},
    {"{\"command\":\"ls\",\"working_directory\":\"./tmp\"}", "relative"},
    {"{\"command\":\"ls\",\"computer_id\":\"My Box\"}", "use 1 to 63 characters of a-z, 0-9 and '-'"},
    {"{\"command\":\"ls\",\"computer_id\":\"../x\"}", "use 1 to 63 characters"},
    {"{\"command\":\"ls\",\"computer_id\":\" \"}", "use 1 to 63 characters"},
    /* NUL */
    {"{\"command\":\"a\\u0000b\"}", "'command' contains a NUL"},
    {"{\"args\":[\"a\",\"b\\u0000\"]}", "NUL character in element 1"},
    {"{\"command\":\"ls\",\"working_directory\":\"/a\\u0000\"}", "'working_directory' contains a NUL"},
    {"{\"command\":\"ls\",\"computer_id\":\"a\\u0000\"}", "'computer_id' contains a NUL"},
    {"{\"command\":\"ls\",\"env\":{\"A\":\"\\u0000\"}}", "NUL character in 'A'"},
    /* names of variables */
    {"{\"command\":\"ls\",\"env\":{\"A=B\":\"1\"}}", "names cannot contain '='"},
    {"{\"command\":\"ls\",\"env\":{\"\":\"1\"}}", "an empty name"},
    /* mistyped and foreign names */
    {"{\"comand\":\"ls\"}", "there is no argument 'comand': use 'command'"},
    {"{\"commnads\":\"ls\"}", "use 'command'"},
    {"{\"Command\":\"ls\"}", "use 'command'"},
    {"{\"command\":\"ls\",\"timout\":5}", "use 'timeout'"},
    {"{\"command\":\"ls\",\"working-directory\":\"/\"}", "use 'working_directory'"},
    {"{\"command\":\"ls\",\"computerid\":\"a\"}", "use 'computer_id'"},
    {"{\"command\":\"ls\",\"cwd\":\"/\"}", "there is no argument 'cwd': use 'working_directory'"},
    {"{\"command\":\"ls\",\"workdir\":\"/\"}", "use 'working_directory'"},
    {"{\"cmd\":\"ls\"}", "use 'command'"},
    {"{\"command\":\"ls\",\"id\":\"a\"}", "use 'computer_id'"},
    {"{\"command\":\"ls\",\"timeout_ms\":5}", "use 'timeout'"},
    {"{\"command\":\"ls\",\"environment\":{}}", "use 'env'"},
};

static void refusals(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(REFUSALS); i++)
        refused_by(REFUSALS[i].arguments, &COMPUTER, REFUSALS[i].words);
}

static void accepted(const char *text, const struct exec_defaults *defaults, json_t **ret_json,
                     struct exec_arguments *a)
{
    struct error err = ERROR_INIT;
    if (read_text(text, defaults, ret_json, a, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
}

static void defaults_hold(void **state)
{
    _cleanup_(cleanup_json_decref) json_t *json = NULL;
    _cleanup_(exec_arguments_done) struct exec_arguments a;
    accepted(
        "{\"command\":\"ls\",\"args\":null,\"stdin\":\"\",\"stdin_base64\":null,\"working_directory\":\"\","
        "\"timeout\":null,"
        "\"env\":{},\"output_encoding\":\"\",\"output_limit\":null,\"computer_id\":\"\",\"temporary\":null}",
        &COMPUTER, &json, &a);
    struct exec_request r = exec_arguments_request(&a);
    assert_string_equal(r.command, "ls");
    assert_int_equal(r.command_len, 2);
    assert_null(r.argv);
    assert_null(r.cwd);
    assert_null(r.env);
    assert_null(r.stdin_bytes);
    assert_int_equal(r.output_limit, 1000);
    assert_true(a.timeout_s == 120);
    assert_null(a.id);
    assert_int_equal(a.lifetime, LIFETIME_AS_IS);
    assert_int_equal(a.encoding, ENCODING_TEXT);
    assert_null(a.ignored);
}

static void everything_is_read(void **state)
{
    _cleanup_(cleanup_json_decref) json_t *json = NULL;
    _cleanup_(exec_arguments_done) struct exec_arguments a;
    accepted("{\"args\":[\"grep\",\"\",\"a "
             "b\"],\"stdin\":\"x\\u0000y\",\"working_directory\":\"/tmp\",\"timeout\":0.5,"
             "\"env\":{\"A\":\"1\",\"B\":\"\"},\"output_encoding\":\"base64\",\"output_limit\":77,\"computer_"
             "id\":\" otter \","
             "\"temporary\":false}",
             &COMPUTER, &json, &a);
    struct exec_request r = exec_arguments_request(&a);
    assert_null(r.command);
    assert_int_equal(strv_len(r.argv), 3);
    assert_string_equal(r.argv[0], "grep");
    assert_string_equal(r.argv[1], "");
    assert_string_equal(r.argv[2], "a b");
    assert_int_equal(r.stdin_len, 3); /* NUL is a byte like any other there */
    assert_memory_equal(r.stdin_bytes, "x\0y", 3);
    assert_string_equal(r.cwd, "/tmp");
    assert_true(a.timeout_s == 0.5);
    assert_string_equal(r.env[0], "A=1");
    assert_string_equal(r.env[1], "B=");
    assert_null(r.env[2]);
    assert_int_equal(r.output_limit, 77);
    assert_int_equal(a.encoding, ENCODING_BASE64);
    assert_string_equal(a.id, "otter"); /* blanks around it are cut, as the peers do */
    assert_int_equal(a.lifetime, LIFETIME_PERMANENT);
}

static void lenient_forms(void **state)
{
    _cleanup_(cleanup_json_decref) json_t *json = NULL;
    _cleanup_(exec_arguments_done) struct exec_arguments a;
    accepted("{\"args\":\"[\\\"echo\\\",\\\"hi\\\"]\",\"timeout\":\"30\",\"output_limit\":\"5\","
             "\"temporary\":\"true\"}",
             &COMPUTER, &json, &a);
    assert_int_equal(strv_len(a.argv), 2);
    assert_string_equal(a.argv[1], "hi");
    assert_true(a.timeout_s == 30);
    assert_int_equal(a.output_limit, 5);
    assert_int_equal(a.lifetime, LIFETIME_TEMPORARY);
}

static void base64_stdin(void **state)
{
    _cleanup_(cleanup_json_decref) json_t *json = NULL;
    _cleanup_(exec_arguments_done) struct exec_arguments a;
    accepted("{\"command\":\"wc -c\",\"stdin_base64\":\"AAEC/w==\"}", &COMPUTER, &json, &a);
    struct exec_request r = exec_arguments_request(&a);
    assert_int_equal(r.stdin_len, 4);
    assert_memory_equal(r.stdin_bytes, "\x00\x01\x02\xff", 4);
}

static void foreign_names_are_ignored_and_named(void **state)
{
    _cleanup_(cleanup_json_decref) json_t *json = NULL;
    _cleanup_(exec_arguments_done) struct exec_arguments a;
    accepted("{\"command\":\"ls\",\"explanation\":\"why\",\"is_background\":true}", &COMPUTER, &json, &a);
    assert_int_equal(json_array_size(a.ignored), 2);
    assert_string_equal(json_string_value(json_array_get(a.ignored, 0)), "explanation");
    assert_string_equal(json_string_value(json_array_get(a.ignored, 1)), "is_background");
}

static void kilntainers_knows_no_computers(void **state)
{
    _cleanup_(cleanup_json_decref) json_t *json = NULL;
    _cleanup_(exec_arguments_done) struct exec_arguments a;
    accepted("{\"command\":\"ls\",\"computer_id\":\"No Slug\",\"temporary\":false,\"id\":\"x\"}",
             &KILNTAINERS, &json, &a);
    assert_null(a.id);
    assert_int_equal(a.lifetime, LIFETIME_AS_IS);
    assert_int_equal(json_array_size(a.ignored), 3);
    refused_by("{\"command\":\"ls\",\"cwd\":\"/\"}", &KILNTAINERS, "use 'working_directory'");
}

/* -- Sizes: at the limit, and one more */

static char *repeat(const char *head, char c, size_t n, const char *tail)
{
    struct buf b = BUF_INIT(16 * MIB);
    assert_int_equal(buf_append_str(&b, head), 0);
    assert_int_equal(buf_reserve(&b, n), 0);
    memset(b.data + b.len, c, n);
    b.len += n;
    assert_int_equal(buf_append_str(&b, tail), 0);
    return buf_steal(&b);
}

static void one_size(const char *head, const char *tail, size_t max, const char *number)
{
    json_t *json = NULL;
    struct exec_arguments a;
    char *fits = repeat(head, '/', max, tail), *too_long = repeat(head, '/', max + 1, tail);
    accepted(fits, &COMPUTER, &json, &a);
    refused_by(too_long, &COMPUTER, number);
    exec_arguments_done(&a);
    json_decref(json);
    free(fits);
    free(too_long);
}

static void sizes(void **state)
{
    one_size("{\"command\":\"", "\"}", LIMIT_COMMAND_BYTES, "1048576");
    one_size("{\"command\":\"cat\",\"stdin\":\"", "\"}", LIMIT_STDIN_BYTES, "2097152");
    one_size("{\"args\":[\"", "\"]}", LIMIT_ARG_BYTES - 1, "131071");
    one_size("{\"command\":\"ls\",\"working_directory\":\"", "\"}", LIMIT_CWD_BYTES - 1, "4095");
    one_size("{\"command\":\"ls\",\"env\":{\"A\":\"", "\"}}", LIMIT_ARG_BYTES - 3, "131070");
}

static void decoded_stdin_has_the_same_limit(void **state)
{
    const size_t quads = LIMIT_STDIN_BYTES / 3; /* 2 MiB = 3 * quads + 2 */
    _cleanup_(cleanup_json_decref) json_t *json = NULL;
    _cleanup_(exec_arguments_done) struct exec_arguments a;
    _cleanup_(cleanup_free) char *fits =
        repeat("{\"command\":\"cat\",\"stdin_base64\":\"", 'A', quads * 4, "AAA=\"}");
    _cleanup_(cleanup_free) char *too_long =
        repeat("{\"command\":\"cat\",\"stdin_base64\":\"", 'A', quads * 4, "AAAA\"}");
    accepted(fits, &COMPUTER, &json, &a);
    assert_int_equal(a.stdin_bytes.len, LIMIT_STDIN_BYTES);
    refused_by(too_long, &COMPUTER, "2097152");
}

static void counts_and_totals(void **state)
{
    struct buf many = BUF_INIT(16 * MIB), heavy = BUF_INIT(16 * MIB), env = BUF_INIT(16 * MIB);
    assert_int_equal(buf_append_str(&many, "{\"args\":[\"a\""), 0);
    for (int i = 0; i < LIMIT_ARGS_COUNT; i++)
        assert_int_equal(buf_append_str(&many, ",\"a\""), 0);
    assert_int_equal(buf_append_str(&many, "]}"), 0);
    refused_by(buf_str(&many), &COMPUTER, "4097 elements, and 4096 are the maximum");

    _cleanup_(cleanup_free) char *big = repeat("\"", 'x', 120000, "\"");
    assert_int_equal(buf_printf(&heavy, "{\"args\":[%s", big), 0);
    for (int i = 0; i < 9; i++)
        assert_int_equal(buf_printf(&heavy, ",%s", big), 0);
    assert_int_equal(buf_append_str(&heavy, "]}"), 0);
    refused_by(buf_str(&heavy), &COMPUTER, "1048576 bytes in all");

    assert_int_equal(
        buf_printf(&env, "{\"command\":\"ls\",\"env\":{\"A\":%s,\"B\":%s,\"C\":%s}}", big, big, big), 0);
    refused_by(buf_str(&env), &COMPUTER, "262144 bytes in all");
    buf_done(&many);
    buf_done(&heavy);
    buf_done(&env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(defaults_hold),
        cmocka_unit_test(everything_is_read),
        cmocka_unit_test(lenient_forms),
        cmocka_unit_test(base64_stdin),
        cmocka_unit_test(foreign_names_are_ignored_and_named),
        cmocka_unit_test(kilntainers_knows_no_computers),
        cmocka_unit_test(sizes),
        cmocka_unit_test(decoded_stdin_has_the_same_limit),
        cmocka_unit_test(counts_and_totals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
