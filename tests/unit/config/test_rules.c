/* Rules between options, and what this version refuses, warns of, or ignores. */
#include "helper.h"

static void unbuilt_backends(void **state)
{
    static const char *const names[] = {"docker", "podman",     "e2b",  "fly",
                                        "modal",  "go_busybox", "wasm", "kubernetes"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_refused(ARGS("--backend", names[i]), ENV(), 1,
                       TEXTS("--backend", names[i], "not in this version", "native"));
        assert_refused(K_ARGS("--backend", names[i]), ENV(), 1, TEXTS("not in this version"));
        char *variable = xasprintf("SANDBOX_BACKEND=%s", names[i]);
        assert_refused(ARGS(), ENV(variable), 1, TEXTS(variable, "not in this version"));
        config_free(load_ok(ARGS("--backend=native"), ENV(variable)));
        free(variable);
    }
    assert_refused(ARGS("--transport", "http"), ENV(), 1,
                   TEXTS("--transport http", "not in this version", "stdio"));
}

static void meant_docker(void **state)
{
    static const char *const flags[] = {"--engine=podman", "--docker-host=tcp://h:1",
                                        "--docker-run-flag=--pids-limit=256", "--image=alpine"};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        assert_refused(ARGS(flags[i]), ENV(), 1, TEXTS("docker backend", "not in this version"));
        if (strncmp(flags[i], "--image", 7) != 0)
            config_free(load_ok(ARGS("--backend=native", flags[i]), ENV()));
    }
    /* The value of a run flag may look like a flag. */
    assert_refused(ARGS("--docker-run-flag", "--network=none"), ENV(), 1,
                   TEXTS("--docker-run-flag --network=none", "docker backend"));
    /* What only lies about in the environment stops nothing. */
    struct config *c = load_ok(ARGS(), ENV("DOCKER_HOST=tcp://h:1", "CONTAINER_HOST=unix:///x",
                                           "DOCKER_TLS_VERIFY=0", "DOCKER_CERT_PATH=/c", "FLY_API_TOKEN=t",
                                           "AUTO_INSTALL_FLYCTL=false", "FLY_ORG=\xff"));
    assert_int_equal(config_values(c)->backend, CONFIG_NATIVE);
    assert_string_equal(config_values(c)->docker_host, "tcp://h:1");
    assert_true(config_values(c)->docker_tls_verify); /* any value means yes, as in the engine's own client */
    assert_false(config_values(c)->fly_auto_install);
    assert_null(config_values(c)->fly_org);
    config_free(c);
}

static void variables_by_order(void **state)
{
    struct config *c = load_ok(ARGS(), ENV("FLY_ACCESS_TOKEN=c", "FLY_TOKEN=b", "FLY_API_TOKEN=a"));
    assert_string_equal(config_values(c)->fly_token, "a");
    config_free(c);
    c = load_ok(ARGS(), ENV("FLY_ACCESS_TOKEN=c", "FLY_TOKEN=b", "FLY_API_TOKEN="));
    assert_string_equal(config_values(c)->fly_token, "b");
    config_free(c);
}

static void native_limits(void **state)
{
    assert_refused(ARGS("--network"), ENV(), 1,
                   TEXTS("--network", "no network in this version", "--no-network"));
    assert_refused(K_ARGS("--network"), ENV(), 1, TEXTS("--network", "no network in this version"));
    config_free(load_ok(ARGS("--no-network"), ENV()));
    config_free(load_ok(K_ARGS("--no-network"), ENV()));
    assert_refused(ARGS("--backend=native", "--image=alpine"), ENV(), 1,
                   TEXTS("--image alpine", "--rootfs DIR"));
    assert_refused(ARGS("--disk=1g"), ENV(), 1, TEXTS("--disk 1073741824", "no disk limit"));
    config_free(load_ok(ARGS("--rootfs=/", "--cpu=2", "--memory=1g", "--pids=64"), ENV()));
}

static void later_options(void **state)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        if (!(row->traits & OPTION_LATER))
            continue;
        const char *value = row->type == OPTION_ENUM     ? row->names[1].name
                            : row->type == OPTION_SIZE   ? "1g"
                            : row->traits & OPTION_PAIRS ? "a=b"
                                                         : "5";
        char *flag =
            row->type == OPTION_BOOL ? xasprintf("--%s", row->name) : xasprintf("--%s=%s", row->name, value);
        assert_refused(ARGS("--backend=native", flag), ENV(), 1, TEXTS(row->name, "in this version"));
        free(flag);
    }
    config_free(load_ok(ARGS("--on-exit=auto"), ENV())); /* the default asks for nothing */
}

