/* Credentials from the files and the helpers of a home folder that the test has made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "backends/engine/credentials.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/json.h"
#include "temporary.h"

#define DOCKER ".docker/config.json"
#define CONTAINERS ".config/containers/auth.json"
#define HELPER "bin/docker-credential-"
#define SECRET "s3cret:/+?\\\"word"

static int set_up(void **state)
{
    if (temporary_make(state) < 0)
        return -1;
    temporary_folder("bin");
    _cleanup_(cleanup_free) char *bin = temporary_path("bin");
    _cleanup_(cleanup_free) char *run = temporary_path("run");
    _cleanup_(cleanup_free) char *path = xasprintf("%s:/usr/bin:/bin", bin);
    setenv("HOME", temporary, 1);
    setenv("PATH", path, 1);
    setenv("XDG_RUNTIME_DIR", run, 1);
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("DOCKER_CONFIG");
    unsetenv("REGISTRY_AUTH_FILE");
    return 0;
}

static void helper(const char *name, const char *script)
{
    _cleanup_(cleanup_free) char *file = xasprintf(HELPER "%s", name);
    _cleanup_(cleanup_free) char *text = xasprintf("#!/bin/sh\n%s\n", script);
    temporary_file(file, text);
    _cleanup_(cleanup_free) char *path = temporary_path(file);
    assert_int_equal(chmod(path, 0755), 0);
}

/* A file with one entry for `key`, whose "auth" is that of `pair`. */
static void file_with(const char *name, const char *key, const char *pair)
{
    struct buf encoded = BUF_INIT(4096);
    assert_int_equal(base64_append(&encoded, pair, strlen(pair)), 0);
    _cleanup_(cleanup_free) char *text =
        xasprintf("{\"auths\": {\"%s\": {\"auth\": \"%s\"}}}", key, buf_str(&encoded));
    temporary_file(name, text);
    buf_done(&encoded);
}

static int look(enum engine_kind kind, const char *image, struct buf *ret, struct error *err)
{
    struct reference r;
    const struct wait wait = {.deadline = clock_deadline_after(60)};
    assert_int_equal(reference_parse(image, &r, NULL), 0);
    return credentials_find(kind, &r, &wait, ret, err);
}

/* What the engine would be told, decoded; NULL: nothing. */
static json_t *found_by(enum engine_kind kind, const char *image)
{
    struct buf value = BUF_INIT(0), plain = BUF_INIT(256 * KIB);
    struct error err = ERROR_INIT;
    if (look(kind, image, &value, &err) < 0)
        fail_msg("%s", err.msg);
    if (value.len == 0)
        return NULL;
    assert_null(strpbrk(value.data, "+/"));
    for (char *c = value.data; *c; c++)
        *c = (char)(*c == '-' ? '+' : *c == '_' ? '/' : *c);
    assert_int_equal(base64_decode(value.data, value.len, &plain, NULL), 0);
    json_t *body = json_parse(plain.data, plain.len, NULL);
    assert_non_null(body);
    buf_wipe(&value);
    buf_done(&plain);
    return body;
}

static void assert_found(enum engine_kind kind, const char *image, const char *user, const char *password)
{
    _cleanup_(cleanup_json_decref) json_t *body = found_by(kind, image);
    assert_non_null(body);
    assert_string_equal(json_get_string(body, "username"), user);
    assert_string_equal(json_get_string(body, "password"), password);
    assert_null(json_object_get(body, "identitytoken"));
}

static void assert_none(const char *image)
{
    assert_null(found_by(ENGINE_DOCKER, image));
    assert_null(found_by(ENGINE_PODMAN, image));
}

/* The failure says `word`, and no secret. */
static void assert_fails(const char *image, enum error_code code, const char *word)
{
    struct buf value = BUF_INIT(0);
    struct error err = ERROR_INIT;
    assert_int_equal(look(ENGINE_DOCKER, image, &value, &err), -1);
    assert_int_equal(value.len, 0);
    assert_int_equal(err.code, code);
    if (!strstr(err.msg, word))
        fail_msg("'%s' is not in: %s", word, err.msg);
    if (strstr(err.msg, "s3cret"))
        fail_msg("a secret is in: %s", err.msg);
}

