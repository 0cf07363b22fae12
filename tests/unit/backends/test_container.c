/* The body of a container: safe by default, and what run flags change about that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backends/engine/container.h"
#include "base/json.h"
#include "base/macros.h"

static const struct computer_owner maker = {
    .machine = "m", .boot = "b", .pid = "42", .start = "7", .state = "s"};
static const struct container_options usual = {
    .image = "debian:bookworm-slim",
    .id = "calm-tiger-2c33",
    .principal = "local",
    .key = "0123456789abcdef",
    .temporary = true,
    .owner = &maker,
    .guest = "/.guest",
    .network = true,
    .memory_bytes = 512 << 20,
    .pids = 1024,
    .cpus = 1.5,
};

static void plan(const struct container_options *options, struct container *ret)
{
    struct error err = ERROR_INIT;
    if (container_plan(options, ret, &err) < 0)
        fail_msg("%s", err.msg);
}

/* With one run flag. */
static void plan_flag(const char *flag, struct container *ret)
{
    struct container_options o = usual;
    char *const flags[] = {(char *)flag, NULL};
    o.run_flags = flags;
    plan(&o, ret);
}

static const json_t *host(const struct container *c)
{
    return json_object_get(c->body, "HostConfig");
}

static void assert_json(const json_t *value, const char *expected)
{
    json_t *wanted = json_parse(expected, strlen(expected), NULL);
    assert_non_null(wanted);
    if (!json_equal(value, wanted)) {
        char *got = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        fail_msg("%s\n and not %s", got ? got : "nothing", expected);
    }
    json_decref(wanted);
}

static bool has(const json_t *array, const char *text)
{
    size_t i;
    const json_t *element;
    json_array_foreach (array, i, element) {
        if (strcmp(json_string_value(element), text) == 0)
            return true;
    }
    return false;
}

static void test_whole_body(void **state)
{
    struct container c;
    plan(&usual, &c);
    assert_string_equal(c.name, "kilntainer-calm-tiger-2c33");
    assert_int_equal(json_array_size(c.warnings), 0);
    assert_json(
        c.body,
        "{\"Image\":\"debian:bookworm-slim\",\"Hostname\":\"calm-tiger-2c33\",\"Entrypoint\":[\"/"
        ".guest\",\"serve\"],"
        "\"Cmd\":[],\"Env\":[\"LANG=C.UTF-8\"],\"StopSignal\":\"SIGTERM\",\"Healthcheck\":{\"Test\":["
        "\"NONE\"]},"
        "\"OpenStdin\":true,\"StdinOnce\":true,\"AttachStdin\":true,\"AttachStdout\":true,\"AttachStderr\":"
        "true,"
        "\"Tty\":false,\"Labels\":{\"kilntainers\":\"true\",\"kilntainers.computer-id\":\"calm-tiger-2c33\","
        "\"kilntainers.temporary\":\"true\",\"kilntainers.image\":\"debian:bookworm-slim\","
        "\"kilntainers.key\":\"0123456789abcdef\",\"kilntainers.mode\":\"serve\",\"kilntainers.owner."
        "machine\":\"m\","
        "\"kilntainers.owner.boot\":\"b\",\"kilntainers.owner.pid\":\"42\",\"kilntainers.owner.start\":\"7\","
        "\"kilntainers.owner.state\":\"s\"},\"HostConfig\":{\"AutoRemove\":true,\"Init\":false,\"CapDrop\":["
        "\"ALL\"],"
        "\"CapAdd\":[\"CHOWN\",\"DAC_OVERRIDE\",\"FOWNER\",\"FSETID\",\"KILL\",\"SETGID\",\"SETUID\","
        "\"SETPCAP\","
        "\"SETFCAP\",\"NET_BIND_SERVICE\",\"SYS_CHROOT\",\"NET_ADMIN\"],\"SecurityOpt\":[\"no-new-"
        "privileges\"],"
        "\"LogConfig\":{\"Type\":\"none\",\"Config\":{}},\"RestartPolicy\":{\"Name\":\"no\"},\"Memory\":"
        "536870912,"
        "\"MemorySwap\":536870912,\"PidsLimit\":1024,\"NanoCpus\":1500000000}}");
    container_done(&c);
}

