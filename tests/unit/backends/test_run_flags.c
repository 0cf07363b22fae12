/* Flags of docker run as members of the API's body. What is expected is what the docker CLI (29.7) makes of
 * the same flags. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "backends/engine/run_flags.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/mem.h"

/* `lines` apart at newlines, as the elements of a list of flags. */
static int apply(const char *lines, json_t *body, struct error *err)
{
    char *flags[16] = {NULL};
    size_t n = 0;
    char *copy = xstrdup(lines), *save = NULL;
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        flags[n++] = line;
    int result = run_flags_apply(flags, body, err);
    free(copy);
    return result;
}

/* The body as one line, without an empty HostConfig. */
static void assert_body(const char *start, const char *lines, const char *expected)
{
    struct error err = ERROR_INIT;
    json_t *body = json_parse(start, strlen(start), NULL);
    json_t *wanted = json_parse(expected, strlen(expected), NULL);
    assert_non_null(body);
    assert_non_null(wanted);
    if (apply(lines, body, &err) < 0)
        fail_msg("%s: %s", lines, err.msg);
    if (json_object_size(json_object_get(body, "HostConfig")) == 0)
        json_object_del(body, "HostConfig");
    if (!json_equal(body, wanted)) {
        char *got = json_dumps(body, JSON_COMPACT);
        fail_msg("%s\n gives   %s\n and not %s", lines, got, expected);
    }
    json_decref(body);
    json_decref(wanted);
}

struct gives {
    const char *flags, *body;
};

static void assert_all(const struct gives *table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_body("{\"HostConfig\":{}}", table[i].flags, table[i].body);
}

#define HOST(members) "{\"HostConfig\":{" members "}}"

static void test_forms(void **state)
{
    static const struct gives table[] = {
        {"--memory=1g", HOST("\"Memory\":1073741824")},
        {"--memory\n1g", HOST("\"Memory\":1073741824")},
        {"--memory 1g", HOST("\"Memory\":1073741824")},
        {"-m512m", HOST("\"Memory\":536870912")},
        {"-m=512m", HOST("\"Memory\":536870912")},
        {"-m 512m", HOST("\"Memory\":536870912")},
        {"-m\n512m", HOST("\"Memory\":536870912")},
        {"--memory-swap\n-1", HOST("\"MemorySwap\":-1")},
        {"-e A=B c", "{\"Env\":[\"A=B c\"]}"},
        {"--env=A=B", "{\"Env\":[\"A=B\"]}"},
        {"--env\nA=", "{\"Env\":[\"A=\"]}"},
        {"--privileged", HOST("\"Privileged\":true")},
        {"--read-only=false", HOST("\"ReadonlyRootfs\":false")},
        {"-P", HOST("\"PublishAllPorts\":true")},
        {"--cpus=1\n--cpus=2.5", HOST("\"NanoCpus\":2500000000")},
        {"--init", "{}"},
        {"--entrypoint=", "{}"},
    };
    assert_all(table, ARRAY_LEN(table));
    json_t *body = json_object();
    assert_int_equal(run_flags_apply(NULL, body, NULL), 0);
    json_decref(body);
}

static void test_limits(void **state)
{
    static const struct gives table[] = {
        {"--pids-limit=-1", HOST("\"PidsLimit\":-1")},
        {"--pids-limit=256", HOST("\"PidsLimit\":256")},
        {"--memory-reservation=64mb", HOST("\"MemoryReservation\":67108864")},
        {"--memory-swappiness=0", HOST("\"MemorySwappiness\":0")},
        {"--memory=0", HOST("\"Memory\":0")},
        {"-c 512", HOST("\"CpuShares\":512")},
        {"--cpu-period=50000\n--cpu-quota=25000", HOST("\"CpuPeriod\":50000,\"CpuQuota\":25000")},
        {"--cpuset-cpus=0-3,7\n--cpuset-mems=0", HOST("\"CpusetCpus\":\"0-3,7\",\"CpusetMems\":\"0\"")},
        {"--shm-size=1.5g", HOST("\"ShmSize\":1610612736")},
        {"--ulimit=nofile=1024:4096\n--ulimit=core=0\n--ulimit=nofile=20",
         HOST("\"Ulimits\":[{\"Name\":\"nofile\",\"Soft\":20,\"Hard\":20},{\"Name\":\"core\",\"Soft\":0,"
              "\"Hard\":0}]")},
        {"--ulimit=memlock=-1:-1", HOST("\"Ulimits\":[{\"Name\":\"memlock\",\"Soft\":-1,\"Hard\":-1}]")},
        {"--oom-kill-disable\n--oom-score-adj=-500", HOST("\"OomKillDisable\":true,\"OomScoreAdj\":-500")},
        {"--blkio-weight=300", HOST("\"BlkioWeight\":300")},
        {"--blkio-weight-device=/dev/sda:200",
         HOST("\"BlkioWeightDevice\":[{\"Path\":\"/dev/sda\",\"Weight\":200}]")},
        {"--device-read-bps=/dev/sda:1mb",
         HOST("\"BlkioDeviceReadBps\":[{\"Path\":\"/dev/sda\",\"Rate\":1048576}]")},
        {"--device-write-iops=/dev/sda:9",
         HOST("\"BlkioDeviceWriteIOps\":[{\"Path\":\"/dev/sda\",\"Rate\":9}]")},
        {"--storage-opt=size=10G", HOST("\"StorageOpt\":{\"size\":\"10G\"}")},
        {"--cgroup-parent=/lab", HOST("\"CgroupParent\":\"/lab\"")},
    };
    assert_all(table, ARRAY_LEN(table));
}