static void without_files_there_are_none(void **state)
{
    assert_none("debian");
    assert_none("localhost:5000/x");
}

static void auth_of_a_file_is_split_at_its_first_colon(void **state)
{
    file_with(DOCKER, "localhost:5000", "me:" SECRET);
    assert_found(ENGINE_DOCKER, "localhost:5000/x", "me", SECRET);
    assert_found(ENGINE_PODMAN, "localhost:5000/x", "me", SECRET);
    assert_none("localhost:5001/x");
    assert_none("localhost/x");
    assert_none("debian");
}

static void docker_hub_has_many_names(void **state)
{
    const char *keys[] = {"https://index.docker.io/v1/", "index.docker.io", "docker.io",
                          "https://index.docker.io/v1", "registry-1.docker.io"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        file_with(DOCKER, keys[i], "me:pw");
        assert_found(ENGINE_DOCKER, "debian", "me", "pw");
        assert_found(ENGINE_DOCKER, "docker.io/team/x", "me", "pw");
        assert_none("ghcr.io/a/b");
    }
    _cleanup_(cleanup_json_decref) json_t *body = found_by(ENGINE_DOCKER, "debian");
    assert_string_equal(json_get_string(body, "serveraddress"), "https://index.docker.io/v1/");
}

static void urls_of_old_clients_are_hosts(void **state)
{
    file_with(DOCKER, "https://quay.io/v1/", "me:pw");
    assert_found(ENGINE_DOCKER, "quay.io/a/b", "me", "pw");
    assert_none("quay.io.example/a");
}

static void the_longest_namespace_wins(void **state)
{
    temporary_file(CONTAINERS, "{\"auths\": {\"quay.io\": {\"auth\": \"YTph\"},"
                               "\"quay.io/team/tool\": {\"auth\": \"Yzpj\"},"
                               "\"quay.io/team\": {\"auth\": \"Yjpi\"}}}");
    assert_found(ENGINE_PODMAN, "quay.io/other/x", "a", "a");
    assert_found(ENGINE_PODMAN, "quay.io/teammate/x", "a", "a");
    assert_found(ENGINE_PODMAN, "quay.io/team/x", "b", "b");
    assert_found(ENGINE_PODMAN, "quay.io/team/tool:1", "c", "c");
    assert_found(ENGINE_PODMAN, "quay.io/team/toolbox", "b", "b");
}

static void each_kind_asks_its_own_files_first(void **state)
{
    file_with(DOCKER, "quay.io", "docker:pw");
    file_with(CONTAINERS, "quay.io", "podman:pw");
    assert_found(ENGINE_DOCKER, "quay.io/x", "docker", "pw");
    assert_found(ENGINE_PODMAN, "quay.io/x", "podman", "pw");
    file_with("run/containers/auth.json", "quay.io", "runtime:pw");
    assert_found(ENGINE_PODMAN, "quay.io/x", "runtime", "pw");
    file_with("other/auth.json", "quay.io", "named:pw");
    _cleanup_(cleanup_free) char *named = temporary_path("other/auth.json");
    setenv("REGISTRY_AUTH_FILE", named, 1);
    assert_found(ENGINE_PODMAN, "quay.io/x", "named", "pw");
    file_with("elsewhere/config.json", "quay.io", "moved:pw");
    _cleanup_(cleanup_free) char *folder = temporary_path("elsewhere");
    setenv("DOCKER_CONFIG", folder, 1);
    assert_found(ENGINE_DOCKER, "quay.io/x", "moved", "pw");
}

static void tokens_are_passed_as_such(void **state)
{
    temporary_file(DOCKER, "{\"auths\": {\"a.example\": {\"auth\": \"bWU6\", \"identitytoken\": \"idt\"},"
                           "\"b.example\": {\"registrytoken\": \"rgt\"}}}");
    _cleanup_(cleanup_json_decref) json_t *a = found_by(ENGINE_DOCKER, "a.example/x");
    assert_string_equal(json_get_string(a, "identitytoken"), "idt");
    assert_string_equal(json_get_string(a, "serveraddress"), "a.example");
    _cleanup_(cleanup_json_decref) json_t *b = found_by(ENGINE_DOCKER, "b.example/x");
    assert_string_equal(json_get_string(b, "registrytoken"), "rgt");
}