static void http_only(void **state)
{
    static const char *const flags[] = {"--host=0.0.0.0",         "--port=1",         "--session-timeout=9",
                                        "--unix-socket=/s",       "--allowed-host=h", "--allowed-origin=o",
                                        "--metrics-token-file=/m"};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        char *name = xstrndup(flags[i], strcspn(flags[i], "="));
        assert_refused(ARGS(flags[i]), ENV(), 1,
                       TEXTS(name, strchr(flags[i], '=') + 1, "--transport http only"));
        free(name);
    }
    config_free(load_ok(ARGS("--host=127.0.0.1", "--port=8435", "--session-timeout=300.0"), ENV()));
    config_free(load_ok(ARGS("--allow-unauthenticated-http"), ENV("KILNTAINERS_AUTH_TOKEN=t")));
}

/* An exposed listener is refused for being exposed; one that is not, for this version's lack of HTTP. */
static void exposure(void **state)
{
    static const char *const exposed[] = {"--host=0.0.0.0", "--host=::", "--host=192.168.0.1",
                                          "--host=example.com", "--host=128.0.0.1"};
    for (size_t i = 0; i < ARRAY_LEN(exposed); i++) {
        assert_refused(ARGS("--transport=http", exposed[i]), ENV(), 1,
                       TEXTS(strchr(exposed[i], '=') + 1, "without a token", "--allow-unauthenticated-http"));
        assert_refused(ARGS("--transport=http", exposed[i], "--auth-token=t"), ENV(), 1,
                       TEXTS("--transport http"));
        assert_refused(ARGS("--transport=http", exposed[i], "--auth-token-file=/t"), ENV(), 1,
                       TEXTS("--transport http"));
        assert_refused(ARGS("--transport=http", exposed[i], "--allow-unauthenticated-http"), ENV(), 1,
                       TEXTS("--transport http"));
        assert_refused(ARGS("--transport=http", exposed[i]), ENV("KILNTAINERS_AUTH_TOKEN=t"), 1,
                       TEXTS("--transport http"));
        assert_refused(ARGS("--transport=http", exposed[i]), ENV("KILNTAINERS_AUTH_TOKEN="), 1,
                       TEXTS("without a token"));
    }
    static const char *const loopback[] = {"--host=127.0.0.1", "--host=127.9.9.9", "--host=localhost",
                                           "--host=::1", "--host=[::1]"};
    for (size_t i = 0; i < ARRAY_LEN(loopback); i++)
        assert_refused(ARGS("--transport=http", loopback[i]), ENV(), 1,
                       TEXTS("--transport http is not in this version"));
}

static void descriptions(void **state)
{
    assert_refused(ARGS("--tool-instruction-override=a", "--extended-tool-instruction=b"), ENV(), 1,
                   TEXTS("--tool-instruction-override", "--extended-tool-instruction", "exclude each other"));
    config_free(load_ok(ARGS("--tool-instruction-override=a"), ENV()));
    config_free(load_ok(ARGS("--extended-tool-instruction=b"), ENV()));
}

static void warnings(void **state)
{
    struct config *c = load_ok(ARGS("--auth-token=hunter2", "--fly-app=x", "--wasm-fuel=9"), ENV());
    char *const *w = config_warnings(c);
    assert_int_equal(strv_len(w), 3);
    assert_non_null(strstr(w[0], "--auth-token-file"));
    assert_null(strstr(w[0], "hunter2"));
    assert_non_null(strstr(w[1], "--fly-app"));
    assert_non_null(strstr(w[2], "--wasm-fuel"));
    config_free(c);
    c = load_ok(ARGS("--timeout=5"), ENV("KILNTAINERS_AUTH_TOKEN=t", "FLY_APP_NAME=x"));
    assert_null(config_warnings(c)[0]);
    config_free(c);
}

static void no_place_for_state(void **state)
{
    const char *const env[] = {NULL};
    if (geteuid() == 0)
        config_free(load_ok(ARGS(), env));
    else
        assert_refused(ARGS(), env, 1, TEXTS("--state-dir"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unbuilt_backends),   cmocka_unit_test(meant_docker),
        cmocka_unit_test(variables_by_order), cmocka_unit_test(native_limits),
        cmocka_unit_test(later_options),      cmocka_unit_test(http_only),
        cmocka_unit_test(exposure),           cmocka_unit_test(descriptions),
        cmocka_unit_test(warnings),           cmocka_unit_test(no_place_for_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