static void test_files(void **state)
{
    static const struct gives table[] = {
        {"-v /a:/b:ro", HOST("\"Binds\":[\"/a:/b:ro\"]")},
        {"--volume=cache:/var/cache\n-v/x:/y", HOST("\"Binds\":[\"cache:/var/cache\",\"/x:/y\"]")},
        {"-v /data", "{\"Volumes\":{\"/data\":{}}}"},
        {"--volumes-from=other:ro\n--volume-driver=nfs",
         HOST("\"VolumesFrom\":[\"other:ro\"],\"VolumeDriver\":\"nfs\"")},
        {"--tmpfs=/run:rw,noexec,size=64m\n--tmpfs=/tmp",
         HOST("\"Tmpfs\":{\"/run\":\"rw,noexec,size=64m\",\"/tmp\":\"\"}")},
        {"--mount=type=bind,source=/a,target=/b,readonly,bind-propagation=RSLAVE",
         HOST("\"Mounts\":[{\"Type\":\"bind\",\"Source\":\"/a\",\"Target\":\"/b\",\"ReadOnly\":true,"
              "\"BindOptions\":{\"Propagation\":\"rslave\"}}]")},
        {"--mount=src=v,dst=/"
         "b,volume-nocopy,volume-label=a.b=c,volume-driver=local,\"volume-opt=o=addr=x,rw\"",
         HOST("\"Mounts\":[{\"Type\":\"volume\",\"Source\":\"v\",\"Target\":\"/"
              "b\",\"VolumeOptions\":{\"NoCopy\":true,"
              "\"Labels\":{\"a.b\":\"c\"},\"DriverConfig\":{\"Name\":\"local\",\"Options\":{\"o\":\"addr=x,"
              "rw\"}}}}]")},
        {"--mount=type=tmpfs,destination=/t,tmpfs-size=1m,tmpfs-mode=1770",
         HOST("\"Mounts\":[{\"Type\":\"tmpfs\",\"Target\":\"/"
              "t\",\"TmpfsOptions\":{\"SizeBytes\":1048576,\"Mode\":1016}}]")},
        {"--mount=type=bind,src=/a,dst=/b,ro=false,bind-recursive=disabled",
         HOST("\"Mounts\":[{\"Type\":\"bind\",\"Source\":\"/a\",\"Target\":\"/b\",\"ReadOnly\":false,"
              "\"BindOptions\":{\"NonRecursive\":true}}]")},
        {"--mount=type=image,src=busybox,dst=/i,image-subpath=bin",
         HOST("\"Mounts\":[{\"Type\":\"image\",\"Source\":\"busybox\",\"Target\":\"/i\","
              "\"ImageOptions\":{\"Subpath\":\"bin\"}}]")},
        {"--device=/dev/fuse",
         HOST("\"Devices\":[{\"PathOnHost\":\"/dev/fuse\",\"PathInContainer\":\"/dev/fuse\","
              "\"CgroupPermissions\":\"rwm\"}]")},
        {"--device=/dev/sda:r",
         HOST("\"Devices\":[{\"PathOnHost\":\"/dev/sda\",\"PathInContainer\":\"/dev/sda\","
              "\"CgroupPermissions\":\"r\"}]")},
        {"--device=/dev/sda:/dev/xvdc:rw",
         HOST("\"Devices\":[{\"PathOnHost\":\"/dev/sda\","
              "\"PathInContainer\":\"/dev/xvdc\",\"CgroupPermissions\":\"rw\"}]")},
        {"--device=vendor.com/net=a\n--device=vendor.com/net=b",
         HOST("\"DeviceRequests\":[{\"Driver\":\"cdi\",\"DeviceIDs\":[\"vendor.com/net=a\",\"vendor.com/"
              "net=b\"]}]")},
        {"--device-cgroup-rule=c 42:* rwm", HOST("\"DeviceCgroupRules\":[\"c 42:* rwm\"]")},
        {"--gpus=all", HOST("\"DeviceRequests\":[{\"Count\":-1,\"Capabilities\":[[\"gpu\"]]}]")},
        {"--gpus=2", HOST("\"DeviceRequests\":[{\"Count\":2,\"Capabilities\":[[\"gpu\"]]}]")},
        {"--gpus=\"device=0,2\"",
         HOST("\"DeviceRequests\":[{\"DeviceIDs\":[\"0\",\"2\"],\"Capabilities\":[[\"gpu\"]]}]")},
        {"--gpus=driver=nvidia,\"capabilities=compute,utility\",\"options=a=b,c=d\"",
         HOST("\"DeviceRequests\":[{\"Driver\":\"nvidia\",\"Count\":1,\"Capabilities\":[[\"compute\","
              "\"utility\",\"gpu\"]],"
              "\"Options\":{\"a\":\"b\",\"c\":\"d\"}}]")},
    };
    assert_all(table, ARRAY_LEN(table));
}

