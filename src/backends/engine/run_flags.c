/* The table of docker run's flags, and the reading of them. Two steps: each flag goes through its row, which
 * puts its value into the body or leaves it in `given`; then run_settle() decides what depends on several. */
#include "backends/engine/run_flags.h"

#include <stdio.h>
#include <string.h>

#include "backends/engine/run_parse.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

#define HOST "HostConfig."
#define NO_LIMIT INT64_MAX
#define MEMORY_LEAST (6 * MIB) /* of engines */

static const struct run_flag flags_table[] = {
    /* limits */
    {"memory", 'm', .parse = run_bytes, .place = HOST "Memory", .least = MEMORY_LEAST, .most = NO_LIMIT},
    {"memory-reservation", .parse = run_bytes, .place = HOST "MemoryReservation", .most = NO_LIMIT},
    {"memory-swap", .parse = run_bytes, .place = HOST "MemorySwap", .most = NO_LIMIT, .also = -1},
    {"memory-swappiness", .parse = run_integer, .place = HOST "MemorySwappiness", .most = 100, .also = -1},
    {"shm-size", .parse = run_bytes, .place = HOST "ShmSize", .most = NO_LIMIT},
    {"cpus", .parse = run_cpus, .place = HOST "NanoCpus"},
    {"cpu-shares", 'c', .parse = run_integer, .place = HOST "CpuShares", .least = 2, .most = 262144},
    {"cpu-quota", .parse = run_integer, .place = HOST "CpuQuota", .most = NO_LIMIT, .also = -1},
    {"cpu-period", .parse = run_integer, .place = HOST "CpuPeriod", .least = 1000, .most = 1000000},
    {"cpu-rt-period", .parse = run_integer, .place = HOST "CpuRealtimePeriod", .most = NO_LIMIT},
    {"cpu-rt-runtime", .parse = run_integer, .place = HOST "CpuRealtimeRuntime", .most = NO_LIMIT},
    {"cpuset-cpus", .parse = run_set, .place = HOST "CpusetCpus"},
    {"cpuset-mems", .parse = run_set, .place = HOST "CpusetMems"},
    {"pids-limit", .parse = run_integer, .place = HOST "PidsLimit", .most = NO_LIMIT, .also = -1},
    {"ulimit", .parse = run_ulimit, .place = HOST "Ulimits"},
    {"oom-kill-disable", .is_switch = true, .parse = run_switch, .place = HOST "OomKillDisable"},
    {"oom-score-adj", .parse = run_integer, .place = HOST "OomScoreAdj", .least = -1000, .most = 1000},
    {"blkio-weight", .parse = run_integer, .place = HOST "BlkioWeight", .least = 10, .most = 1000},
    {"blkio-weight-device", .parse = run_device_weight, .place = HOST "BlkioWeightDevice", .least = 10,
     .most = 1000},
    {"device-read-bps", .parse = run_device_rate, .place = HOST "BlkioDeviceReadBps"},
    {"device-write-bps", .parse = run_device_rate, .place = HOST "BlkioDeviceWriteBps"},
    {"device-read-iops", .parse = run_device_rate, .place = HOST "BlkioDeviceReadIOps"},
    {"device-write-iops", .parse = run_device_rate, .place = HOST "BlkioDeviceWriteIOps"},
    {"storage-opt", .parse = run_pair, .place = HOST "StorageOpt"},
    {"cgroup-parent", .parse = run_string, .place = HOST "CgroupParent"},

    /* files */
    {"volume", 'v', .parse = run_volume, .place = HOST "Binds"},
    {"volumes-from", .parse = run_list, .place = HOST "VolumesFrom"},
    {"volume-driver", .parse = run_string, .place = HOST "VolumeDriver"},
    {"mount", .parse = run_mount, .place = HOST "Mounts"},
    {"tmpfs", .parse = run_tmpfs, .place = HOST "Tmpfs"},
    {"read-only", .is_switch = true, .parse = run_switch, .place = HOST "ReadonlyRootfs"},
    {"device", .parse = run_device, .place = HOST "Devices"},
    {"device-cgroup-rule", .parse = run_device_rule, .place = HOST "DeviceCgroupRules"},
    {"gpus", .parse = run_gpus, .place = HOST "DeviceRequests"},

    /* what a command finds; rows without a place are run_settle's */
    {"env", 'e', .is_secret = true},
    {"env-file"},
    {"user", 'u', .parse = run_string, .place = "User"},
    {"group-add", .parse = run_list, .place = HOST "GroupAdd"},
    {"workdir", 'w', .parse = run_path, .place = "WorkingDir"},
    {"entrypoint"},
    {"init", .is_switch = true},
    {"stop-signal", .parse = run_string, .place = "StopSignal"},
    {"stop-timeout", .parse = run_integer, .place = "StopTimeout", .most = INT32_MAX, .also = -1},
    {"restart", .parse = run_restart, .place = HOST "RestartPolicy"},
    {"label", 'l', .is_secret = true},
    {"label-file"},
    {"annotation", .parse = run_pair, .place = HOST "Annotations"},
    {"platform", .parse = run_platform},
    {"runtime", .parse = run_string, .place = HOST "Runtime"},
    {"health-cmd"},
    {"health-interval", .parse = run_duration, .place = "Healthcheck.Interval", .most = NO_LIMIT},
    {"health-timeout", .parse = run_duration, .place = "Healthcheck.Timeout", .most = NO_LIMIT},
    {"health-start-period", .parse = run_duration, .place = "Healthcheck.StartPeriod", .most = NO_LIMIT},
    {"health-start-interval", .parse = run_duration, .place = "Healthcheck.StartInterval", .most = NO_LIMIT},
    {"health-retries", .parse = run_integer, .place = "Healthcheck.Retries", .most = INT32_MAX},
    {"no-healthcheck", .is_switch = true},
    {"log-driver", .parse = run_string, .place = HOST "LogConfig.Type"},
    {"log-opt", .is_secret = true, .parse = run_pair, .place = HOST "LogConfig.Config"},

    /* privileges and namespaces */
    {"cap-add", .parse = run_capability},
    {"cap-drop", .parse = run_capability},
    {"security-opt"},
    {"privileged", .is_switch = true, .parse = run_switch, .place = HOST "Privileged"},
    {"sysctl", .parse = run_sysctl, .place = HOST "Sysctls"},
    {"ipc", .parse = run_word, .place = HOST "IpcMode", .words = "none|private|shareable|host|container:*"},
    {"pid", .parse = run_word, .place = HOST "PidMode", .words = "host|container:*"},
    {"uts", .parse = run_word, .place = HOST "UTSMode", .words = "host"},
    {"cgroupns", .parse = run_word, .place = HOST "CgroupnsMode", .words = "host|private"},
    /* all but the first are Podman's */
    {"userns", .parse = run_word, .place = HOST "UsernsMode",
     .words = "host|keep-id|keep-id:*|auto|auto:*|nomap|private"},

    /* network */
    {"network", .parse = run_network},
    {"net", .parse = run_network},
    {"network-alias", .parse = run_endpoint_list, .place = "Aliases"},
    {"net-alias", .parse = run_endpoint_list, .place = "Aliases"},
    {"ip", .parse = run_endpoint_ip, .place = "IPv4Address"},
    {"ip6", .parse = run_endpoint_ip, .place = "IPv6Address"},
    {"link-local-ip", .parse = run_endpoint_ip, .place = "LinkLocalIPs"},
    {"mac-address", .parse = run_mac, .place = "MacAddress"},
    {"link", .parse = run_link, .place = HOST "Links"},
    {"hostname", 'h', .parse = run_string, .place = "Hostname"},
    {"domainname", .parse = run_string, .place = "Domainname"},
    {"add-host", .parse = run_add_host, .place = HOST "ExtraHosts"},
    {"dns", .parse = run_dns, .place = HOST "Dns"},
    {"dns-search", .parse = run_dns_search, .place = HOST "DnsSearch"},
    {"dns-option", .parse = run_list, .place = HOST "DnsOptions"},
    {"dns-opt", .parse = run_list, .place = HOST "DnsOptions"},
    {"publish", 'p', .parse = run_publish},
    {"publish-all", 'P', .is_switch = true, .parse = run_switch, .place = HOST "PublishAllPorts"},
    {"expose", .parse = run_expose},
};

