/* ~/.modal.toml: which profile is taken, and what is refused with its line. */
#include "backends/modal/profile.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"

static const char three[] = "# as `modal setup` leaves it\n"
                            "[default]\n"
                            "token_id = \"ak-default\"\n"
                            "\n"
                            "[\"work\"]  # quoted\r\n"
                            "token_id = 'ak-work'\r\n"
                            "token_secret = \"as-\\u0077ork\"\n"
                            "environment = \"dev\"\n"
                            "server_url = \"https://example.com\"\n"
                            "image_builder_version = \"2024.10\"\n"
                            "loglevel = \"DEBUG\"\n"
                            "retries = 3\n"
                            "sandbox_v2 = false\n"
                            "active = true\n"
                            "[other]\n"
                            "token_id = \"ak-other\"";

static int parse(const char *text, const char *name, struct modal_profile *ret, struct error *err)
{
    *ret = (struct modal_profile){.sandbox_v2 = -1};
    return modal_profile_parse("FILE", text, strlen(text), name, ret, err);
}

static void the_named_one_else_the_active_one_else_the_default(void **state)
{
    static const struct {
        const char *name, *text, *token_id;
    } cases[] = {
        {NULL, three, "ak-work"},
        {"work", three, "ak-work"},
        {"other", three, "ak-other"},
        {"default", three, "ak-default"},
        {NULL, "[a]\ntoken_id=\"1\"\n[default]\ntoken_id=\"2\"\n", "2"},
        {NULL, "[a]\ntoken_id=\"1\"\nactive=true\n[default]\ntoken_id=\"2\"\n", "1"},
        {NULL, "[default]\ntoken_id=\"2\"\n[a]\nactive=true\ntoken_id=\"1\"\n", "1"},
        {NULL, "[a]\ntoken_id=\"1\"\nactive=false\n", NULL},
        {NULL, "token_id=\"of no table\"\n", NULL},
        {NULL, "", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        _cleanup_(modal_profile_done) struct modal_profile p;
        assert_int_equal(parse(cases[i].text, cases[i].name, &p, &err), 0);
        if (cases[i].token_id)
            assert_string_equal(p.token_id, cases[i].token_id);
        else
            assert_null(p.token_id);
    }
}

static void all_of_it_is_read(void **state)
{
    struct error err = ERROR_INIT;
    _cleanup_(modal_profile_done) struct modal_profile p, bare;
    assert_int_equal(parse(three, NULL, &p, &err), 0);
    assert_string_equal(p.token_secret, "as-work");
    assert_string_equal(p.environment, "dev");
    assert_string_equal(p.server_url, "https://example.com");
    assert_string_equal(p.builder_version, "2024.10");
    assert_int_equal(p.sandbox_v2, 0);
    assert_int_equal(parse("[default]\nenvironment = \"\"\n", NULL, &bare, &err), 0);
    assert_null(bare.environment);
    assert_int_equal(bare.sandbox_v2, -1);
}

static void what_is_wrong_is_told_with_its_line(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"[a\n", "FILE:1: the name of a table lacks its ]"},
        {"[a]\nx\n", "FILE:2: a name lacks its ="},
        {"[a]\nx = [1]\n", "FILE:2: x must be a text in quotes"},
        {"[a]\n\n= 1\n", "FILE:3: expected a [table]"},
        {"[a]\ntoken_id = 1\n", "FILE:2: token_id must be in quotes"},
        {"[a]\ntoken_id = \"1\"\ntoken_id = \"1\"\n", "FILE:3: token_id is given twice"},
        {"[a]\nactive = 7\n", "FILE:2: active must be true or false"},
        {"[a]\nx = \"1\" y\n", "FILE:2: something follows"},
        {"[a]\nx = \"1\n", "FILE:2: the text has no closing"},
        {"[a]\nx = \"\xff\"\n", "FILE:2: is not valid UTF-8"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        struct modal_profile p;
        assert_int_equal(parse(cases[i].text, NULL, &p, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        assert_non_null(strstr(err.msg, cases[i].words));
    }
}

static void a_profile_that_is_named_must_be_there(void **state)
{
    struct error err = ERROR_INIT;
    struct modal_profile p;
    assert_int_equal(parse(three, "nobody", &p, &err), -1);
    assert_non_null(strstr(err.msg, "FILE has no profile [nobody]"));
    assert_null(strstr(err.msg, "as-"));
    assert_int_equal(modal_profile_read("/nonexistent/file", NULL, &p, &err), 0);
    assert_null(p.token_id);
    assert_int_equal(modal_profile_read("/nonexistent/file", "work", &p, &err), -1);
    assert_int_equal(modal_profile_read("/", NULL, &p, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_named_one_else_the_active_one_else_the_default),
        cmocka_unit_test(all_of_it_is_read),
        cmocka_unit_test(what_is_wrong_is_told_with_its_line),
        cmocka_unit_test(a_profile_that_is_named_must_be_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