static void test_relative_source(void **state)
{
    char *here = getcwd(NULL, 0);
    char *bind = xasprintf(HOST("\"Binds\":[\"%s/x:/y\",\"%s:/z\",\"%s/../up:/u\"]"), here, here, here);
    assert_body("{\"HostConfig\":{}}", "-v ./x:/y\n-v .:/z\n-v ../up:/u", bind);
    free(bind);
    free(here);
}

static void test_network(void **state)
{
    static const struct gives table[] = {
        {"--network=host", HOST("\"NetworkMode\":\"host\"")},
        {"--net=container:web", HOST("\"NetworkMode\":\"container:web\"")},
        {"--network=lab\n--network-alias=a\n--net-alias=b\n--ip=172.30.100.104\n--ip6=2001:db8::33",
         "{\"HostConfig\":{\"NetworkMode\":\"lab\"},\"NetworkingConfig\":{\"EndpointsConfig\":{\"lab\":{"
         "\"Aliases\":[\"a\",\"b\"],\"IPAMConfig\":{\"IPv4Address\":\"172.30.100.104\",\"IPv6Address\":"
         "\"2001:db8::33\"}}}}}"},
        {"--network=name=lab,alias=x,driver-opt=com.a=b,gw-priority=3",
         "{\"HostConfig\":{\"NetworkMode\":\"lab\"},\"NetworkingConfig\":{\"EndpointsConfig\":{\"lab\":{"
         "\"Aliases\":[\"x\"],\"DriverOpts\":{\"com.a\":\"b\"},\"GwPriority\":3}}}}"},
        {"--network=a\n--network=b", "{\"HostConfig\":{\"NetworkMode\":\"a\"},\"NetworkingConfig\":{"
                                     "\"EndpointsConfig\":{\"a\":{},\"b\":{}}}}"},
        {"--network=lab\n--link=db:db",
         "{\"HostConfig\":{\"NetworkMode\":\"lab\",\"Links\":[\"db:db\"]},"
         "\"NetworkingConfig\":{\"EndpointsConfig\":{\"lab\":{\"Links\":[\"db:db\"]}}}}"},
        {"--mac-address=92:d0:c6:0a:29:33", "{\"MacAddress\":\"92:d0:c6:0a:29:33\"}"},
        {"--hostname=h\n--domainname=d", "{\"Hostname\":\"h\",\"Domainname\":\"d\"}"},
        {"-h web", "{\"Hostname\":\"web\"}"},
        {"--add-host=a:10.0.0.1\n--add-host=b=::1\n--add-host=c:[::2]\n--add-host=d:host-gateway",
         HOST("\"ExtraHosts\":[\"a:10.0.0.1\",\"b:::1\",\"c:::2\",\"d:host-gateway\"]")},
        {"--dns=8.8.8.8\n--dns-search=example.com\n--dns-option=ndots:2\n--dns-opt=rotate",
         HOST("\"Dns\":[\"8.8.8.8\"],\"DnsSearch\":[\"example.com\"],\"DnsOptions\":[\"ndots:2\","
              "\"rotate\"]")},
        {"--dns-search=.", HOST("\"DnsSearch\":[\".\"]")},
        {"-p 8080:80", "{\"ExposedPorts\":{\"80/tcp\":{}},\"HostConfig\":{\"PortBindings\":{"
                       "\"80/tcp\":[{\"HostIp\":\"\",\"HostPort\":\"8080\"}]}}}"},
        {"-p 80/UDP", "{\"ExposedPorts\":{\"80/udp\":{}},\"HostConfig\":{\"PortBindings\":{"
                      "\"80/udp\":[{\"HostIp\":\"\",\"HostPort\":\"\"}]}}}"},
        {"-p 127.0.0.1::80\n-p [::1]:81:80",
         "{\"ExposedPorts\":{\"80/tcp\":{}},\"HostConfig\":{\"PortBindings\":{"
         "\"80/tcp\":[{\"HostIp\":\"127.0.0.1\",\"HostPort\":\"\"},"
         "{\"HostIp\":\"::1\",\"HostPort\":\"81\"}]}}}"},
        {"-p 9000-9001:80-81",
         "{\"ExposedPorts\":{\"80/tcp\":{},\"81/tcp\":{}},\"HostConfig\":{\"PortBindings\":{"
         "\"80/tcp\":[{\"HostIp\":\"\",\"HostPort\":\"9000\"}],"
         "\"81/tcp\":[{\"HostIp\":\"\",\"HostPort\":\"9001\"}]}}}"},
        {"-p 9000-9009:80", "{\"ExposedPorts\":{\"80/tcp\":{}},\"HostConfig\":{\"PortBindings\":{"
                            "\"80/tcp\":[{\"HostIp\":\"\",\"HostPort\":\"9000-9009\"}]}}}"},
        {"-p published=8080,target=80,protocol=udp",
         "{\"ExposedPorts\":{\"80/udp\":{}},\"HostConfig\":{\"PortBindings\":{"
         "\"80/udp\":[{\"HostIp\":\"\",\"HostPort\":\"8080\"}]}}}"},
        {"--expose=7-8/sctp", "{\"ExposedPorts\":{\"7/sctp\":{},\"8/sctp\":{}}}"},
    };
    assert_all(table, ARRAY_LEN(table));
}

