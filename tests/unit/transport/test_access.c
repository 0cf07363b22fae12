/* Who gets in: hosts and origins, tokens and their file, and how long a refusal takes. */
#include "transport/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "tests/unit/base/check.h"

#define TOKEN "correct horse"
#define SESAME_DIGEST                                                                                        \
    "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7" /* printf open-sesame | sha256sum */

static char token_path[64];

static int make_file(void **state)
{
    snprintf(token_path, sizeof(token_path), "/tmp/test-access-XXXXXX");
    int fd = mkstemp(token_path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    return unlink(token_path);
}

static void write_tokens(const char *text)
{
    FILE *f = fopen(token_path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static struct access *open_access(const struct access_options *options)
{
    struct error err = ERROR_INIT;
    struct access *a = access_new(options, &err);
    if (!a)
        fail_msg("%s", err.msg);
    return a;
}

static bool admits(const struct access *a, const char *host, const char *origin)
{
    const char *why = NULL;
    bool admitted = access_admit(a, &(struct access_request){.host = host, .origin = origin}, &why);
    assert_true(admitted || (why && strlen(why) > 10));
    return admitted;
}

static const char *identify(const struct access *a, const char *authorization)
{
    const char *why = NULL;
    const char *who = access_identify(a, &(struct access_request){.authorization = authorization}, &why);
    assert_true(who || (why && strlen(why) > 10));
    return who;
}

static void a_loopback_listener_answers_to_loopback_names_only(void **state)
{
    static const char *const ours[] = {"localhost", "localhost:8435", "LOCALHOST:1", "127.0.0.1:8435",
                                       "127.9.9.9", "[::1]:8435",     "[::1]"};
    static const char *const others[] = {"evil.example",
                                         "evil.example:8435",
                                         "localhost.evil.example",
                                         "127.0.0.1.evil.example",
                                         "0.0.0.0:8435",
                                         "",
                                         ":80",
                                         "[::1",
                                         "[]",
                                         "localhost:80x",
                                         "localhost:12345678",
                                         "user@localhost",
                                         "10.0.0.1",
                                         "localhost/",
                                         "[::1]x",
                                         "127.0.0.256",
                                         "local host"};
    struct access *a = open_access(&(struct access_options){.host = "127.0.0.1"});
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        assert_true(admits(a, ours[i], NULL));
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_false(admits(a, others[i], NULL));
    assert_false(admits(a, NULL, NULL));
    access_free(a);
}

static void pages_of_other_origins_stay_out(void **state)
{
    char *origins[] = {(char[]){"https://app.example"}, NULL};
    struct access *a = open_access(&(struct access_options){.host = "127.0.0.1", .allowed_origins = origins});
    assert_true(admits(a, "localhost:8435", "http://localhost:8435"));
    assert_true(admits(a, "localhost:8435", "https://app.example"));
    assert_true(access_is_listed_origin(a, "https://app.example"));
    assert_false(access_is_listed_origin(a, "http://localhost:8435"));
    static const char *const others[] = {"http://localhost:3000",
                                         "http://localhost",
                                         "https://app.example.evil",
                                         "http://app.example",
                                         "null",
                                         "",
                                         "localhost:8435",
                                         "://",
                                         "http://evil.example/localhost:8435"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_false(admits(a, "localhost:8435", others[i]));
    access_free(a);
}

static void a_token_makes_up_for_unknown_names(void **state)
{
    char *hosts[] = {(char[]){"box.example"}, NULL};
    struct access *guarded = open_access(&(struct access_options){.host = "0.0.0.0", .token = TOKEN});
    struct access *named =
        open_access(&(struct access_options){.host = "0.0.0.0", .token = TOKEN, .allowed_hosts = hosts});
    struct access *open = open_access(&(struct access_options){.host = "0.0.0.0"});
    struct access *bound = open_access(&(struct access_options){.host = "10.1.2.3"});
    assert_true(admits(guarded, "anything.example", NULL));
    assert_false(admits(guarded, NULL, NULL));
    assert_true(admits(named, "box.example:80", NULL));
    assert_false(admits(named, "anything.example", NULL));
    assert_false(admits(open, "anything.example", NULL));
    assert_false(admits(open, "0.0.0.0:8435", NULL));
    assert_true(admits(open, "127.0.0.1:8080", NULL));
    assert_true(admits(bound, "10.1.2.3:8435", NULL));
    assert_false(admits(bound, "10.1.2.4", NULL));
    access_free(guarded);
    access_free(named);
    access_free(open);
    access_free(bound);
}

static void the_token_and_nothing_else_opens(void **state)
{
    struct access *a = open_access(&(struct access_options){.host = "127.0.0.1", .token = TOKEN});
    assert_true(access_needs_token(a));
    assert_string_equal(identify(a, "Bearer " TOKEN), "local");
    assert_string_equal(identify(a, "bEARER   " TOKEN), "local");
    static const char *const wrong[] = {"",
                                        "Bearer",
                                        "Bearer ",
                                        "Bearer x",
                                        "Bearer " TOKEN " ",
                                        "Basic " TOKEN,
                                        TOKEN,
                                        "Bearer correct",
                                        "Bearer " TOKEN "x",
                                        "Bearer \xff\xfe",
                                        "Bearer\t" TOKEN,
                                        "Bearer Correct horse"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_null(identify(a, wrong[i]));
    assert_null(identify(a, NULL));
    access_free(a);
    a = open_access(&(struct access_options){.host = "127.0.0.1"});
    assert_string_equal(identify(a, NULL), "local");
    assert_string_equal(identify(a, "Bearer x"), "local");
    access_free(a);
}

static void each_name_in_the_file_is_a_principal(void **state)
{
    write_tokens("# people\n\nalice first-secret\r\n  bob \t "
                 "sha256:3F1B8D7B0D5C3CF2C9C9E3E5D1C9B8A700000000000000000000000000000000 \n"
                 "carol third-secret");
    struct access *a = open_access(&(struct access_options){.host = "0.0.0.0", .token_file = token_path});
    assert_string_equal(identify(a, "Bearer first-secret"), "alice");
    assert_string_equal(identify(a, "Bearer third-secret"), "carol");
    assert_null(identify(a, "Bearer second-secret"));
    assert_null(identify(a, "Bearer 3F1B8D7B0D5C3CF2C9C9E3E5D1C9B8A700000000000000000000000000000000"));

    struct error err = ERROR_INIT;
    write_tokens("bob sha256:1FE4F20E73F5ED0AA4DC5ADA0C9AF4C8C0FDBA0A6ABD1D0CA0F7C10FE60B0A8A\n");
    assert_int_equal(access_reload(a, &err), 0);
    assert_null(identify(a, "Bearer first-secret"));
    write_tokens("nonsense\n");
    assert_int_equal(access_reload(a, &err), -1);
    assert_non_null(strstr(err.msg, "line 1"));
    write_tokens("dave fourth-secret\n");
    assert_int_equal(access_reload(a, &err), 0);
    assert_string_equal(identify(a, "Bearer fourth-secret"), "dave");
    access_free(a);
}

static void a_digest_stands_for_its_token(void **state)
{
    write_tokens("eve sha256:" SESAME_DIGEST "\n");
    struct access *a = open_access(&(struct access_options){.host = "0.0.0.0", .token_file = token_path});
    assert_string_equal(identify(a, "Bearer open-sesame"), "eve");
    assert_null(identify(a, "Bearer " SESAME_DIGEST));
    access_free(a);
}

static void wrong_files_are_refused_by_line(void **state)
{
    static const char *const wrong[] = {"",
                                        "# only a comment\n",
                                        "local something-long\n",
                                        "Alice something-long\n",
                                        "-a something-long\n",
                                        "alice short\n",
                                        "alice\n",
                                        "alice two tokens-here\n",
                                        "alice sha256:abc\n",
                                        "alice same-token\nbob same-token\n"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct error err = ERROR_INIT;
        write_tokens(wrong[i]);
        assert_null(access_new(&(struct access_options){.host = "::", .token_file = token_path}, &err));
        assert_int_equal(err.code, ERR_INVALID);
        assert_non_null(strstr(err.msg, token_path));
        assert_null(strstr(err.msg, "something-long"));
    }
    struct error err = ERROR_INIT;
    assert_null(access_new(&(struct access_options){.host = "::", .token_file = "/nonexistent"}, &err));
    assert_non_null(strstr(err.msg, "/nonexistent"));
}

static void a_unix_socket_is_its_owners(void **state)
{
    const char *why = NULL;
    struct access *a = open_access(&(struct access_options){.token = TOKEN});
    struct access_request r = {.unix_socket = true, .peer_uid = geteuid()};
    assert_true(access_admit(a, &r, &why));
    assert_string_equal(access_identify(a, &r, &why), "local");
    r.peer_uid = 0;
    assert_string_equal(access_identify(a, &r, &why), "local");
    r.peer_uid = geteuid() + 1;
    r.authorization = "Bearer " TOKEN;
    assert_null(access_identify(a, &r, &why));
    access_free(a);
}

static void refusals_take_longer_each_time_per_address(void **state)
{
    struct access *a = open_access(&(struct access_options){.host = "::", .token = TOKEN});
    int64_t first = access_refusal_delay(a, "192.0.2.1"), last = first;
    assert_true(first > 0);
    for (int i = 0; i < 100; i++) {
        int64_t next = access_refusal_delay(a, "192.0.2.1");
        assert_true(next >= last && next <= ACCESS_DELAY_MAX_MS);
        last = next;
    }
    assert_int_equal(last, ACCESS_DELAY_MAX_MS);
    assert_int_equal(access_refusal_delay(a, "192.0.2.2"), first);
    for (int i = 0; i < 1000; i++) { /* more addresses than are remembered: no harm */
        char peer[32];
        snprintf(peer, sizeof(peer), "10.0.%d.%d", i / 250, i % 250);
        access_refusal_delay(a, peer);
    }
    access_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loopback_listener_answers_to_loopback_names_only),
        cmocka_unit_test(pages_of_other_origins_stay_out),
        cmocka_unit_test(a_token_makes_up_for_unknown_names),
        cmocka_unit_test(the_token_and_nothing_else_opens),
        cmocka_unit_test_setup_teardown(each_name_in_the_file_is_a_principal, make_file, remove_file),
        cmocka_unit_test_setup_teardown(a_digest_stands_for_its_token, make_file, remove_file),
        cmocka_unit_test_setup_teardown(wrong_files_are_refused_by_line, make_file, remove_file),
        cmocka_unit_test(a_unix_socket_is_its_owners),
        cmocka_unit_test(refusals_take_longer_each_time_per_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
