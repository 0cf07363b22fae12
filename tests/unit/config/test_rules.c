/* Rules between options, and what this version refuses, warns of, or ignores. */
#include "helper.h"

static void unbuilt_backends(void **state)
{
    static const char *const names[] = {"kubernetes"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_refused(ARGS("--backend", names[i]), ENV(), 1,
                       TEXTS("--backend", names[i], "not in this version", "native docker podman e2b"));
        assert_refused(K_ARGS("--backend", names[i]), ENV(), 1, TEXTS("not in this version"));
        char *variable = xasprintf("SANDBOX_BACKEND=%s", names[i]);
        assert_refused(ARGS(), ENV(variable), 1, TEXTS(variable, "not in this version"));
        config_free(load_ok(ARGS("--backend=native"), ENV(variable)));
        free(variable);
    }
}

static void modules(void **state)
{
    assert_refused(ARGS("--backend=go_busybox", "--wasm-path=/m.wasm"), ENV(), 1,
                   TEXTS("--wasm-path", "own module"));
    assert_refused(ARGS("--backend=go_busybox", "--shell=sh"), ENV(), 1, TEXTS("--shell", "no shell"));
    assert_refused(ARGS("--backend=wasm", "--image=debian"), ENV(), 1, TEXTS("--image", "no image"));
    assert_refused(ARGS("--backend=wasm", "--memory=64m"), ENV(), 1, TEXTS("--memory", "--wasm-max-memory"));
    assert_refused(ARGS("--backend=wasm", "--cpu=2"), ENV(), 1, TEXTS("--cpu", "one CPU"));
    assert_refused(ARGS("--backend=go_busybox", "--rootfs=/"), ENV(), 1, TEXTS("--rootfs", "native"));
    struct config *c = load_ok(
        ARGS("--backend=wasm", "--wasm-path=/m.wasm", "--wasm-fuel=9", "--wasm-max-memory=64"), ENV());
    assert_null(config_warnings(c)[0]);
    assert_string_equal(config_values(c)->wasm_path, "/m.wasm");
    assert_int_equal(config_values(c)->wasm_fuel, 9);
    assert_int_equal(config_values(c)->wasm_max_memory_mib, 64);
    config_free(c);
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
    assert_backend(ARGS(), ENV("DOCKER_CONTEXT=far"), CONFIG_DOCKER, "docker");
    assert_backend(ARGS("--backend=native"), ENV("DOCKER_CONTEXT=far"), CONFIG_NATIVE, "docker");
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
        load_ok(ARGS("--backend=native"), ENV("DOCKER_HOST=tcp://h:1", "CONTAINER_HOST=unix:///x",
                                              "DOCKER_TLS_VERIFY=0", "DOCKER_CERT_PATH=/c", "FLY_API_TOKEN=t",
                                              "AUTO_INSTALL_FLYCTL=false", "MODAL_TOKEN_ID=t"));
    assert_int_equal(config_values(c)->backend, CONFIG_NATIVE);
    assert_string_equal(config_values(c)->docker_host, "tcp://h:1");
    assert_true(config_values(c)->docker_tls_verify); /* any value means yes, as in the engine's own client */
    assert_false(config_values(c)->fly_auto_install);
    assert_string_equal(config_values(c)->modal_token_id, "t");
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

static void modal(void **state)
{
    static const char *const others[] = {"--cpu=2",  "--memory=1g", "--disk=1g",
                                         "--pids=9", "--rootfs=/",  "--platform=linux/arm64"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_refused(ARGS("--backend=modal", others[i]), ENV(), 1, TEXTS("is for"));
    assert_refused(ARGS("--backend=modal", "--on-exit=keep"), ENV(), 1, TEXTS("--on-exit keep", "files"));
    assert_refused(ARGS("--backend=modal"), ENV("MODAL_SANDBOX_V2=perhaps"), 1, TEXTS("yes nor no"));
    struct config *c = load_ok(ARGS("--backend=modal", "--image=a", "--no-network", "--gpu=H100"),
                               ENV("MODAL_PROFILE=p", "MODAL_SANDBOX_V2=0"));
    assert_string_equal(config_values(c)->image, "a");
    assert_string_equal(config_values(c)->modal_profile, "p");
    config_free(c);
}

static void fly(void **state)
{
    static const char *const others[] = {"--image=a", "--cpu=2", "--memory=1g", "--disk=1g", "--rootfs=/"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_refused(ARGS("--backend=fly", others[i]), ENV(), 1, TEXTS("--fly-"));
    assert_refused(ARGS("--backend=fly", "--pids=9"), ENV(), 1, TEXTS("--pids", "no such limit"));
    assert_refused(ARGS("--backend=fly", "--no-network"), ENV(), 1,
                   TEXTS("--no-network can't be had", "always have a network", "--network"));
    assert_refused(K_ARGS("--backend=fly"), ENV(), 1, TEXTS("--network"));
    assert_refused(ARGS("--backend=fly", "--on-exit=keep"), ENV(), 1, TEXTS("--on-exit keep", "stopped"));
    struct config *c =
        load_ok(ARGS("--backend=fly", "--fly-cpu-kind=performance", "--fly-lease=60", "--fly-rate=50"),
                ENV("FLY_REGION=ord"));
    assert_null(config_warnings(c)[0]);
    assert_int_equal(config_values(c)->fly_cpu_kind, CONFIG_FLY_PERFORMANCE);
    assert_string_equal(config_values(c)->fly_region, "ord");
    assert_true(config_values(c)->fly_lease_s == 60 && config_values(c)->fly_rate == 50);
    config_free(c);
}

static void fly_account(void **state)
{
    struct config *c = load_ok(ARGS("--backend=native", "--fly-token=geheim"), ENV());
    char *const *w = config_warnings(c);
    assert_int_equal(strv_len(w), 2);
    assert_non_null(strstr(w[0], "FLY_API_TOKEN"));
    assert_null(strstr(w[0], "geheim"));
    config_free(c);
    c = load_ok(ARGS("--backend=native"), ENV("FLY_API_TOKEN=t", "FLYCTL_INSTALL=/i", "FLY_CONFIG_DIR=/c",
                                              "FLY_API_BASE_URL=a", "FLY_FLAPS_BASE_URL=m"));
    assert_null(config_warnings(c)[0]);
    assert_string_equal(config_values(c)->fly_install_dir, "/i");
    assert_string_equal(config_values(c)->fly_config_dir, "/c");
    assert_string_equal(config_values(c)->fly_api_url, "a");
    assert_string_equal(config_values(c)->fly_machines_url, "m");
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
    config_free(load_ok(ARGS("--backend=native", "--on-exit=keep"), ENV()));
    config_free(load_ok(ARGS("--backend=native", "--on-exit=stop"), ENV()));
    config_free(load_ok(ARGS("--on-exit=keep"), ENV())); /* whichever it will be */
    assert_refused(ARGS("--backend=docker", "--disk=1g"), ENV(), 1,
                   TEXTS("--disk 1073741824", "native computers"));
}

static void e2b(void **state)
{
    static const char *const local[] = {
        "--image=debian:12", "--platform=linux/arm64", "--rootfs=/r", "--disk=1g", "--cpu=2", "--memory=1g",
        "--pids=9"};
    for (size_t i = 0; i < ARRAY_LEN(local); i++)
        assert_refused(ARGS("--backend=e2b", local[i]), ENV(), 1, TEXTS("template"));
    assert_refused(ARGS("--backend=e2b", "--on-exit=keep"), ENV(), 1, TEXTS("--on-exit keep", "paused"));
    struct config *c =
        load_ok(ARGS("--backend=e2b", "--e2b-api-key=geheim", "--no-network", "--on-exit=stop"), ENV());
    char *const *w = config_warnings(c);
    assert_int_equal(strv_len(w), 1);
    assert_non_null(strstr(w[0], "E2B_API_KEY"));
    assert_null(strstr(w[0], "geheim"));
    config_free(c);
    c = load_ok(ARGS("--backend=native"), ENV("E2B_API_KEY=k", "E2B_DOMAIN=d", "E2B_API_URL=u"));
    assert_null(config_warnings(c)[0]);
    assert_string_equal(config_values(c)->e2b_domain, "d");
    config_free(c);
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

/* A token that was read with its file's line end, for instance: nobody could get in. */
static void a_token_that_no_client_can_send(void **state)
{
    static const char *const tokens[] = {"secret\n", "secret\r\n", " secret",
                                         "secret ",  "sec\tret",   "sec\x7f"};
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        char *variable = xasprintf("KILNTAINERS_AUTH_TOKEN=%s", tokens[i]);
        assert_refused(ARGS("--transport=http"), ENV(variable), 1,
                       TEXTS("KILNTAINERS_AUTH_TOKEN", "(hidden)", "no token that a client could send"));
        config_free(load_ok(ARGS(), ENV(variable)));
        free(variable);
    }
    config_free(load_ok(ARGS("--transport=http"), ENV("KILNTAINERS_AUTH_TOKEN=two words, \u00e9")));
}

/* One that would match nothing. */
static void what_no_header_can_be(void **state)
{
    static const char *const wrong[] = {"--allowed-host=https://box.example",
                                        "--allowed-host=box.example/",
                                        "--allowed-host=*.example",
                                        "--allowed-host=box example",
                                        "--allowed-host=user@box.example",
                                        "--allowed-origin=box.example",
                                        "--allowed-origin=https://",
                                        "--allowed-origin=://box.example",
                                        "--allowed-origin=https://box.example/",
                                        "--allowed-origin=https://*.example"};
    static const char *const right[] = {"--allowed-host=box.example",
                                        "--allowed-host=Box.example:8435",
                                        "--allowed-host=[::1]:80",
                                        "--allowed-host=fe80::1",
                                        "--allowed-host=*",
                                        "--allowed-origin=https://box.example",
                                        "--allowed-origin=*",
                                        "--allowed-origin=null",
                                        "--allowed-origin=vscode-webview://0a-b"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_refused(ARGS("--transport=http", "--allowed-host=box.example", wrong[i]), ENV(), 1,
                       TEXTS(strchr(wrong[i], '=') + 1, " header; give"));
    assert_refused(ARGS("--transport=http", "--allowed-host=\u00e9.example"), ENV(), 1,
                   TEXTS("--allowed-host", " header; give"));
    for (size_t i = 0; i < ARRAY_LEN(right); i++)
        config_free(load_ok(ARGS("--transport=http", right[i]), ENV()));
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
        config_free(load_ok(ARGS("--transport=http", exposed[i], "--auth-token=t"), ENV()));
        config_free(load_ok(ARGS("--transport=http", exposed[i], "--auth-token-file=/t"), ENV()));
        config_free(load_ok(ARGS("--transport=http", exposed[i], "--allow-unauthenticated-http"), ENV()));
        config_free(load_ok(ARGS("--transport=http", exposed[i]), ENV("KILNTAINERS_AUTH_TOKEN=t")));
        assert_refused(ARGS("--transport=http", exposed[i]), ENV("KILNTAINERS_AUTH_TOKEN="), 1,
                       TEXTS("without a token"));
    }
    static const char *const loopback[] = {"--host=127.0.0.1", "--host=127.9.9.9", "--host=localhost",
                                           "--host=::1", "--host=[::1]"};
    for (size_t i = 0; i < ARRAY_LEN(loopback); i++)
        config_free(load_ok(ARGS("--transport=http", loopback[i]), ENV()));
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
    c = load_ok(ARGS("--rootfs=//."), ENV());
    assert_non_null(strstr(config_warnings(c)[0], "--rootfs / lets commands read every file"));
    config_free(c);
    c = load_ok(ARGS("--rootfs=/srv"), ENV());
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
        cmocka_unit_test(unbuilt_backends),
        cmocka_unit_test(modules),
        cmocka_unit_test(named_backend),
        cmocka_unit_test(engine_names),
        cmocka_unit_test(meant_docker),
        cmocka_unit_test(meant_native),
        cmocka_unit_test(variables_of_others),
        cmocka_unit_test(variables_by_order),
        cmocka_unit_test(modal),
        cmocka_unit_test(fly),
        cmocka_unit_test(fly_account),
        cmocka_unit_test(native_limits),
        cmocka_unit_test(container_options),
        cmocka_unit_test(later_options),
        cmocka_unit_test(e2b),
        cmocka_unit_test(what_no_header_can_be),
        cmocka_unit_test(http_only),
        cmocka_unit_test(exposure),
        cmocka_unit_test(a_token_that_no_client_can_send),
        cmocka_unit_test(descriptions),
        cmocka_unit_test(warnings),
        cmocka_unit_test(no_place_for_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