static void test_the_rest(void **state)
{
    static const struct gives table[] = {
        {"--user=1000:1000\n--workdir=/srv\n--group-add=audio",
         "{\"User\":\"1000:1000\",\"WorkingDir\":\"/srv\",\"HostConfig\":{\"GroupAdd\":[\"audio\"]}}"},
        {"-u nobody\n-w /", "{\"User\":\"nobody\",\"WorkingDir\":\"/\"}"},
        {"-l a=b=c\n--label=d", "{\"Labels\":{\"a\":\"b=c\",\"d\":\"\"}}"},
        {"--stop-signal=SIGINT\n--stop-timeout=3", "{\"StopSignal\":\"SIGINT\",\"StopTimeout\":3}"},
        {"--restart=on-failure:3",
         HOST("\"RestartPolicy\":{\"Name\":\"on-failure\",\"MaximumRetryCount\":3}")},
        {"--restart=always", HOST("\"RestartPolicy\":{\"Name\":\"always\",\"MaximumRetryCount\":0}")},
        {"--runtime=runsc\n--annotation=a.b=c",
         HOST("\"Runtime\":\"runsc\",\"Annotations\":{\"a.b\":\"c\"}")},
        {"--platform=linux/arm64", "{}"},
        {"--sysctl=net.ipv4.ip_forward=1\n--sysctl=kernel.sem=1 2 3 4",
         HOST("\"Sysctls\":{\"net.ipv4.ip_forward\":\"1\",\"kernel.sem\":\"1 2 3 4\"}")},
        {"--ipc=container:x\n--pid=host\n--uts=host\n--userns=host\n--cgroupns=private",
         HOST("\"IpcMode\":\"container:x\",\"PidMode\":\"host\",\"UTSMode\":\"host\",\"UsernsMode\":\"host\","
              "\"CgroupnsMode\":\"private\"")},
        {"--userns=keep-id:uid=5", HOST("\"UsernsMode\":\"keep-id:uid=5\"")},
        {"--log-driver=json-file\n--log-opt=max-size=1m",
         HOST("\"LogConfig\":{\"Type\":\"json-file\",\"Config\":{\"max-size\":\"1m\"}}")},
        {"--health-cmd=true\n--health-interval=1m30s\n--health-timeout=500ms\n--health-retries=3",
         "{\"Healthcheck\":{\"Test\":[\"CMD-SHELL\",\"true\"],\"Interval\":90000000000,\"Timeout\":500000000,"
         "\"Retries\":3}}"},
        {"--no-healthcheck", "{\"Healthcheck\":{\"Test\":[\"NONE\"]}}"},
        {"--security-opt=apparmor=unconfined\n--security-opt=label:disable\n--security-opt=seccomp="
         "unconfined",
         HOST("\"SecurityOpt\":[\"apparmor=unconfined\",\"label:disable\",\"seccomp=unconfined\"]")},
        {"--security-opt=systempaths=unconfined", HOST("\"MaskedPaths\":[],\"ReadonlyPaths\":[]")},
    };
    assert_all(table, ARRAY_LEN(table));
}

