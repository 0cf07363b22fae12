/* Tokens of Fly: what they may look like, and what of them is sent where. The first rows are fly-go's own
 * tests. */
#include <stdlib.h>
#include <string.h>

#include "backends/fly/token.h"
#include "tests/unit/base/check.h"
#include "tests/unit/backends/temporary.h"

static struct fly_token token;
static struct error err;

static int set_up(void **state)
{
    err = (struct error)ERROR_INIT;
    return temporary_make(state);
}

static int tear_down(void **state)
{
    fly_token_done(&token);
    return temporary_remove(state);
}

static void test_headers(void **state)
{
    static const struct {
        const char *text, *machines, *graphql;
    } rows[] = {
        {"foobar", "Bearer foobar", "Bearer foobar"},
        {"Bearer foobar", "Bearer foobar", "Bearer foobar"},
        {"FlyV1 foobar", "Bearer foobar", "Bearer foobar"},
        {"Bearer FlyV1 foobar", "Bearer foobar", "Bearer foobar"},
        {"FlyV1 Bearer foobar", "Bearer foobar", "Bearer foobar"},
        {"BEARER FLYV1 foobar", "Bearer foobar", "Bearer foobar"},
        {"fm2_foobar,foobar", "FlyV1 fm2_foobar", "FlyV1 fm2_foobar,foobar"},
        {"foobar,fm2_foobar", "FlyV1 fm2_foobar", "FlyV1 fm2_foobar,foobar"},
        {"fm2_foobar", "FlyV1 fm2_foobar", "FlyV1 fm2_foobar"},
        {"FlyV1 fm1r_a==, o1 ,fm1a_b/+,fm2_c,,o2\n", "FlyV1 fm1r_a==,fm1a_b/+,fm2_c",
         "FlyV1 fm1r_a==,fm1a_b/+,fm2_c,o1,o2"},
        {"o1,o2", "Bearer o1,o2", "Bearer o1,o2"},
        {"  Bearer   foobar  ", "Bearer foobar", "Bearer foobar"},
        {"fm3_new", "Bearer fm3_new", "Bearer fm3_new"},
        {"bearer", "Bearer bearer", "Bearer bearer"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(fly_token_parse("it", rows[i].text, &token, &err), 0);
        assert_string_equal(token.machines, rows[i].machines);
        assert_string_equal(token.graphql, rows[i].graphql);
        assert_string_equal(token.pieces, strchr(rows[i].graphql, ' ') + 1);
        fly_token_done(&token);
    }
}

static void test_what_is_none_is_refused_and_not_repeated(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        ",",
        " , ",
        "Bearer ",
        "FlyV1 Bearer ",
        "geheim\r\nHost: elsewhere",
        "geheim two",
        "fm2_geheim,\tb c",
        "geheim\x7f",
        "geh\xc3\xa9im",
        "fm2_a,geheim\n",
        "geheim\x01",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const bool fine = strcmp(texts[i], "fm2_a,geheim\n") == 0; /* a line of a file */
        assert_int_equal(fly_token_parse("FLY_X", texts[i], &token, &err), fine ? 0 : -1);
        if (!fine) {
            assert_int_equal(err.code, ERR_INVALID);
            assert_non_null(strstr(err.msg, "FLY_X"));
            assert_null(strstr(err.msg, "geh"));
        }
        fly_token_done(&token);
    }
    char *endless = malloc(100001);
    memset(endless, 'x', 100000);
    endless[100000] = '\0';
    assert_int_equal(fly_token_parse("FLY_X", endless, &token, &err), -1);
    free(endless);
}

/* The login cache. */
static int of_login(const char *text)
{
    fly_token_done(&token);
    temporary_file("config.yml", text);
    return fly_token_of_login(temporary, &token, &err);
}

static void test_the_login_of_flyctl(void **state)
{
    static const char *const ours[] = {
        "access_token: fm2_a,fm2_b\n",
        "access_token: FlyV1 fm2_a,fm2_b",
        "last_login: 2026-08-01T10:00:00Z\naccess_token: fm2_a,fm2_b\r\nmetrics_token: other\n",
        "access_token: \"fm2_a,fm2_b\"\n",
        "access_token:   'FlyV1 fm2_a,fm2_b'   \n",
        "# access_token: no\n\n  access_token: nested\nold_access_token: no\naccess_token: fm2_a,fm2_b\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
        assert_int_equal(of_login(ours[i]), 1);
        assert_string_equal(token.machines, "FlyV1 fm2_a,fm2_b");
    }
    static const char *const none[] = {
        "",
        "access_token:\n",
        "access_token: \"\"\n",
        "access_token: ''",
        "access_token: null\n",
        "access_tokens: a\n",
        "wire_guard_state:\n  access_token: nested\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_int_equal(of_login(none[i]), 0);
    assert_int_equal(of_login("access_token: >-\n  a b\n"), -1);
    assert_int_equal(of_login("access_token: geheim two\n"), -1);
    assert_non_null(strstr(err.msg, "config.yml"));
    assert_null(strstr(err.msg, "geheim"));
}

static void test_no_login_is_none_and_an_unreadable_one_an_error(void **state)
{
    assert_int_equal(fly_token_of_login("/nonexistent", &token, &err), 0);
    temporary_folder("config.yml");
    assert_int_equal(fly_token_of_login(temporary, &token, &err), -1);
    assert_non_null(strstr(err.msg, "config.yml"));
    temporary_file("home/.fly/config.yml", "access_token: of-home\n");
    _cleanup_(cleanup_free) char *home = temporary_path("home");
    setenv("HOME", home, 1);
    assert_int_equal(fly_token_of_login(NULL, &token, &err), 1);
    assert_string_equal(token.machines, "Bearer of-home");
    unsetenv("HOME");
    fly_token_done(&token);
    assert_int_equal(fly_token_of_login(NULL, &token, &err), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_headers),
        TEST(test_what_is_none_is_refused_and_not_repeated),
        TEST(test_the_login_of_flyctl),
        TEST(test_no_login_is_none_and_an_unreadable_one_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