static void helper_is_told_the_registry_and_gives_a_password(void **state)
{
    temporary_file(DOCKER, "{\"credsStore\": \"all\"}");
    helper("all", "read -r s; [ \"$1\" = get ] || exit 9; "
                  "printf '{\"ServerURL\":\"x\",\"Username\":\"u of %s\",\"Secret\":\"pw\"}' \"$s\"");
    assert_found(ENGINE_DOCKER, "ghcr.io/a/b", "u of ghcr.io", "pw");
    assert_found(ENGINE_DOCKER, "localhost:5000/a", "u of localhost:5000", "pw");
    assert_found(ENGINE_DOCKER, "debian", "u of https://index.docker.io/v1/", "pw");
}

static void helper_of_a_registry_goes_before_that_of_all(void **state)
{
    temporary_file(DOCKER, "{\"credsStore\": \"all\", \"credHelpers\": {\"ghcr.io\": \"one\"}}");
    helper("all", "echo '{\"Username\":\"all\",\"Secret\":\"pw\"}'");
    helper("one", "echo '{\"Username\":\"one\",\"Secret\":\"pw\"}'");
    assert_found(ENGINE_DOCKER, "ghcr.io/a/b", "one", "pw");
    assert_found(ENGINE_DOCKER, "quay.io/a/b", "all", "pw");
}

static void helper_gives_an_identity_token(void **state)
{
    temporary_file(DOCKER, "{\"credsStore\": \"all\"}");
    helper("all", "echo '{\"Username\":\"<token>\",\"Secret\":\"tok\"}'");
    _cleanup_(cleanup_json_decref) json_t *body = found_by(ENGINE_DOCKER, "ghcr.io/a/b");
    assert_string_equal(json_get_string(body, "identitytoken"), "tok");
    assert_null(json_object_get(body, "username"));
    assert_null(json_object_get(body, "password"));
}

static void helper_that_has_none_leaves_it_to_the_files(void **state)
{
    helper("all", "echo 'credentials not found in native keychain'; exit 1");
    temporary_file(DOCKER, "{\"credsStore\": \"all\", \"auths\": {\"ghcr.io\": {}}}");
    assert_none("ghcr.io/a");
    file_with(CONTAINERS, "ghcr.io", "podman:pw");
    assert_found(ENGINE_DOCKER, "ghcr.io/a", "podman", "pw");
    temporary_file(DOCKER, "{\"credsStore\": \"all\", \"auths\": {\"ghcr.io\": {\"auth\": \"YTpi\"}}}");
    assert_found(ENGINE_DOCKER, "ghcr.io/a", "a", "b");
}

static void helper_that_fails_is_named(void **state)
{
    temporary_file(DOCKER, "{\"credsStore\": \"all\"}");
    assert_fails("ghcr.io/a", ERR_UNAVAILABLE, "docker-credential-all is not in PATH");
    helper("all", "echo s3cret; exit 3");
    assert_fails("ghcr.io/a", ERR_UNAVAILABLE, "exit code 3");
    helper("all", "echo s3cret; kill -9 $$");
    assert_fails("ghcr.io/a", ERR_UNAVAILABLE, "docker-credential-all failed");
    helper("all", "echo s3cret");
    assert_fails("ghcr.io/a", ERR_INVALID, "no JSON object");
    helper("all", "echo '{\"Username\":\"u\",\"Password\":\"s3cret\"}'");
    assert_fails("ghcr.io/a", ERR_INVALID, "no Username and Secret");
    helper("all", "yes s3cret");
    assert_fails("ghcr.io/a", ERR_LIMIT, "answers more than");
    temporary_file(DOCKER, "{\"credsStore\": \"../all\"}");
    assert_fails("ghcr.io/a", ERR_INVALID, "no name of a credential helper");
}