static void test_env(void **state)
{
    setenv("RUN_FLAGS_TEST", "from here", 1);
    unsetenv("RUN_FLAGS_NONE");
    assert_body("{\"Env\":[\"LANG=C.UTF-8\",\"KEEP=1\"]}",
                "-e LANG=de_DE.UTF-8\n-e RUN_FLAGS_TEST\n--env=RUN_FLAGS_NONE\n-e KEEPS=2",
                "{\"Env\":[\"LANG=de_DE.UTF-8\",\"KEEP=1\",\"RUN_FLAGS_TEST=from "
                "here\",\"RUN_FLAGS_NONE\",\"KEEPS=2\"]}");
}

static char *write_file(const char *content)
{
    char *path = xstrdup("/tmp/test_run_flags.XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    close(fd);
    return path;
}

static void test_env_file(void **state)
{
    setenv("RUN_FLAGS_TEST", "x", 1);
    char *path = write_file(
        "\xEF\xBB\xBF# comment\n\n  A=1\r\nB= two \"quoted\" \nRUN_FLAGS_TEST\nRUN_FLAGS_NONE\nC=file");
    char *flags = xasprintf("-e C=flag\n--env-file=%s", path);
    assert_body("{}", flags,
                "{\"Env\":[\"A=1\",\"B= two \\\"quoted\\\" \",\"RUN_FLAGS_TEST=x\",\"C=flag\"]}");
    free(flags);
    flags = xasprintf("--label=A=flag\n--label-file=%s", path);
    assert_body("{}", flags, "{\"Labels\":{\"A\":\"flag\",\"B\":\" two \\\"quoted\\\" \",\"C\":\"file\"}}");
    free(flags);
    unlink(path);
    free(path);
}

static void test_seccomp_file(void **state)
{
    char *path = write_file("{\n  \"defaultAction\": \"SCMP_ACT_ALLOW\",\n  \"syscalls\": []\n}\n");
    char *flags = xasprintf("--security-opt=seccomp=%s", path);
    assert_body("{}", flags,
                HOST("\"SecurityOpt\":[\"seccomp={\\\"defaultAction\\\":\\\"SCMP_ACT_ALLOW\\\","
                     "\\\"syscalls\\\":[]}\"]"));
    free(flags);
    unlink(path);
    free(path);
}

#define CAPS(added, dropped) HOST("\"CapAdd\":" added ",\"CapDrop\":" dropped)

static void test_capabilities(void **state)
{
    static const struct gives table[] = {
        {"--cap-add=net_raw", CAPS("[\"CHOWN\",\"KILL\",\"NET_RAW\"]", "[\"ALL\"]")},
        {"--cap-drop=CAP_KILL", CAPS("[\"CHOWN\"]", "[\"ALL\"]")},
        {"--cap-drop=ALL\n--cap-add=SYS_PTRACE", CAPS("[\"SYS_PTRACE\"]", "[\"ALL\"]")},
        {"--cap-add=SYS_PTRACE\n--cap-drop=all", CAPS("[\"SYS_PTRACE\"]", "[\"ALL\"]")},
        {"--cap-add=KILL\n--cap-drop=KILL", CAPS("[\"CHOWN\",\"KILL\"]", "[\"ALL\"]")},
        {"--cap-add=ALL\n--cap-drop=NET_RAW", CAPS("[\"ALL\"]", "[\"NET_RAW\"]")},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        assert_body(CAPS("[\"CHOWN\",\"KILL\"]", "[\"ALL\"]"), table[i].flags, table[i].body);
}

static void test_against_defaults(void **state)
{
    static const char start[] =
        "{\"Hostname\":\"id\",\"Entrypoint\":[\"guest\",\"serve\"],\"Cmd\":[],"
        "\"Healthcheck\":{\"Test\":[\"NONE\"]},\"HostConfig\":{\"CapAdd\":[\"CHOWN\"],"
        "\"CapDrop\":[\"ALL\"],\"SecurityOpt\":[\"no-new-privileges\"],\"Memory\":100000000,"
        "\"MemorySwap\":100000000,\"NanoCpus\":5,\"LogConfig\":{\"Type\":\"none\",\"Config\":{}}}}";
    static const struct {
        const char *flags, *path[3], *value;
    } table[] = {
        {"--privileged", {"HostConfig", "CapDrop"}, NULL},
        {"--privileged", {"HostConfig", "SecurityOpt"}, "[]"},
        {"--privileged=false", {"HostConfig", "CapDrop"}, "[\"ALL\"]"},
        {"--privileged\n--security-opt=no-new-privileges",
         {"HostConfig", "SecurityOpt"},
         "[\"no-new-privileges\"]"},
        {"--security-opt=no-new-privileges=false",
         {"HostConfig", "SecurityOpt"},
         "[\"no-new-privileges=false\"]"},
        {"--security-opt=no-new-privileges", {"HostConfig", "SecurityOpt"}, "[\"no-new-privileges\"]"},
        {"--security-opt=label=disable",
         {"HostConfig", "SecurityOpt"},
         "[\"no-new-privileges\",\"label=disable\"]"},
        {"--memory=1g", {"HostConfig", "MemorySwap"}, "1073741824"},
        {"--memory=0", {"HostConfig", "MemorySwap"}, "0"},
        {"--memory=1g\n--memory-swap=2g", {"HostConfig", "MemorySwap"}, "2147483648"},
        {"--cpu-quota=5000", {"HostConfig", "NanoCpus"}, NULL},
        {"--log-opt=a=b", {"HostConfig", "LogConfig", "Type"}, "\"\""},
        {"--log-driver=local", {"HostConfig", "LogConfig", "Type"}, "\"local\""},
        {"--network=container:x", {"Hostname"}, NULL},
        {"--uts=host", {"Hostname"}, NULL},
        {"--uts=host\n--hostname=h", {"Hostname"}, "\"h\""},
        {"--entrypoint=/init", {"Entrypoint"}, "[\"/init\"]"},
        {"--entrypoint=/init", {"Cmd"}, "[\"guest\",\"serve\"]"},
        {"--entrypoint=", {"Entrypoint"}, "[\"guest\",\"serve\"]"},
        {"--health-interval=5s", {"Healthcheck", "Test"}, NULL},
        {"--init", {"HostConfig", "Init"}, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct error err = ERROR_INIT;
        json_t *body = json_parse(start, strlen(start), NULL), *value = body;
        assert_int_equal(apply(table[i].flags, body, &err), 0);
        for (size_t k = 0; k < ARRAY_LEN(table[i].path) && table[i].path[k]; k++)
            value = json_object_get(value, table[i].path[k]);
        char *got = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        if (!got || !table[i].value ? got || table[i].value : strcmp(got, table[i].value) != 0)
            fail_msg("%s: %s is %s", table[i].flags, table[i].path[1], got ? got : "absent");
        free(got);
        json_decref(body);
    }
}

/* What an error has to say. */
static const struct {
    const char *flags, *says;
} refusals[] = {
    {"--memroy=1g", "there is no flag --memroy of docker run; did you mean --memory?"},
    {"--cpu=1", "did you mean --cpus"},
    {"--cpuset=0", "did you mean --cpus, --cpuset-cpus or --cpuset-mems?"},
    {"--volum=/a", "--volume"},
    {"--envfile=x", "--env-file"},
    {"--no-such-thing", "there is no flag --no-such-thing of docker run"},
    {"-X", "no flag -X"},
    {"ubuntu", "'ubuntu' is not a flag"},
    {"--", "'--' is not a flag"},
    {"-", "'-' is not a flag"},
    {"--rm", "--rm can't be given: a temporary computer"},
    {"--name=x", "--name can't be given: a container's name"},
    {"-d", "--detach can't be given"},
    {"-it", "--interactive can't be given: the first process"},
    {"--tty", "--tty can't be given"},
    {"-a stdin", "--attach can't be given"},
    {"--cidfile=x", "--cidfile can't be given"},
    {"--sig-proxy=false", "--sig-proxy can't be given"},
    {"--pull=always", "--pull can't be given"},
    {"--isolation=hyperv", "Windows"},
    {"--memory", "--memory needs a value: --memory=VALUE"},
    {"-e", "--env needs a value"},
    {"--memory=1x", "--memory '1x': not a size"},
    {"--memory=1m", "--memory '1m': out of range; it takes 0, or 6291456 and more"},
    {"--memory=-1", "not a size"},
    {"--pids-limit=many", "--pids-limit 'many': not a whole number"},
    {"--pids-limit=-2", "it takes -1, or 0 and more"},
    {"--memory-swappiness=101", "it takes -1, or 0 to 100"},
    {"--oom-score-adj=1001", "-1000 to 1000"},
    {"--cpus=1/2", "not a number of CPUs"},
    {"--cpus=0.0000000001", "nine places"},
    {"--cpu-period=10", "it takes 0, or 1000 to 1000000"},
    {"--cpus=1\n--cpu-quota=5000", "--cpus says the same as"},
    {"--memory=1g\n--memory-swap=512m", "not less than the memory limit"},
    {"--memory=0\n--memory-swap=512m", "needs a limit of memory"},
    {"--cpuset-cpus=a", "not a list of numbers"},
    {"--privileged yes", "one flag at a time"},
    {"--privileged=perhaps", "it takes true or false"},
    {"--read-only --privileged", "one flag at a time"},
    {"--ulimit=nofiles=1", "no such limit; there are core cpu"},
    {"--ulimit=nofile=5:4", "the soft limit is above the hard one"},
    {"--ulimit=nofile=-1:4", "the soft limit is above the hard one"},
    {"--ulimit=nofile=1:2:3", "NAME=SOFT:HARD"},
    {"--ulimit=nofile", "NAME=SOFT"},
    {"-v :/x", "SOURCE:TARGET"},
    {"-v /a:b", "an absolute path in the container"},
    {"-v /a:/b:ro:z", "SOURCE:TARGET:MODE"},
    {"--tmpfs=run", "absolute path"},
    {"--mount=type=bind,target=/b", "a bind needs source=PATH"},
    {"--mount=type=bind,source=/a", "it needs target=PATH"},
    {"--mount=type=tmpfs,target=/b,volume-nocopy", "options volume-* are not for a mount of type 'tmpfs'"},
    {"--mount=type=floppy,target=/b", "there is no type 'floppy'"},
    {"--mount=typ=bind,target=/b", "there is no option 'typ' of a mount"},
    {"--mount=source,target=/b", "'source' takes a value"},
    {"--mount=source=,target=/b", "'source' has an empty value"},
    {"--mount=target=/b,readonly=maybe", "'readonly' can't be 'maybe'"},
    {"--mount=type=tmpfs,target=/b,tmpfs-mode=999", "'tmpfs-mode' can't be '999'"},
    {"--mount=type=bind,src=/a,dst=/b,bind-recursive=readonly", "needs 'readonly', too"},
    {"--mount=type=bind,src=/a,dst=/b,\"x", "a quote is out of place"},
    {"--gpus=some", "'count' can't be 'some'"},
    {"--gpus=1,2", "'count' is there twice"},
    {"--gpus=model=x", "there is no 'model'"},
    {"--device=dev/x", "it takes PATH"},
    {"--device=/dev/a:/dev/b:x", "it takes PATH"},
    {"--device-cgroup-rule=c 1:3", "'c 1:3 rwm'"},
    {"--network=", "needs the name of a network"},
    {"--network=name=a,colour=red", "'colour=red' can't be"},
    {"--network=a\n--network=a", "the network 'a' is there twice"},
    {"--network=a\n--network=host", "at once"},
    {"--network=host\n--ip=1.2.3.4", "'host' has none of these"},
    {"--ip=1.2.3.4", "'default' has none of these"},
    {"--ip=1.2.3", "'1.2.3' is not an IP address"},
    {"--network=name=a,ip=1.2.3.4\n--ip=1.2.3.5", "is there twice"},
    {"--mac-address=92:d0:c6", "not a MAC address"},
    {"--add-host=a", "NAME:ADDRESS"},
    {"--add-host=a:b", "NAME:ADDRESS"},
    {"--dns=google", "not an IP address"},
    {"--dns-search=-a-", "not a domain"},
    {"-p 70000:80", "0 to 65535"},
    {"-p 1-2:80-82", "differ in length"},
    {"-p 1:2/icmp", "[/tcp|udp|sctp]"},
    {"-p a.b:1:2", "ADDRESS"},
    {"-p =", "ADDRESS"},
    {"--expose=9-8", "a range"},
    {"--env==x", "--env: an environment variable has no name"},
    {"--env-file=/nonexistent", "--env-file: /nonexistent"},
    {"--label=kilntainers.computer-id=x", "say which computer a container is"},
    {"-l kilntainers=false", "say which computer a container is"},
    {"--label==x", "'' is not the name of a label"},
    {"--workdir=srv", "not an absolute path"},
    {"--restart=sometimes", "it takes no, always"},
    {"--restart=always:3", "on-failure:COUNT"},
    {"--sysctl=kernel.hostname=x", "not a setting of a container's own"},
    {"--ipc=container:", "it takes one of none|private"},
    {"--pid=private", "it takes one of host|container:*"},
    {"--cgroupns=shared", "it takes one of host|private"},
    {"--log-driver=none\n--log-opt=a=b", "no meaning with --log-driver none"},
    {"--no-healthcheck\n--health-retries=1", "contradicts"},
    {"--health-interval=5", "not a duration"},
    {"--health-interval=1us", "1ms at least"},
    {"--security-opt=seccomp", "NAME=VALUE"},
    {"--security-opt=no-new-privileges=maybe", "takes true or false"},
    {"--security-opt=seccomp=/nonexistent", "/nonexistent"},
    {"--cap-add=", "the name of a capability"},
    {"--cap-drop=NET-RAW", "the name of a capability"},
    {"--link=a:b:c", "CONTAINER:ALIAS"},
    {"--platform=Linux ARM", "it takes OS/ARCHITECTURE"},
};

static void test_refused(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        struct error err = ERROR_INIT;
        json_t *body = json_pack("{s:{}}", "HostConfig");
        if (apply(refusals[i].flags, body, &err) == 0)
            fail_msg("%s is taken", refusals[i].flags);
        assert_int_equal(err.code, ERR_INVALID);
        if (!strstr(err.msg, "--docker-run-flag") || !strstr(err.msg, refusals[i].says))
            fail_msg("%s: %s", refusals[i].flags, err.msg);
        json_decref(body);
    }
}

/* A value that may be a secret is in no error. */
static void test_secrets(void **state)
{
    static const char *const flags[] = {"--env=TOKEN=hunter2\xff", "--log-opt=hunter2", "--label==hunter2"};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        struct error err = ERROR_INIT;
        json_t *body = json_pack("{s:{}}", "HostConfig");
        assert_int_equal(apply(flags[i], body, &err), -1);
        assert_null(strstr(err.msg, "hunter2"));
        json_decref(body);
    }
}

static void test_file_errors(void **state)
{
    static const char *const contents[] = {"A=1\nB C=2\n", "A=1\n=2\n", "A=1\nB=\xff\n"};
    static const char *const says[] = {"line 2: 'B C' is not a name", "line 2: '' is not a name",
                                       "not text in UTF-8"};
    for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
        struct error err = ERROR_INIT;
        char *path = write_file(contents[i]);
        char *flags = xasprintf("--env-file=%s", path);
        json_t *body = json_object();
        assert_int_equal(apply(flags, body, &err), -1);
        assert_non_null(strstr(err.msg, says[i]));
        json_decref(body);
        free(flags);
        unlink(path);
        free(path);
    }
}

