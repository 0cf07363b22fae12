/* Rules between options, and what this version refuses, warns of, or ignores. */
#include "helper.h"

static void unbuilt_backends(void **state)
{
    static const char *const names[] = {"e2b", "fly", "modal", "go_busybox", "wasm", "kubernetes"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_refused(ARGS("--backend", names[i]), ENV(), 1,
                       TEXTS("--backend", names[i], "not in this version", "native docker podman"));
        assert_refused(K_ARGS("--backend", names[i]), ENV(), 1, TEXTS("not in this version"));
        char *variable = xasprintf("SANDBOX_BACKEND=%s", names[i]);
        assert_refused(ARGS(), ENV(variable), 1, TEXTS(variable, "not in this version"));
        config_free(load_ok(ARGS("--backend=native"), ENV(variable)));
        free(variable);
    }
    assert_refused(ARGS("--transport", "http"), ENV(), 1,
                   TEXTS("--transport http", "not in this version", "stdio"));
}

static void assert_backend(const char *const *argv, const char *const *env, enum config_backend backend,
                           const char *engine)
{
    struct config *c = load_ok(argv, env);
    assert_int_equal(config_values(c)->backend, backend);
    assert_string_equal(config_values(c)->engine, engine);
    config_free(c);
}

static void named_backend(void **state)
{
    assert_backend(ARGS(), ENV(), CONFIG_AUTO, "docker");
    assert_backend(K_ARGS(), ENV(), CONFIG_AUTO, "docker");
    assert_backend(ARGS("--backend=auto"), ENV("SANDBOX_BACKEND=native"), CONFIG_AUTO, "docker");
    assert_backend(ARGS("--backend=docker"), ENV("CONTAINER_HOST=unix:///x"), CONFIG_DOCKER, "docker");
    assert_backend(ARGS("--backend=docker", "--engine=podman"), ENV(), CONFIG_DOCKER, "podman");
    assert_backend(ARGS("--backend=podman"), ENV("DOCKER_HOST=tcp://h:1"), CONFIG_PODMAN, "podman");
    assert_backend(ARGS("--backend=podman", "--engine=/opt/podman"), ENV(), CONFIG_PODMAN, "/opt/podman");
    assert_backend(ARGS(), ENV("SANDBOX_BACKEND=podman"), CONFIG_PODMAN, "podman");
    assert_refused(ARGS("--backend=podman", "--engine=docker"), ENV(), 1,
                   TEXTS("--engine docker", "contradicts", "podman"));
}

static void engine_names(void **state)
{
    static const char *const wrong[] = {"nerdctl", "/usr/bin/podman-remote", "docker/", "podman2"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_refused(ARGS("--engine", wrong[i]), ENV(), 1,
                       TEXTS("--engine", wrong[i], "must be docker, podman or the path"));
    assert_backend(ARGS("--engine=/usr/local/bin/docker"), ENV(), CONFIG_DOCKER, "/usr/local/bin/docker");
    assert_backend(ARGS("--engine=./podman"), ENV(), CONFIG_PODMAN, "./podman");
}

/* What means docker without a fallback where no backend is named. */
static void meant_docker(void **state)
{
    static const char *const flags[] = {
        "--engine=docker", "--docker-host=tcp://h:1",  "--docker-run-flag=--pids-limit=256",
        "--image=alpine",  "--platform=linux/aarch64", "--network"};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        assert_backend(ARGS(flags[i]), ENV(), CONFIG_DOCKER, "docker");
        assert_backend(K_ARGS("--backend=auto", flags[i]), ENV(), CONFIG_DOCKER, "docker");
    }
    assert_backend(ARGS("--engine=podman"), ENV(), CONFIG_PODMAN, "podman");
    assert_backend(ARGS("--no-network", "--cpu=2", "--on-exit=stop"), ENV(), CONFIG_AUTO, "docker");
    /* The value of a run flag may look like a flag. */
    assert_backend(ARGS("--docker-run-flag", "--network=none"), ENV(), CONFIG_DOCKER, "docker");

    assert_backend(ARGS(), ENV("DOCKER_HOST=tcp://h:1"), CONFIG_DOCKER, "docker");
    assert_backend(ARGS(), ENV("DOCKER_HOST=tcp://h:1", "CONTAINER_HOST=unix:///x"), CONFIG_DOCKER, "docker");
    assert_backend(ARGS(), ENV("CONTAINER_HOST=unix:///x"), CONFIG_PODMAN, "podman");
    assert_backend(ARGS("--image=alpine"), ENV("CONTAINER_HOST=unix:///x"), CONFIG_PODMAN, "podman");
    assert_backend(ARGS("--engine=docker"), ENV("CONTAINER_HOST=unix:///x"), CONFIG_DOCKER, "docker");
    assert_backend(ARGS(), ENV("DOCKER_TLS_VERIFY=1", "DOCKER_CERT_PATH=/c"), CONFIG_AUTO, "docker");
}

