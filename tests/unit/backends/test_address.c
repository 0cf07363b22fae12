/* Where an engine is found: what was named and by whom, with which keys, and the usual places. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "address_world.h"
#include "backends/engine/contact.h"
#include "tests/skip.h"

#define NOBODY 65534

static bool real_docker(void)
{
    _cleanup_fd_ int fd = contact_connect("/var/run/docker.sock");
    return fd >= 0;
}

/* --- addresses --- */

static const char *text_or_none(const char *text)
{
    return text ? text : "-";
}

static void addresses_as_docker_takes_them(void **state)
{
    static const struct {
        const char *given, *text, *url, *unix_path, *ssh, *port, *socket;
    } cases[] = {
        {"unix:///run/x.sock", "unix:///run/x.sock", "http://docker", "/run/x.sock", "-", "-", "-"},
        {"/run/x.sock", "unix:///run/x.sock", "http://docker", "/run/x.sock", "-", "-", "-"},
        {"unix://", "unix:///var/run/docker.sock", "http://docker", "/var/run/docker.sock", "-", "-", "-"},
        {"tcp://host", "tcp://host:2375", "http://host:2375", "-", "-", "-", "-"},
        {"tcp://host:1234/", "tcp://host:1234", "http://host:1234", "-", "-", "-", "-"},
        {"10.0.0.1:4243", "tcp://10.0.0.1:4243", "http://10.0.0.1:4243", "-", "-", "-", "-"},
        {"tcp://:2375", "tcp://localhost:2375", "http://localhost:2375", "-", "-", "-", "-"},
        {"tcp://[::1]:99", "tcp://[::1]:99", "http://[::1]:99", "-", "-", "-", "-"},
        {"tcp://[fe80::1]", "tcp://[fe80::1]:2375", "http://[fe80::1]:2375", "-", "-", "-", "-"},
        {"http://host:80", "tcp://host:80", "http://host:80", "-", "-", "-", "-"},
        {"https://host", "tcp://host:2376", "https://host:2376", "-", "-", "-", "-"},
        {"ssh://host", "ssh://host", "http://docker", "-", "host", "-", "-"},
        {"ssh://me@host:22", "ssh://me@host:22", "http://docker", "-", "me@host", "22", "-"},
        {"ssh://me@corp@host/", "ssh://me@corp@host/", "http://docker", "-", "me@corp@host", "-", "-"},
        {"ssh://me@[::1]:5/run/d.sock", "ssh://me@[::1]:5/run/d.sock", "http://docker", "-", "me@::1", "5",
         "/run/d.sock"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(engine_address_done) struct engine_address a = {0};
        struct engine_options o = options("docker");
        o.docker_host = cases[i].given;
        find(&o, &a);
        assert_string_equal(a.text, cases[i].text);
        assert_string_equal(a.url, cases[i].url);
        assert_string_equal(text_or_none(a.unix_path), cases[i].unix_path);
        assert_string_equal(text_or_none(a.ssh), cases[i].ssh);
        assert_string_equal(text_or_none(a.ssh_port), cases[i].port);
        assert_string_equal(text_or_none(a.ssh_socket), cases[i].socket);
        assert_string_equal(a.origin, "--docker-host");
        assert_int_equal(a.kind, ENGINE_DOCKER);
        assert_false(a.insecure);
    }
}

static void addresses_that_are_none(void **state)
{
    static const struct {
        const char *given, *words;
    } cases[] = {
        {"fd://", "must be unix:///PATH, tcp://HOST[:PORT] or ssh://"},
        {"npipe:////./pipe/docker_engine", "must be unix:///PATH"},
        {"foo", "must be unix:///PATH"},
        {"unix://relative.sock", "no absolute path"},
        {"tcp://host:0", "ports are 1 to 65535"},
        {"tcp://host:65536", "ports are 1 to 65535"},
        {"tcp://host:80x", "ports are 1 to 65535"},
        {"tcp://::1", "in brackets"},
        {"tcp://[::1", "in brackets"},
        {"tcp://[]", "no name of a host"},
        {"tcp://[::1]80", "HOST:PORT"},
        {"tcp://user@host", "no name of a host"},
        {"tcp://host/path", "no name of a host"},
        {"tcp://ho st", "no name of a host"},
        {"tcp://host\n", "no name of a host"},
        {"ssh://", "names no host"},
        {"ssh://me@", "names no host"},
        {"ssh://me:secret@host", "takes no password"},
        {"ssh://-oProxyCommand=x", "no name of a host"},
        {"ssh://-l@host", "no name of a user"},
        {"ssh://@host", "no name of a user"},
        {"ssh://me@-host", "no name of a host"},
        {"ssh://a;b@host", "no name of a user"},
        {"ssh://host$(x)", "no name of a host"},
        {"ssh://host/run/$(reboot)", "path of a socket"},
        {"ssh://host/run/a b", "path of a socket"},
        {"ssh://host/run/a'b", "path of a socket"},
        {"ssh://host/run/x?y", "path of a socket"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct engine_options o = options("docker");
        o.docker_host = cases[i].given;
        assert_not_found(&o, ERR_INVALID, cases[i].words);
        assert_not_found(&o, ERR_INVALID, "--docker-host: ");
        assert_int_equal(engine_address_check(&o, NULL), -1);
    }
    char path[200];
    memset(path, 'a', sizeof(path) - 1);
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    struct engine_options o = options("docker");
    o.docker_host = path;
    assert_not_found(&o, ERR_INVALID, "too long");
}

static void who_wins(void **state)
{
    static const struct {
        const char *engine, *flag, *docker_host, *container_host;
        const char *text, *origin;
    } cases[] = {
        {"docker", "tcp://a", "tcp://b", "tcp://c", "tcp://a:2375", "--docker-host"},
        {"docker", NULL, "tcp://b", "tcp://c", "tcp://b:2375", "DOCKER_HOST"},
        {"podman", "tcp://a", "tcp://b", "tcp://c", "tcp://a:2375", "--docker-host"},
        {"podman", NULL, "tcp://b", "tcp://c", "tcp://c:2375", "CONTAINER_HOST"},
        {"podman", NULL, "tcp://b", NULL, "tcp://b:2375", "DOCKER_HOST"},
        {"/opt/podman", NULL, "", "tcp://c", "tcp://c:2375", "CONTAINER_HOST"},
        {"/podman/docker", NULL, "tcp://b", "tcp://c", "tcp://b:2375", "DOCKER_HOST"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(engine_address_done) struct engine_address a = {0};
        struct engine_options o = options(cases[i].engine);
        setenv("DOCKER_HOST", cases[i].docker_host, 1);
        o.docker_host = cases[i].flag ? cases[i].flag : cases[i].docker_host;
        o.container_host = cases[i].container_host;
        find(&o, &a);
        assert_string_equal(a.text, cases[i].text);
        assert_string_equal(a.origin, cases[i].origin);
        assert_true(engine_address_likely(&o));
    }
}

/* --- TLS --- */

static void assert_in_folder(const char *path, const char *name)
{
    _cleanup_(cleanup_free) char *expected = name ? temporary_path(name) : NULL;
    if (name)
        assert_string_equal(path, expected);
    else
        assert_null(path);
}

static void tls_of_the_variables(void **state)
{
    _cleanup_(cleanup_free) char *certs = temporary_path("certs");
    temporary_file("certs/ca.pem", "x");
    temporary_file("certs/cert.pem", "x");
    temporary_file("certs/key.pem", "x");
    temporary_file("home/.docker/ca.pem", "x");
    const struct {
        const char *host;
        bool verify, path;
        const char *url, *ca, *key;
        bool insecure;
    } cases[] = {
        {"tcp://h", true, true, "https://h:2376", "certs/ca.pem", "certs/key.pem", false},
        {"tcp://h:1", false, true, "https://h:1", "certs/ca.pem", "certs/key.pem", true},
        {"tcp://h", true, false, "https://h:2376", "home/.docker/ca.pem", NULL, false},
        {"tcp://h", false, false, "http://h:2375", NULL, NULL, false},
        {"https://h", false, false, "https://h:2376", NULL, NULL, false},
        {"unix:///s", true, true, "http://docker", NULL, NULL, false},
        {"ssh://h", true, true, "http://docker", NULL, NULL, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(engine_address_done) struct engine_address a = {0};
        struct engine_options o = options("docker");
        o.docker_host = cases[i].host;
        o.tls_verify = cases[i].verify;
        o.cert_path = cases[i].path ? certs : NULL;
        find(&o, &a);
        assert_string_equal(a.url, cases[i].url);
        assert_in_folder(a.ca_file, cases[i].ca);
        assert_in_folder(a.key_file, cases[i].key);
        assert_int_equal(a.cert_file != NULL, a.key_file != NULL);
        assert_int_equal(a.insecure, cases[i].insecure);
    }
}

static void tls_that_lacks_files(void **state)
{
    _cleanup_(cleanup_free) char *certs = temporary_path("certs");
    struct engine_options o = options("docker");
    o.docker_host = "tcp://h";
    o.tls_verify = true;
    o.cert_path = certs;
    assert_not_found(&o, ERR_INVALID, "DOCKER_CERT_PATH");
    temporary_file("certs/cert.pem", "x");
    assert_not_found(&o, ERR_INVALID, "has cert.pem and no key.pem");
}

/* --- contexts --- */

static void context_file(const char *name_sha256, const char *json)
{
    _cleanup_(cleanup_free) char *file = xasprintf("home/.docker/contexts/meta/%s/meta.json", name_sha256);
    temporary_file(file, json);
}

/* Of the names. */
#define SHA_COLIMA "f24fd3749c1368328e2b149bec149cb6795619f244c5b584e844961215dadd16"
#define SHA_FAR "512eea46ceb3921dff4363c7069d89d4964d1d9fccaa0f411851a7aa60a5c868"

static void the_current_context(void **state)
{
    _cleanup_(engine_address_done) struct engine_address a = {0};
    struct engine_options o = options("docker");
    temporary_file("home/.docker/config.json", "{\"auths\":{},\"currentContext\":\"colima\"}");
    context_file(SHA_COLIMA, "{\"Name\":\"colima\",\"Metadata\":{\"Description\":\"colima\"},\"Endpoints\":"
                             "{\"docker\":{\"Host\":\"unix:///c.sock\",\"SkipTLSVerify\":false}}}");
    find(&o, &a);
    assert_string_equal(a.unix_path, "/c.sock");
    assert_string_equal(a.origin, "the docker context 'colima'");
    assert_true(engine_address_likely(&o));
}

static void a_context_with_tls(void **state)
{
    _cleanup_(engine_address_done) struct engine_address a = {0};
    struct engine_options o = options("docker");
    point("DOCKER_CONFIG", "home/.docker");
    setenv("HOME", "/nonexistent", 1);
    o.context = "far";
    context_file(SHA_FAR, "{\"Name\":\"far\",\"Endpoints\":{\"docker\":{\"Host\":\"tcp://h:1\"}}}");
    temporary_file("home/.docker/contexts/tls/" SHA_FAR "/docker/ca.pem", "x");
    find(&o, &a);
    assert_string_equal(a.url, "https://h:1");
    assert_in_folder(a.ca_file, "home/.docker/contexts/tls/" SHA_FAR "/docker/ca.pem");
    assert_null(a.key_file);
    assert_false(a.insecure);
}

static void a_context_that_skips_the_check(void **state)
{
    _cleanup_(engine_address_done) struct engine_address a = {0};
    struct engine_options o = options("docker");
    o.context = "far";
    context_file(SHA_FAR, "{\"Endpoints\":{\"docker\":{\"Host\":\"tcp://h:1\",\"SkipTLSVerify\":true}}}");
    find(&o, &a);
    assert_string_equal(a.url, "https://h:1");
    assert_true(a.insecure);
}

static void contexts_that_are_broken(void **state)
{
    struct engine_options o = options("docker");
    o.context = "far";
    assert_not_found(&o, ERR_INVALID,
                     "the docker context 'far': there is none of this name; there are: default");
    context_file(SHA_COLIMA, "{\"Name\":\"colima\"}");
    assert_not_found(&o, ERR_INVALID, "there are: default, colima");
    assert_int_equal(engine_address_check(&o, NULL), -1);
    static const struct {
        const char *json, *words;
    } cases[] = {
        {"{\"Endpoints\":", "meta.json"},
        {"[]", "names no Docker engine"},
        {"{\"Endpoints\":{\"kubernetes\":{}}}", "names no Docker engine"},
        {"{\"Endpoints\":{\"docker\":{\"Host\":\"\"}}}", "names no Docker engine"},
        {"{\"Endpoints\":{\"docker\":{\"Host\":\"fd://\"}}}",
         "the docker context 'far': 'fd://' is no address"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        context_file(SHA_FAR, cases[i].json);
        assert_not_found(&o, ERR_INVALID, cases[i].words);
    }
    o.context = NULL;
    temporary_file("home/.docker/config.json", "{\"currentContext\": ");
    assert_not_found(&o, ERR_INVALID, "config.json");
    assert_false(engine_address_likely(&o));
}

/* "default" is no context, the variables come before it, and Podman doesn't ask for any. */
static void contexts_that_do_not_count(void **state)
{
    _cleanup_fd_ _unused_ int docker = socket_at("home/.rd/docker.sock", true);
    _cleanup_fd_ _unused_ int podman = socket_at("run/podman/podman.sock", true);
    {
        _cleanup_(engine_address_done) struct engine_address a = {0};
        struct engine_options o = options("docker");
        o.context = "missing";
        o.docker_host = "tcp://h";
        find(&o, &a);
        assert_string_equal(a.origin, "--docker-host");
    }
    {
        _cleanup_(engine_address_done) struct engine_address a = {0};
        struct engine_options o = options("podman");
        o.context = "missing";
        find(&o, &a);
        assert_in_folder(a.unix_path, "run/podman/podman.sock");
    }
    if (real_docker())
        return;
    temporary_file("home/.docker/config.json", "{\"currentContext\":\"missing\"}");
    _cleanup_(engine_address_done) struct engine_address a = {0};
    struct engine_options o = options("docker");
    o.context = "default";
    find(&o, &a);
    assert_in_folder(a.unix_path, "home/.rd/docker.sock");
}

/* --- usual places --- */

static void the_first_place_that_answers(void **state)
{
    if (real_docker())
        skip_because("a Docker of this machine answers");
    static const char *const places[] = {
        /* from the last to the first */
        "home/.lima/default/sock/docker.sock",
        "home/.orbstack/run/docker.sock",
        "home/.rd/docker.sock",
        "home/.colima/docker.sock",
        "home/.colima/default/docker.sock",
        "home/.docker/desktop/docker.sock",
        "home/.docker/run/docker.sock",
        "run/docker.sock",
    };
    int fds[ARRAY_LEN(places)];
    struct engine_options o = options("docker");
    _cleanup_fd_ _unused_ int podman = socket_at("run/podman/podman.sock", true);
    assert_false(engine_address_likely(&o)); /* that one is no Docker */
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        _cleanup_(engine_address_done) struct engine_address a = {0};
        fds[i] = socket_at(places[i], true);
        find(&o, &a);
        assert_in_folder(a.unix_path, places[i]);
        assert_string_equal(a.origin, "a usual place");
        assert_true(engine_address_likely(&o));
    }
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        fd_close(fds[i]);
}

static void places_that_do_not_answer(void **state)
{
    if (real_docker())
        skip_because("a Docker of this machine answers");
    _cleanup_fd_ _unused_ int dead = socket_at("home/.rd/docker.sock", false);
    _cleanup_fd_ _unused_ int closed = socket_at("home/.colima/docker.sock", true);
    _cleanup_(cleanup_free) char *path = temporary_path("home/.colima/docker.sock");
    assert_int_equal(chmod(path, 0), 0);
    struct engine_options o = options("docker");
    struct engine_address a = {0};
    struct error err = ERROR_INIT;
    uid_t uid = geteuid();
    assert_int_equal(uid == 0 ? seteuid(NOBODY) : 0, 0); /* root may use any socket */
    int found = engine_address_find(&o, &forever, &a, &err);
    bool likely = engine_address_likely(&o);
    _cleanup_(cleanup_free) char *hindrance = engine_address_hindrance(&o);
    assert_int_equal(seteuid(uid), 0);
    assert_contains(hindrance, "~/.colima/docker.sock: Permission denied");
    assert_int_equal(found, -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_false(likely);
    assert_contains(err.msg, "~/.colima/docker.sock: Permission denied");
    assert_contains(err.msg, "~/.rd/docker.sock: nobody listens there");
    assert_contains(err.msg, "no such file: /var/run/docker.sock, ");
    assert_contains(err.msg, "~/.lima/default/sock/docker.sock"); /* the last: nothing was cut off */
    assert_contains(err.msg, "--docker-host");
}

/* Whoever named Podman's engine gets it before being told that there is no Docker. */
static void container_host_comes_last(void **state)
{
    if (real_docker())
        skip_because("a Docker of this machine answers");
    struct engine_options o = options("docker");
    o.container_host = "unix:///p.sock";
    {
        _cleanup_(engine_address_done) struct engine_address a = {0};
        find(&o, &a);
        assert_string_equal(a.origin, "CONTAINER_HOST");
        assert_string_equal(a.unix_path, "/p.sock");
    }
    _cleanup_fd_ _unused_ int docker = socket_at("run/docker.sock", true);
    _cleanup_(engine_address_done) struct engine_address a = {0};
    find(&o, &a);
    assert_in_folder(a.unix_path, "run/docker.sock");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_make, temporary_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(addresses_as_docker_takes_them),
        CASE(addresses_that_are_none),
        CASE(who_wins),
        CASE(tls_of_the_variables),
        CASE(tls_that_lacks_files),
        CASE(the_current_context),
        CASE(a_context_with_tls),
        CASE(a_context_that_skips_the_check),
        CASE(contexts_that_are_broken),
        CASE(contexts_that_do_not_count),
        CASE(the_first_place_that_answers),
        CASE(places_that_do_not_answer),
        CASE(container_host_comes_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