#define WINDOWS "it is for containers of Windows"
#define CARRIES "the first process's input and output carry the commands and their results"

/* Flags that docker run has and a computer can't. */
static const struct refused {
    const char *name;
    char letter;
    const char *why;
} refused_table[] = {
    {"rm", 0, "a temporary computer is removed at its end anyway, a permanent one must not be"},
    {"name", 0, "a container's name is made of its computer's id"},
    {"detach", 'd', "computers always run in the background"},
    {"detach-keys", 0, CARRIES},
    {"interactive", 'i', CARRIES},
    {"tty", 't', CARRIES},
    {"attach", 'a', CARRIES},
    {"sig-proxy", 0, "there is no client to pass signals on"},
    {"cidfile", 0, "there are many containers; their ids are in computer_list"},
    {"pull", 0, "images are pulled when they are absent; pull a newer one with the engine's own command"},
    {"quiet", 'q', "how a pull is reported is up to --log-level"},
    {"help", 0, "see docker-run(1)"},
    {"disable-content-trust", 0, "it is the docker command's own business, and gone from newer ones"},
    {"use-api-socket", 0, "it hands the engine over to the computer"},
    {"kernel-memory", 0, "kernels have no such limit any more"},
    {"isolation", 0, WINDOWS},
    {"cpu-count", 0, WINDOWS},
    {"cpu-percent", 0, WINDOWS},
    {"io-maxbandwidth", 0, WINDOWS},
    {"io-maxiops", 0, WINDOWS},
};

/* ---- near misses ---- */

enum { MISSES_MAX = 4, MISS_EDITS = 2, MISS_PREFIX = 3 };

/* Near is what is a few slips away, or only begins like it: "--memroy", "--cpuset". */
static bool is_near(const char *text, const char *name)
{
    int edits = strlen(text) > MISS_PREFIX ? MISS_EDITS : 1;
    bool begins = strlen(text) >= MISS_PREFIX && str_has_prefix(name, text);
    return begins || str_edit_distance(text, name, edits) <= edits;
}