static void meant_native(void **state)
{
    assert_backend(ARGS("--rootfs=/"), ENV(), CONFIG_NATIVE, "docker");
    /* A variable contradicts nothing. */
    assert_backend(ARGS("--rootfs=/"), ENV("DOCKER_HOST=tcp://h:1"), CONFIG_NATIVE, "docker");
    assert_refused(ARGS("--rootfs=/", "--image=alpine"), ENV(), 1,
                   TEXTS("--rootfs /", "--image means docker", "one of them"));
    assert_refused(ARGS("--rootfs=/", "--network"), ENV(), 1, TEXTS("--rootfs /", "--network means docker"));
    assert_backend(ARGS("--disk=1g"), ENV(), CONFIG_NATIVE, "docker");
    assert_refused(ARGS("--disk=1g", "--image=alpine"), ENV(), 1,
                   TEXTS("--disk 1073741824", "--image means docker", "one of them"));
    assert_refused(ARGS("--backend=native", "--disk=1m"), ENV(), 1, TEXTS("--disk 1m", "16m"));
    assert_refused(ARGS("--rootfs=/", "--backend=docker"), ENV(), 1,
                   TEXTS("--rootfs /", "native computers", "--image"));
}

/* What is of no use to a backend that was named stops nothing. */
static void variables_of_others(void **state)
{
    struct config *c =
        load_ok(ARGS("--backend=native"),
                ENV("DOCKER_HOST=tcp://h:1", "CONTAINER_HOST=unix:///x", "DOCKER_TLS_VERIFY=0",
                    "DOCKER_CERT_PATH=/c", "FLY_API_TOKEN=t", "AUTO_INSTALL_FLYCTL=false", "FLY_ORG=\xff"));
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
    assert_refused(ARGS("--backend=native", "--network"), ENV(), 1,
                   TEXTS("--network", "no network in this version", "--no-network", "--backend docker"));
    assert_refused(K_ARGS("--backend=native", "--network"), ENV(), 1, TEXTS("--network", "no network"));
    config_free(load_ok(ARGS("--backend=native", "--no-network"), ENV()));
    assert_refused(ARGS("--backend=native", "--image=alpine"), ENV(), 1,
                   TEXTS("--image alpine", "--rootfs DIR", "--backend docker"));
    assert_refused(ARGS("--backend=native", "--platform=linux/arm64"), ENV(), 1,
                   TEXTS("--platform linux/arm64", "image"));
    config_free(load_ok(ARGS("--rootfs=/", "--cpu=2", "--memory=1g", "--pids=64"), ENV()));
}

static void container_options(void **state)
{
    struct config *c = load_ok(ARGS("--backend=docker", "--network", "--image=r.example:5000/a@sha256:0",
                                    "--platform=linux/arm64", "--on-exit=keep"),
                               ENV());
    const struct config_values *v = config_values(c);
    assert_true(v->network);
    assert_string_equal(v->image, "r.example:5000/a@sha256:0");
    assert_string_equal(v->platform, "linux/arm64");
    assert_int_equal(v->on_exit, CONFIG_ON_EXIT_KEEP);
    assert_null(config_warnings(c)[0]);
    config_free(c);
    config_free(load_ok(ARGS("--backend=podman", "--on-exit=keep"), ENV()));
    assert_refused(ARGS("--backend=native", "--on-exit=keep"), ENV(), 1,
                   TEXTS("--on-exit keep", "--backend docker and podman in this version"));
    /* It may end up native, which couldn't keep its word. */
    assert_refused(ARGS("--on-exit=keep"), ENV(), 1, TEXTS("--on-exit keep", "--backend docker"));
    config_free(load_ok(ARGS("--backend=native", "--on-exit=stop"), ENV()));
    assert_refused(ARGS("--backend=docker", "--disk=1g"), ENV(), 1,
                   TEXTS("--disk 1073741824", "native computers"));
}

static void later_options(void **state)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        if (!(row->traits & OPTION_LATER))
            continue;
        const char *value = row->type == OPTION_SIZE ? "1g" : row->traits & OPTION_PAIRS ? "a=b" : "5";
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
    struct config *c = load_ok(
        ARGS("--backend=native", "--auth-token=hunter2", "--engine=podman", "--fly-app=x", "--wasm-fuel=9"),
        ENV());
    char *const *w = config_warnings(c);
    assert_int_equal(strv_len(w), 4);
    assert_non_null(strstr(w[0], "--auth-token-file"));
    assert_null(strstr(w[0], "hunter2"));
    assert_non_null(strstr(w[1], "--engine"));
    assert_non_null(strstr(w[2], "--fly-app"));
    assert_non_null(strstr(w[3], "--wasm-fuel"));
    config_free(c);
    c = load_ok(ARGS("--engine=podman", "--docker-run-flag=--init"), ENV());
    assert_null(config_warnings(c)[0]);
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
        cmocka_unit_test(unbuilt_backends),   cmocka_unit_test(named_backend),
        cmocka_unit_test(engine_names),       cmocka_unit_test(meant_docker),
        cmocka_unit_test(meant_native),       cmocka_unit_test(variables_of_others),
        cmocka_unit_test(variables_by_order), cmocka_unit_test(native_limits),
        cmocka_unit_test(container_options),  cmocka_unit_test(later_options),
        cmocka_unit_test(http_only),          cmocka_unit_test(exposure),
        cmocka_unit_test(descriptions),       cmocka_unit_test(warnings),
        cmocka_unit_test(no_place_for_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