static void *cancel_soon(void *cancel)
{
    _cleanup_(cleanup_free) char *started = temporary_path("started");
    fd_close(open(started, O_RDONLY | O_CLOEXEC)); /* until the helper has opened its other end */
    cancel_fire(cancel, ERR_CANCELLED);
    return NULL;
}

static void helper_that_hangs_can_be_cancelled(void **state)
{
    temporary_file(DOCKER, "{\"credsStore\": \"all\"}");
    helper("all", ": > \"$HOME/started\"; sleep 1000 & wait");
    _cleanup_(cleanup_cancel_unref) struct cancel *cancel = cancel_new();
    const struct wait wait = {.deadline = DEADLINE_NONE, .cancel = cancel};
    struct reference r;
    struct buf value = BUF_INIT(0);
    struct error err = ERROR_INIT;
    pthread_t thread;
    _cleanup_(cleanup_free) char *started = temporary_path("started");
    assert_int_equal(mkfifo(started, 0600), 0);
    assert_int_equal(reference_parse("ghcr.io/a", &r, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, cancel), 0);
    assert_int_equal(credentials_find(ENGINE_DOCKER, &r, &wait, &value, &err), -1);
    assert_int_equal(err.code, ERR_CANCELLED);
    pthread_join(thread, NULL);
    /* The helper was reaped. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void bad_files_are_named(void **state)
{
    temporary_file(DOCKER, "{\"auths\": {\"a.example\": s3cret}}");
    assert_fails("a.example/x", ERR_INVALID, ".docker/config.json");
    temporary_file(DOCKER, "[\"s3cret\"]");
    assert_fails("a.example/x", ERR_INVALID, ".docker/config.json");
    temporary_file(DOCKER, "");
    assert_fails("a.example/x", ERR_INVALID, ".docker/config.json");
    temporary_file(DOCKER, "{\"auths\": {\"a.example\": {\"auth\": \"s3cret!\"}}}");
    assert_fails("a.example/x", ERR_INVALID, "log in again");
    temporary_file(DOCKER, "{\"auths\": {\"a.example\": {\"auth\": \"bm9jb2xvbg==\"}}}");
    assert_fails("a.example/x", ERR_INVALID, "log in again");
    _cleanup_(cleanup_free) char *path = temporary_path(DOCKER);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_fails("a.example/x", ERR_INTERNAL, ".docker/config.json");
}

static void odd_shapes_hold_nothing(void **state)
{
    const char *texts[] = {"{}",
                           "{\"auths\": []}",
                           "{\"auths\": {\"a.example\": []}}",
                           "{\"auths\": {\"a.example\": \"x\"}}",
                           "{\"auths\": {\"a.example\": {\"auth\": 7}}}",
                           "{\"auths\": {\"\": {\"auth\": \"YTpi\"}, \"https://\": {\"auth\": \"YTpi\"}}}",
                           "{\"auths\": {\"a.example/x/y/z\": {\"auth\": \"YTpi\"}}}",
                           "{\"credsStore\": 7, \"credHelpers\": {\"a.example\": {\"x\": 1}}}",
                           "{\"credsStore\": \"\"}"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        temporary_file(DOCKER, texts[i]);
        assert_none("a.example/x");
    }
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, temporary_remove)
    const struct CMUnitTest tests[] = {
        CASE(without_files_there_are_none),
        CASE(auth_of_a_file_is_split_at_its_first_colon),
        CASE(docker_hub_has_many_names),
        CASE(urls_of_old_clients_are_hosts),
        CASE(the_longest_namespace_wins),
        CASE(each_kind_asks_its_own_files_first),
        CASE(tokens_are_passed_as_such),
        CASE(helper_is_told_the_registry_and_gives_a_password),
        CASE(helper_of_a_registry_goes_before_that_of_all),
        CASE(helper_gives_an_identity_token),
        CASE(helper_that_has_none_leaves_it_to_the_files),
        CASE(helper_that_fails_is_named),
        CASE(helper_that_hangs_can_be_cancelled),
        CASE(bad_files_are_named),
        CASE(odd_shapes_hold_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