static int unknown_flag(const char *text, struct error *err)
{
    const char *near[MISSES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(flags_table); i++)
        if (count < MISSES_MAX && is_near(text, flags_table[i].name))
            near[count++] = flags_table[i].name;
    if (count == 0)
        return error_set(err, ERR_INVALID, ASKED "there is no flag --%s of docker run", text);

    _cleanup_(buf_done) struct buf list = BUF_INIT(256);
    for (size_t i = 0; i < count; i++) {
        const char *before = i == 0 ? "" : i + 1 < count ? ", " : " or ";
        if (buf_printf(&list, "%s--%s", before, near[i]) < 0)
            break;
    }
    return error_set(err, ERR_INVALID, ASKED "there is no flag --%s of docker run; did you mean %s?", text,
                     buf_str(&list));
}

/* ---- reading ---- */

static const struct run_flag *find(const char *name, char letter)
{
    for (size_t i = 0; i < ARRAY_LEN(flags_table); i++)
        if (letter ? flags_table[i].letter == letter : strcmp(flags_table[i].name, name) == 0)
            return &flags_table[i];
    return NULL;
}

/* Why there is no such row. */
static int refuse(const char *name, char letter, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(refused_table); i++) {
        const struct refused *no = &refused_table[i];
        if (letter ? no->letter == letter : strcmp(no->name, name) == 0)
            return error_set(err, ERR_INVALID, ASKED "--%s can't be given: %s", no->name, no->why);
    }
    if (letter)
        return error_set(err, ERR_INVALID, ASKED "there is no flag -%c of docker run", letter);
    return unknown_flag(name, err);
}

/* An element apart: its flag, and the value that is in the same element, or NULL. */
static int split(const char *element, const struct run_flag **ret_flag, const char **ret_value,
                 struct error *err)
{
    if (element[0] != '-' || !element[1] || strcmp(element, "--") == 0)
        return error_set(err, ERR_INVALID,
                         ASKED "'%s' is not a flag of docker run; it takes such as --memory=1g", element);
    bool is_long = element[1] == '-';
    size_t n = is_long ? 2 + strcspn(element + 2, "= ") : 2;
    _cleanup_(cleanup_free) char *name = xstrndup(element + 2, n - 2);
    const struct run_flag *flag = find(name, is_long ? '\0' : element[1]);
    if (!flag)
        return refuse(name, is_long ? '\0' : element[1], err);

    const char *rest = element + n, *value = rest;
    if (*rest == '=')
        value = rest + 1;
    else if (*rest == ' ')
        value = rest + strspn(rest, " ");
    if (flag->is_switch && *rest && *rest != '=')
        return error_set(err, ERR_INVALID,
                         ASKED "--%s takes no value but --%s=false; give one flag at a time", flag->name,
                         flag->name);
    *ret_flag = flag;
    *ret_value = *rest ? value : NULL;
    return 0;
}

/* One flag of one or two elements; ret_used says of how many. */
static int next(char *const *flags, const struct run_flag **ret_flag, const char **ret_value,
                size_t *ret_used, struct error *err)
{
    if (split(flags[0], ret_flag, ret_value, err) < 0)
        return -1;
    *ret_used = 1;
    if (!*ret_value && (*ret_flag)->is_switch) {
        *ret_value = "true";
    } else if (!*ret_value) {
        if (!flags[1])
            return error_set(err, ERR_INVALID, ASKED "--%s needs a value: --%s=VALUE", (*ret_flag)->name,
                             (*ret_flag)->name);
        *ret_value = flags[1];
        *ret_used = 2;
    }
    return 0;
}

static int take(struct run *r, const struct run_flag *flag, const char *value, struct error *err)
{
    bool on;
    if (!utf8_valid(value, strlen(value)))
        return error_set(err, ERR_INVALID, "not UTF-8");
    if (flag->is_switch && !run_parse_bool(value, &on))
        return error_set(err, ERR_INVALID, "it takes true or false");
    run_append(r->given, flag->name, json_string(value));
    return flag->parse ? flag->parse(r, flag, value, err) : 0;
}

int run_flags_apply(char *const *flags, json_t *body, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *given = json_object();
    struct run r = {.body = body, .given = given};
    for (size_t used; flags && *flags; flags += used) {
        const struct run_flag *flag;
        const char *value;
        if (next(flags, &flag, &value, &used, err) < 0)
            return -1;
        if (take(&r, flag, value, err) < 0)
            return flag->is_secret ? error_prefix(err, ASKED "--%s", flag->name)
                                   : error_prefix(err, ASKED "--%s '%s'", flag->name, value);
    }
    return run_settle(&r, err);
}

const char *run_flags_value(char *const *flags, const char *name)
{
    const char *found = NULL;
    for (size_t used; flags && *flags; flags += used) {
        const struct run_flag *flag;
        const char *value;
        if (next(flags, &flag, &value, &used, NULL) < 0)
            break;
        if (strcmp(flag->name, name) == 0)
            found = value;
    }
    return found;
}