static void test_permanent_of_another(void **state)
{
    struct container_options o = usual;
    struct container c;
    o.temporary = false;
    o.principal = "alice";
    o.network = false;
    o.memory_bytes = o.pids = 0;
    o.cpus = 0;
    plan(&o, &c);
    assert_string_equal(c.name, "kilntainer-alice.calm-tiger-2c33");
    const json_t *labels = json_object_get(c.body, "Labels");
    assert_string_equal(json_get_string(labels, LABEL_PRINCIPAL), "alice");
    assert_string_equal(json_get_string(labels, LABEL_TEMPORARY), "false");
    assert_json(json_object_get(host(&c), "AutoRemove"), "false");
    assert_string_equal(json_get_string(host(&c), "NetworkMode"), "none");
    static const char *const limits[] = {"Memory", "MemorySwap", "PidsLimit", "NanoCpus"};
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        assert_null(json_object_get(host(&c), limits[i]));
    assert_int_equal(c.network, CONTAINER_NETWORK_NONE);
    assert_false(c.firewall);
    assert_null(c.no_firewall);
    assert_false(has(json_object_get(host(&c), "CapAdd"), "NET_ADMIN"));
    container_done(&c);
}

static void test_without_guest(void **state)
{
    struct container_options o = usual;
    struct container c;
    o.guest = NULL;
    plan(&o, &c);
    assert_json(json_object_get(c.body, "Entrypoint"),
                "[\"/bin/sh\",\"-c\",\"trap 'exit 0' TERM; read -r _\"]");
    assert_json(json_object_get(c.body, "OpenStdin"), "true");
    assert_json(json_object_get(c.body, "StdinOnce"), "false");
    assert_json(json_object_get(host(&c), "Init"), "true");
    assert_string_equal(json_get_string(json_object_get(c.body, "Labels"), LABEL_MODE), "exec");
    assert_false(c.firewall);
    assert_non_null(c.no_firewall);
    assert_false(has(json_object_get(host(&c), "CapAdd"), "NET_ADMIN"));
    container_done(&c);
}

static void test_language_of_image(void **state)
{
    struct container_options o = usual;
    struct container c;
    char *const env[] = {(char *)"PATH=/bin", (char *)"LANG=en_US.UTF-8", NULL};
    o.image_env = env;
    plan(&o, &c);
    assert_null(json_object_get(c.body, "Env"));
    container_done(&c);
}