static void test_bytes(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } right[] = {{"32", 32},         {"32b", 32},       {"32B", 32},        {"32k", 32768},  {"32K", 32768},
                 {"32kb", 32768},    {"32Kib", 32768},  {"32MB", 33554432}, {"1.5kB", 1536}, {"32 kb", 32768},
                 {"1g", 1073741824}, {"2T", 1LL << 41}, {"1p", 1LL << 50},  {".5k", 512},    {"32.", 32},
                 {"0", 0},           {"1e3", 1000}};
    static const char *const wrong[] = {"",       "hello", "-32",    "-32 kB", "32bb", "32kbb",
                                        "32m bb", " 32 ",  "32  kb", "32 mi",  "1zb",  "k",
                                        ".",      "1.2.3", "9e30",   "99999p"};
    for (size_t i = 0; i < ARRAY_LEN(right); i++) {
        int64_t bytes = -1;
        if (run_flags_bytes(right[i].text, &bytes) < 0 || bytes != right[i].bytes)
            fail_msg("'%s' is %lld", right[i].text, (long long)bytes);
    }
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        int64_t bytes = -7;
        if (run_flags_bytes(wrong[i], &bytes) == 0 || bytes != -7)
            fail_msg("'%s' is %lld", wrong[i], (long long)bytes);
    }
}