static void test_firewall(void **state)
{
    static const struct {
        const char *flag;
        enum container_network network;
        bool firewall;
    } table[] = {
        {"--init", CONTAINER_NETWORK_OWN, true},
        {"--network=bridge", CONTAINER_NETWORK_OWN, true},
        {"--network=lab", CONTAINER_NETWORK_OWN, true},
        {"--network=host", CONTAINER_NETWORK_SHARED, false},
        {"--network=container:other", CONTAINER_NETWORK_SHARED, false},
        {"--network=ns:/run/netns/x", CONTAINER_NETWORK_SHARED, false},
        {"--network=none", CONTAINER_NETWORK_NONE, false},
        {"--cap-add=NET_ADMIN", CONTAINER_NETWORK_OWN, false},
        {"--cap-add=ALL", CONTAINER_NETWORK_OWN, false},
        {"--privileged", CONTAINER_NETWORK_OWN, false},
        {"--user=1000:0", CONTAINER_NETWORK_OWN, false},
        {"--user=root:www", CONTAINER_NETWORK_OWN, true},
        {"--cap-drop=ALL", CONTAINER_NETWORK_OWN, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct container c;
        plan_flag(table[i].flag, &c);
        if (c.network != table[i].network || c.firewall != table[i].firewall)
            fail_msg("%s: network %d, firewall %d", table[i].flag, (int)c.network, c.firewall);
        assert_int_equal(c.no_firewall != NULL, !c.firewall && c.network != CONTAINER_NETWORK_NONE);
        container_done(&c);
    }
}

/* Only root has capabilities to set a firewall up with. */
static void test_user_of_image(void **state)
{
    struct container_options o = usual;
    struct container c;
    char *const flags[] = {(char *)"--user=0", NULL};
    o.image_user = "app";
    plan(&o, &c);
    assert_false(c.firewall);
    assert_string_equal(c.no_firewall, "the container's user is not root");
    assert_false(has(json_object_get(host(&c), "CapAdd"), "NET_ADMIN"));
    container_done(&c);
    o.run_flags = flags;
    plan(&o, &c);
    assert_true(c.firewall);
    container_done(&c);
}

/* Podman makes added capabilities effective for whoever the user is. */
static void test_no_capabilities_without_root(void **state)
{
    struct container c;
    struct container_options o = usual;
    o.image_user = "app";
    plan(&o, &c);
    assert_json(json_object_get(host(&c), "CapDrop"), "[\"ALL\"]");
    assert_json(json_object_get(host(&c), "CapAdd"), "[]");
    container_done(&c);
    plan_flag("--user=1000:0", &c);
    assert_json(json_object_get(host(&c), "CapAdd"), "[]");
    container_done(&c);
    char *flags[] = {(char *)"--user=app", (char *)"--cap-add=CHOWN", NULL};
    o.run_flags = flags;
    plan(&o, &c);
    assert_json(json_object_get(host(&c), "CapAdd"), "[\"CHOWN\"]");
    container_done(&c);
    flags[0] = (char *)"--user=root";
    plan(&o, &c);
    assert_true(has(json_object_get(host(&c), "CapAdd"), "SETUID"));
    container_done(&c);
}

static void test_warnings(void **state)
{
    static const struct {
        const char *flag, *says;
    } table[] = {
        {"-v /var/run/docker.sock:/var/run/docker.sock", "/var/run/docker.sock"},
        {"-v /run/user/1000/podman/podman.sock:/x", "podman.sock"},
        {"-v /run/:/host-run", "control the engine"},
        {"-v /:/host:ro", "control the engine"},
        {"--mount=type=bind,source=/run/docker.sock,target=/x", "control the engine"},
        {"--privileged", "--privileged"},
        {"--pid=host", "--pid=host"},
        {"--restart=always", "permanent computers only"},
        {"-v /srv:/srv", NULL},
        {"-v docker:/var/lib/docker", NULL},
        {"--memory=1g", NULL},
        {"--restart=no", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct container c;
        plan_flag(table[i].flag, &c);
        assert_int_equal(json_array_size(c.warnings), table[i].says ? 1 : 0);
        if (table[i].says)
            assert_non_null(strstr(json_string_value(json_array_get(c.warnings, 0)), table[i].says));
        container_done(&c);
    }
}

static void test_network_that_was_off(void **state)
{
    struct container_options o = usual;
    struct container c;
    char *const flags[] = {(char *)"--network=bridge", NULL};
    o.network = false;
    o.run_flags = flags;
    plan(&o, &c);
    assert_string_equal(json_get_string(host(&c), "NetworkMode"), "bridge");
    assert_int_equal(json_array_size(c.warnings), 1);
    container_done(&c);
}

static void test_restart(void **state)
{
    struct container_options o = usual;
    struct container c;
    char *const flags[] = {(char *)"--restart=always", NULL};
    o.run_flags = flags;
    plan(&o, &c);
    assert_string_equal(json_get_string(json_object_get(host(&c), "RestartPolicy"), "Name"), "no");
    container_done(&c);
    o.temporary = false;
    plan(&o, &c);
    assert_string_equal(json_get_string(json_object_get(host(&c), "RestartPolicy"), "Name"), "always");
    assert_int_equal(json_array_size(c.warnings), 0);
    container_done(&c);
}

static void test_flags_win(void **state)
{
    struct container c;
    plan_flag("--hostname=other", &c);
    assert_string_equal(json_get_string(c.body, "Hostname"), "other");
    container_done(&c);
    plan_flag("-e LANG=C", &c);
    assert_json(json_object_get(c.body, "Env"), "[\"LANG=C\"]");
    container_done(&c);
}

static void test_refused_flag(void **state)
{
    struct container_options o = usual;
    struct container c = {.name = (char *)"untouched"};
    struct error err = ERROR_INIT;
    char *const flags[] = {(char *)"--label=kilntainers.principal=bob", NULL};
    o.run_flags = flags;
    assert_int_equal(container_plan(&o, &c, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_string_equal(c.name, "untouched");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_body),    cmocka_unit_test(test_permanent_of_another),
        cmocka_unit_test(test_without_guest), cmocka_unit_test(test_language_of_image),
        cmocka_unit_test(test_firewall),      cmocka_unit_test(test_user_of_image),
        cmocka_unit_test(test_warnings),      cmocka_unit_test(test_network_that_was_off),
        cmocka_unit_test(test_restart),       cmocka_unit_test(test_flags_win),
        cmocka_unit_test(test_refused_flag),  cmocka_unit_test(test_no_capabilities_without_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