static void test_nano_cpus(void **state)
{
    static const struct {
        const char *text;
        int64_t nano;
    } right[] = {{"1", 1000000000},           {"1.5", 1500000000}, {".25", 250000000},
                 {"0.001", 1000000},          {"2.", 2000000000},  {"0", 0},
                 {"1.1000000000", 1100000000}};
    static const char *const wrong[] = {"", ".", "-1", "1e3", "one", "1.0000000001", "1.5.5", "99999999999"};
    for (size_t i = 0; i < ARRAY_LEN(right); i++) {
        int64_t nano = -1;
        assert_int_equal(run_flags_nano_cpus(right[i].text, &nano), 0);
        assert_int_equal(nano, right[i].nano);
    }
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        int64_t nano;
        assert_int_equal(run_flags_nano_cpus(wrong[i], &nano), -1);
    }
}

static void test_platform(void **state)
{
    char *const two[] = {(char *)"-e",          (char *)"--platform=x", (char *)"--platform",
                         (char *)"linux/arm64", (char *)"--init",       NULL};
    char *const none[] = {(char *)"--init", NULL};
    assert_string_equal(run_flags_value(two, "platform"), "linux/arm64");
    assert_null(run_flags_value(none, "platform"));
    assert_null(run_flags_value(NULL, "platform"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_relative_source),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_the_rest),
        cmocka_unit_test(test_env),
        cmocka_unit_test(test_env_file),
        cmocka_unit_test(test_seccomp_file),
        cmocka_unit_test(test_capabilities),
        cmocka_unit_test(test_against_defaults),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_file_errors),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_nano_cpus),
        cmocka_unit_test(test_platform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
