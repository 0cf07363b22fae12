/* THE options table: one row per option. Flags, environment variables, config file, --help, --print-config
 * and the man page all come from here, so a new option is one row, one member in config_values.h, and the
 * code that reads it.
 *
 * A row without a range has min and max 0. What only a later version or backend uses is in the table already:
 * every flag of the two Python programs is accepted, and what can't be honoured is refused by rules.c, never
 * skipped in silence. */
#include "config/option.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/macros.h"
#include "base/str.h"
#include "config/config.h"

#define MEMBER(name) .member = offsetof(struct config_values, name)
#define BOTH (OPTION_SEED_COMPUTER | OPTION_SEED_KILNTAINERS)
#define COMPUTER OPTION_SEED_COMPUTER

#define COUNT_MAX 9.3e18 /* as a maximum: none but the type's, which is a little less */
#define YEAR_S 31536000.0
#define DAY_S 86400.0

const struct option_group_row option_groups[GROUP_COUNT] = {
    [GROUP_CORE] = {"Core"},
    [GROUP_PROGRAM] = {"The program itself"},
    [GROUP_DESCRIPTION] = {"Tool description"},
    [GROUP_LOCAL] = {"Local computers"},
    [GROUP_HTTP] = {"HTTP"},
    [GROUP_DOCKER] = {"Docker and Podman backends", .backend = true},
    [GROUP_FLY] = {"Fly backend", .backend = true},
    [GROUP_E2B] = {"E2B backend", .backend = true},
    [GROUP_MODAL] = {"Modal backend", .backend = true},
    [GROUP_WASM] = {"WASM backends", .backend = true},
};

static const struct option_name backends[] = {
    [CONFIG_AUTO] = {"auto"},
    [CONFIG_NATIVE] = {"native"},
    [CONFIG_DOCKER] = {"docker"},
    [CONFIG_PODMAN] = {"podman"},
    [CONFIG_E2B] = {"e2b"},
    [CONFIG_FLY] = {"fly"},
    [CONFIG_MODAL] = {"modal"},
    [CONFIG_GO_BUSYBOX] = {"go_busybox"},
    [CONFIG_WASM] = {"wasm"},
    [CONFIG_KUBERNETES] = {"kubernetes", .later = true},
    {NULL},
};
static const struct option_name transports[] = {[CONFIG_STDIO] = {"stdio"}, [CONFIG_HTTP] = {"http"}, {NULL}};
static const struct option_name log_levels[] = {[LOG_ERROR] = {"error"},
                                                [LOG_WARNING] = {"warning"},
                                                [LOG_INFO] = {"info"},
                                                [LOG_DEBUG] = {"debug"},
                                                {NULL}};
static const struct option_name log_formats[] = {
    [CONFIG_LOG_TEXT] = {"text"}, [CONFIG_LOG_JSON] = {"json"}, {NULL}};
static const struct option_name on_exits[] = {[CONFIG_ON_EXIT_AUTO] = {"auto"},
                                              [CONFIG_ON_EXIT_KEEP] = {"keep"},
                                              [CONFIG_ON_EXIT_STOP] = {"stop"},
                                              {NULL}};
static const struct option_name fly_cpu_kinds[] = {
    [CONFIG_FLY_SHARED] = {"shared"}, [CONFIG_FLY_PERFORMANCE] = {"performance"}, {NULL}};
static const struct option_name personalities[] = {
    [CONFIG_COMPUTER] = {"mcp-sandbox-computer-vm-for-ai"}, [CONFIG_KILNTAINERS] = {"kilntainers"}, {NULL}};

/* clang-format off */
const struct option_row option_rows[] = {
    /* core */
    {.name = "backend", .type = OPTION_ENUM, .traits = BOTH, MEMBER(backend), .names = backends,
     .env = {"SANDBOX_BACKEND"}, .def = "auto", .arg = "NAME",
     .help = "What the computers are made of: native ones of this machine's kernel, docker and podman ones "
             "are containers, e2b and fly ones a provider's microVMs, and go_busybox and wasm ones run a "
             "WebAssembly module. auto is docker if an engine answers, else native; options that only docker "
             "has, DOCKER_HOST and CONTAINER_HOST mean docker. A backend that is named, or meant, never "
             "falls back to another."},
    {.name = "transport", .type = OPTION_ENUM, .traits = BOTH, MEMBER(transport), .names = transports,
     .def = "stdio", .arg = "NAME",
     .help = "How MCP messages travel."},
    {.name = "timeout", .type = OPTION_SECONDS, .traits = BOTH, MEMBER(timeout_s), .def = "120",
     .min = LIMIT_TIMEOUT_MIN_S, .max = LIMIT_TIMEOUT_MAX_S, .arg = "SECONDS",
     .help = "Time limit of a command whose call names none; fractions are fine. The call's own "
             "timeout wins."},
    {.name = "output-limit", .type = OPTION_SIZE, .traits = BOTH, MEMBER(output_limit),
     .def = "2097152", .min = 1, .max = LIMIT_OUTPUT_BYTES_MAX, .arg = "BYTES",
     .help = "How much of a command's stdout and stderr together a result holds."},
    {.name = "shell", .type = OPTION_STRING, .traits = BOTH, MEMBER(shell), .arg = "PATH",
     .def_told = "/bin/bash, else /bin/sh",
     .help = "Shell that runs a call's command text, inside the computer. One that is named has no "
             "fallback."},
    {.name = "network", .negated = "no-network", .type = OPTION_BOOL, .traits = BOTH | OPTION_MEANS_DOCKER,
     MEMBER(network), .def = "true", .def_kilntainers = "false",
     .help = "Whether computers have a network. Native ones have none in this version: --network means "
             "docker, and by default native ones run without."},
    {.name = "lifecycle-tools", .type = OPTION_BOOL, MEMBER(lifecycle_tools),
     .env = {"ENABLE_LIFECYCLE_TOOLS"}, .def = "false",
     .help = "Offer the computer_* tools and the dashboard. Without effect under the name "
             "kilntainers."},
    {.name = "max-computers", .type = OPTION_INTEGER, MEMBER(max_computers), .min = 1,
     .max = LIMIT_COMPUTERS, .arg = "N", .def_told = "none",
     .help = "How many computers one principal may have at a time."},
    {.name = "max-concurrent", .type = OPTION_INTEGER, MEMBER(max_concurrent), .def = "256", .min = 1,
     .max = 4096, .arg = "N",
     .help = "How many calls run at the same time; one principal may have half of them. Others wait "
             "their turn."},
    {.name = "on-exit", .type = OPTION_ENUM, MEMBER(on_exit), .names = on_exits, .def = "auto",
     .arg = "WHAT",
     .help = "What happens to permanent computers when the server ends: keep lets what runs in them run on, "
             "until a server uses them again; stop ends it. auto is keep for native computers, stop for "
             "containers. Files stay in any case."},
    {.name = "ttl", .type = OPTION_SECONDS, MEMBER(ttl_s), .min = 1,
     .max = YEAR_S, .arg = "SECONDS",
     .help = "Remove a computer this long after it was made, if no call has said otherwise."},
    {.name = "idle-timeout", .type = OPTION_SECONDS, MEMBER(idle_timeout_s),
     .min = 1, .max = YEAR_S, .arg = "SECONDS",
     .help = "Stop a computer that was not used for so long, if no call has said otherwise."},

    /* the program itself */
    {.name = "help", .letter = 'h', .type = OPTION_ACTION, .group = GROUP_PROGRAM,
     .traits = BOTH | OPTION_FLAG_ONLY, .member = CONFIG_HELP,
     .help = "Show this text and exit."},
    {.name = "version", .letter = 'V', .type = OPTION_ACTION, .group = GROUP_PROGRAM,
     .traits = OPTION_FLAG_ONLY, .member = CONFIG_VERSION,
     .help = "Show name and version and exit."},
    {.name = "config", .type = OPTION_PATH, .group = GROUP_PROGRAM, .traits = OPTION_FLAG_ONLY,
     MEMBER(config_path), .arg = "FILE",
     .def_told = "$XDG_CONFIG_HOME/NAME/config.toml or ~/.config/NAME/config.toml, "
                 "else /etc/NAME/config.toml",
     .help = "Read options from this file: lines of the form name = value, the names being those of "
             "the flags."},
    {.name = "print-config", .type = OPTION_ACTION, .group = GROUP_PROGRAM, .traits = OPTION_FLAG_ONLY,
     .member = CONFIG_PRINT,
     .help = "Show all values and where each came from, as a config file, and exit. Secrets are not "
             "shown."},
    {.name = "check-config", .type = OPTION_ACTION, .group = GROUP_PROGRAM, .traits = OPTION_FLAG_ONLY,
     .member = CONFIG_CHECK,
     .help = "Check command line, environment and config file, and exit with 0, 1 or 2."},
    {.name = "personality", .type = OPTION_ENUM, .group = GROUP_PROGRAM, .traits = OPTION_FLAG_ONLY,
     MEMBER(personality), .names = personalities, .arg = "NAME",
     .def_told = "the name it is started under",
     .help = "Behave as the program of that name. kilntainers: one tool sandbox_exec, network off by "
             "default, computers always temporary."},
    {.name = "state-dir", .type = OPTION_PATH, .group = GROUP_PROGRAM, MEMBER(state_dir),
     .env = {"STATE_DIRECTORY"}, .arg = "DIR",
     .def_told = "/var/lib/mcp-sandbox-computer-vm-for-ai for root, "
                 "else under $XDG_STATE_HOME or ~/.local/state",
     .help = "Where records and files of permanent computers are kept."},
    {.name = "log-level", .type = OPTION_ENUM, .group = GROUP_PROGRAM, MEMBER(log_level),
     .names = log_levels, .def = "warning", .arg = "LEVEL",
     .help = "The least serious kind of message that is logged."},
    {.name = "log-format", .type = OPTION_ENUM, .group = GROUP_PROGRAM, MEMBER(log_format),
     .names = log_formats, .def = "text", .arg = "FORMAT",
     .help = "Form of a log line."},
    {.name = "log-file", .type = OPTION_PATH, .group = GROUP_PROGRAM, MEMBER(log_file), .arg = "FILE",
     .def_told = "standard error",
     .help = "Where the log goes."},

    {.name = "ca-file", .type = OPTION_PATH, .group = GROUP_PROGRAM, .traits = OPTION_NO_FLAG, MEMBER(ca_file),
     .env = {"SSL_CERT_FILE"}, .arg = "FILE", .def_told = "the system's",
     .help = "Certificates, and no others, that a provider's is checked against."},

    /* tool description */
    {.name = "tool-instruction-override", .type = OPTION_STRING, .group = GROUP_DESCRIPTION,
     .traits = BOTH, MEMBER(tool_instruction_override), .arg = "TEXT",
     .help = "Replace the whole description that the model reads of the command tool."},
    {.name = "extended-tool-instruction", .type = OPTION_STRING, .group = GROUP_DESCRIPTION,
     .traits = BOTH, MEMBER(extended_tool_instruction), .arg = "TEXT",
     .help = "Append to that description instead."},

    /* local computers */
    {.name = "cpu", .type = OPTION_NUMBER, .group = GROUP_LOCAL, .traits = BOTH, MEMBER(cpu),
     .min = LIMIT_COMPUTER_CPUS_MIN, .max = LIMIT_COMPUTER_CPUS_MAX, .arg = "N",
     .def_told = "native 1.0, docker none",
     .help = "Processor cores that a computer may use, such as 1.5."},
    {.name = "memory", .type = OPTION_SIZE, .group = GROUP_LOCAL, .traits = BOTH, MEMBER(memory),
     .min = LIMIT_COMPUTER_MEMORY_MIN, .max = LIMIT_COMPUTER_MEMORY_MAX, .arg = "SIZE",
     .def_told = "native 512m, docker half of the engine's memory",
     .help = "Memory that a computer may use, such as 512m or 2g."},
    {.name = "pids", .type = OPTION_INTEGER, .group = GROUP_LOCAL, MEMBER(pids),
     .min = LIMIT_COMPUTER_PIDS_MIN, .max = LIMIT_COMPUTER_PIDS_MAX, .arg = "N",
     .def_told = "native 512, docker 1024",
     .help = "Processes and threads that a computer may have."},
    {.name = "warm-pool", .type = OPTION_INTEGER, .group = GROUP_LOCAL, MEMBER(warm_pool), .def = "4",
     .min = 0, .max = 16, .arg = "N",
     .help = "How many native computers to have ready for who asks next, once there was a first one; fewer "
             "where memory is short. 0: none, but two are begun."},
    {.name = "disk", .type = OPTION_SIZE, .group = GROUP_LOCAL, MEMBER(disk),
     .min = LIMIT_COMPUTER_DISK_MIN, .max = LIMIT_COMPUTER_DISK_MAX, .arg = "SIZE", .def_told = "no limit",
     .help = "What a new native computer may write to its disk, with a file for each 8 KiB of it. Enforced where "
             "the server is root and the machine has loop devices and mkfs.ext4; else watched while commands "
             "run. Means native."},
    {.name = "rootfs", .type = OPTION_PATH, .group = GROUP_LOCAL, MEMBER(rootfs), .arg = "DIR",
     .def_told = "the programs of this machine",
     .help = "Folder that native computers have as their root. It is never written to. Means native."},
    {.name = "image", .type = OPTION_STRING, .group = GROUP_LOCAL,
     .traits = BOTH | OPTION_MEANS_DOCKER, MEMBER(image), .arg = "IMAGE",
     .def_told = "debian:bookworm-slim with docker and modal",
     .help = "OCI image that computers start from."},
    {.name = "platform", .type = OPTION_STRING, .group = GROUP_LOCAL, .traits = OPTION_MEANS_DOCKER,
     MEMBER(platform), .arg = "OS/ARCH", .def_told = "the engine's own",
     .help = "Platform of the image, such as linux/arm64."},
    {.name = "allow-cidr", .type = OPTION_LIST, .group = GROUP_LOCAL, .traits = OPTION_LATER,
     MEMBER(allow_cidr), .arg = "NET",
     .help = "Network that computers may reach."},
    {.name = "deny-cidr", .type = OPTION_LIST, .group = GROUP_LOCAL, .traits = OPTION_LATER,
     MEMBER(deny_cidr), .arg = "NET",
     .help = "Network that computers may not reach."},
    {.name = "volume", .type = OPTION_LIST, .group = GROUP_LOCAL, .traits = OPTION_LATER,
     MEMBER(volume), .arg = "SRC:DEST",
     .help = "Folder of this machine that computers see."},
    {.name = "env", .type = OPTION_LIST, .group = GROUP_LOCAL,
     .traits = OPTION_LATER | OPTION_PAIRS | OPTION_SECRET, MEMBER(env), .arg = "KEY=VALUE",
     .help = "Environment variable of every command."},
    {.name = "user", .type = OPTION_STRING, .group = GROUP_LOCAL, .traits = OPTION_LATER, MEMBER(user),
     .arg = "USER",
     .help = "User that commands run as."},
    {.name = "hostname", .type = OPTION_STRING, .group = GROUP_LOCAL, .traits = OPTION_LATER,
     MEMBER(hostname), .arg = "NAME", .def_told = "the computer's id",
     .help = "Host name of the computers."},
    {.name = "device", .type = OPTION_LIST, .group = GROUP_LOCAL, .traits = OPTION_LATER,
     MEMBER(device), .arg = "PATH",
     .help = "Device of this machine that computers may use."},
    {.name = "allow-weak-isolation", .type = OPTION_BOOL, .group = GROUP_LOCAL,
     MEMBER(allow_weak_isolation), .def = "false",
     .help = "Native computers even where the kernel lets us have no namespaces: what is left then is "
             "much less (see SECURITY.md)."},

    /* HTTP */
    {.name = "host", .type = OPTION_STRING, .group = GROUP_HTTP, .traits = BOTH | OPTION_HTTP_ONLY,
     MEMBER(host), .def = "127.0.0.1", .arg = "HOST",
     .help = "Address to listen on. One that other machines reach needs a token or "
             "--allow-unauthenticated-http."},
    {.name = "port", .type = OPTION_INTEGER, .group = GROUP_HTTP, .traits = BOTH | OPTION_HTTP_ONLY,
     MEMBER(port), .def = "8435", .min = 0, .max = 65535, .arg = "PORT",
     .help = "Port to listen on; with 0 the kernel picks a free one, which is printed on standard "
             "error."},
    {.name = "session-timeout", .type = OPTION_SECONDS, .group = GROUP_HTTP,
     .traits = BOTH | OPTION_HTTP_ONLY, MEMBER(session_timeout_s), .def = "300", .min = 1,
     .max = YEAR_S, .arg = "SECONDS",
     .help = "End a session, and its temporary computers, that was not used for so long."},
    {.name = "auth-token", .type = OPTION_STRING, .group = GROUP_HTTP,
     .traits = COMPUTER | OPTION_SECRET, MEMBER(auth_token), .env = {"KILNTAINERS_AUTH_TOKEN"},
     .arg = "TOKEN",
     .help = "Bearer token that clients must send. As a flag it is visible to every user of this "
             "machine: prefer the variable or --auth-token-file."},
    {.name = "auth-token-file", .type = OPTION_PATH, .group = GROUP_HTTP, MEMBER(auth_token_file),
     .arg = "FILE",
     .help = "File of tokens: lines of the form name token, or name sha256:HEX. Each name is a "
             "principal of its own."},
    {.name = "allow-unauthenticated-http", .type = OPTION_BOOL, .group = GROUP_HTTP,
     .traits = COMPUTER, MEMBER(allow_unauthenticated_http), .def = "false",
     .help = "Let other machines in without a token."},
    {.name = "unix-socket", .type = OPTION_PATH, .group = GROUP_HTTP, .traits = OPTION_HTTP_ONLY,
     MEMBER(unix_socket), .arg = "PATH",
     .help = "Listen on this socket rather than on an address. Only its owner and root get in, without a "
             "token."},
    {.name = "allowed-host", .type = OPTION_LIST, .group = GROUP_HTTP, .traits = OPTION_HTTP_ONLY,
     MEMBER(allowed_host), .arg = "HOST",
     .help = "Host header to accept besides those of the loopback addresses."},
    {.name = "allowed-origin", .type = OPTION_LIST, .group = GROUP_HTTP, .traits = OPTION_HTTP_ONLY,
     MEMBER(allowed_origin), .arg = "ORIGIN",
     .help = "Origin header, that is a web page, to accept."},
    {.name = "metrics-token-file", .type = OPTION_PATH, .group = GROUP_HTTP,
     .traits = OPTION_HTTP_ONLY, MEMBER(metrics_token_file), .arg = "FILE",
     .help = "File with the bearer token that /metrics and /readyz want. Without it they are for this "
             "machine only, and only while no other token is set."},
    {.name = "access-log", .type = OPTION_PATH, .group = GROUP_HTTP,
     .traits = OPTION_HTTP_ONLY | OPTION_OR_STDERR, MEMBER(access_log), .arg = "FILE",
     .help = "Write a line of JSON about each request to this file; - is standard error."},
    {.name = "stop-timeout", .type = OPTION_SECONDS, .group = GROUP_HTTP, .traits = OPTION_HTTP_ONLY,
     MEMBER(stop_timeout_s), .def = "10", .min = 0, .max = 3600, .arg = "SECONDS",
     .help = "How long calls that run may go on when the server is asked to end; then they are cancelled."},
    {.name = "max-sessions", .type = OPTION_INTEGER, .group = GROUP_HTTP, .traits = OPTION_HTTP_ONLY,
     MEMBER(max_sessions), .def = "4096", .min = 1, .max = 100000, .arg = "N",
     .help = "How many sessions there may be at a time; with --auth-token-file one principal may have "
             "half of them."},
    {.name = "max-connections", .type = OPTION_INTEGER, .group = GROUP_HTTP, .traits = OPTION_HTTP_ONLY,
     MEMBER(max_connections), .def = "16384", .min = 8, .max = 1000000, .arg = "N",
     .help = "How many connections are open at a time. Others wait until one closes."},
    {.name = "max-connections-per-peer", .type = OPTION_INTEGER, .group = GROUP_HTTP,
     .traits = OPTION_HTTP_ONLY, MEMBER(max_connections_per_peer), .def = "0", .min = 0, .max = 1000000,
     .arg = "N", .help = "The same, per address; 0 is no limit, as behind a proxy all have one address."},
    {.name = "max-body", .type = OPTION_SIZE, .group = GROUP_HTTP, .traits = OPTION_HTTP_ONLY,
     MEMBER(max_body), .def = "24m", .min = 64.0 * KIB, .max = LIMIT_MESSAGE_BYTES, .arg = "SIZE",
     .help = "The longest body of a request."},

    /* Docker and Podman */
    {.name = "engine", .type = OPTION_STRING, .group = GROUP_DOCKER,
     .traits = BOTH | OPTION_MEANS_DOCKER, MEMBER(engine), .def = "docker", .arg = "ENGINE",
     .help = "Whose containers computers are: docker, podman, or the path of a program of one of these "
             "names. No program is needed but Podman's, where it has no socket."},
    {.name = "docker-host", .type = OPTION_STRING, .group = GROUP_DOCKER,
     .traits = BOTH | OPTION_MEANS_DOCKER, MEMBER(docker_host), .env = {"DOCKER_HOST"}, .arg = "ADDR",
     .def_told = "the docker context in use, else the sockets that engines usually have",
     .help = "Address of the engine, Docker's or Podman's: unix://PATH, tcp://HOST[:PORT] or "
             "ssh://[USER@]HOST[:PORT][/SOCKET]."},
    {.name = "container-host", .type = OPTION_STRING, .group = GROUP_DOCKER,
     .traits = OPTION_MEANS_DOCKER | OPTION_NO_FLAG, MEMBER(container_host), .env = {"CONTAINER_HOST"}, .arg = "ADDR",
     .help = "Address of Podman; alone it means podman."},
    {.name = "docker-context", .type = OPTION_STRING, .group = GROUP_DOCKER,
     .traits = OPTION_MEANS_DOCKER | OPTION_NO_FLAG, MEMBER(docker_context), .env = {"DOCKER_CONTEXT"}, .arg = "NAME",
     .def_told = "that of docker context use",
     .help = "Name of the docker context that says where Docker is."},
    {.name = "docker-tls-verify", .type = OPTION_BOOL, .group = GROUP_DOCKER,
     .traits = OPTION_NO_FLAG | OPTION_PRESENCE, MEMBER(docker_tls_verify),
     .env = {"DOCKER_TLS_VERIFY"}, .def = "false",
     .help = "Speak TLS to a tcp:// address, and check the engine's certificate."},
    {.name = "docker-cert-path", .type = OPTION_PATH, .group = GROUP_DOCKER, .traits = OPTION_NO_FLAG,
     MEMBER(docker_cert_path), .env = {"DOCKER_CERT_PATH"}, .arg = "DIR",
     .def_told = "~/.docker",
     .help = "Folder of ca.pem, cert.pem and key.pem. Given, it means TLS; without DOCKER_TLS_VERIFY any "
             "certificate of the engine will do."},
    {.name = "docker-run-flag", .type = OPTION_LIST, .group = GROUP_DOCKER,
     .traits = BOTH | OPTION_MEANS_DOCKER | OPTION_DASHES, MEMBER(docker_run_flag), .arg = "FLAG",
     .help = "A flag of docker run for every computer, such as --shm-size=1g. It may weaken their "
             "isolation."},

    /* Fly */
    {.name = "fly-cli", .type = OPTION_STRING, .group = GROUP_FLY, .traits = COMPUTER, MEMBER(fly_cli),
     .def = "fly", .arg = "PROGRAM",
     .help = "Name or path of flyctl, which is asked for the token of a login where no other is found."},
    {.name = "fly-app", .type = OPTION_STRING, .group = GROUP_FLY, .traits = COMPUTER, MEMBER(fly_app),
     .env = {"FLY_APP_NAME"}, .arg = "APP",
     .def_told = "one that is made for this user, once",
     .help = "App that the machines belong to. One that is there is used as it is, which a deploy token may; else "
             "it is made."},
    {.name = "fly-org", .type = OPTION_STRING, .group = GROUP_FLY, .traits = OPTION_NO_FLAG,
     MEMBER(fly_org), .env = {"FLY_ORG"}, .arg = "ORG",
     .def_told = "personal, else the first",
     .help = "Organisation in which an app is made."},
    {.name = "fly-token", .type = OPTION_STRING, .group = GROUP_FLY,
     .traits = COMPUTER | OPTION_SECRET, MEMBER(fly_token),
     .env = {"FLY_API_TOKEN", "FLY_TOKEN", "FLY_ACCESS_TOKEN"}, .arg = "TOKEN",
     .def_told = "that of fly auth login",
     .help = "API token. As a flag it is visible to every user of this machine: prefer a variable."},
    {.name = "fly-image", .type = OPTION_STRING, .group = GROUP_FLY, .traits = COMPUTER,
     MEMBER(fly_image), .def = "debian:bookworm-slim", .arg = "IMAGE",
     .help = "OCI image of the machines."},
    {.name = "fly-region", .type = OPTION_STRING, .group = GROUP_FLY, .traits = COMPUTER,
     MEMBER(fly_region), .env = {"FLY_REGION"}, .arg = "REGION", .def_told = "Fly's choice",
     .help = "Region of new machines."},
    {.name = "fly-cpu-kind", .type = OPTION_ENUM, .group = GROUP_FLY, .traits = COMPUTER,
     MEMBER(fly_cpu_kind), .names = fly_cpu_kinds, .def = "shared", .arg = "KIND",
     .help = "Kind of processor."},
    {.name = "fly-cpus", .type = OPTION_INTEGER, .group = GROUP_FLY, .traits = COMPUTER,
     MEMBER(fly_cpus), .def = "1", .min = 1, .max = 128, .arg = "N",
     .help = "Processors per machine."},
    {.name = "fly-memory", .type = OPTION_INTEGER, .group = GROUP_FLY, .traits = COMPUTER,
     MEMBER(fly_memory_mb), .def = "512", .min = 256, .max = 1048576, .arg = "MB",
     .help = "Memory per machine."},
    {.name = "fly-rootfs-size", .type = OPTION_INTEGER, .group = GROUP_FLY, .traits = COMPUTER,
     MEMBER(fly_rootfs_size_gb), .min = 1, .max = 1024, .arg = "GB",
     .help = "Size of a machine's root file system."},
    {.name = "fly-lease", .type = OPTION_SECONDS, .group = GROUP_FLY, MEMBER(fly_lease_s), .def = "1800",
     .min = 1, .max = DAY_S, .arg = "SECONDS",
     .help = "How long a temporary machine goes on when no server speaks to it any more, as after the server's "
             "death; servers renew it."},
    {.name = "fly-rate", .type = OPTION_NUMBER, .group = GROUP_FLY, MEMBER(fly_rate), .def = "1",
     .min = 0.1, .max = 10000, .arg = "N",
     .help = "Calls a second that Fly takes of one kind for one machine, or of those that make one for the app. "
             "Others wait for their turn. For who has had that limit raised."},
    {.name = "fly-auto-install", .type = OPTION_BOOL, .group = GROUP_FLY, .traits = OPTION_NO_FLAG,
     MEMBER(fly_auto_install), .env = {"AUTO_INSTALL_FLYCTL"}, .def = "true",
     .help = "Install flyctl where it is missing and nobody is logged in."},
    {.name = "fly-state-file", .type = OPTION_PATH, .group = GROUP_FLY, .traits = OPTION_NO_FLAG,
     MEMBER(fly_state_file), .env = {"KILNTAINERS_FLY_STATE_FILE"}, .arg = "FILE",
     .def_told = "~/.mcp-sandbox-computer-vm-for-ai/fly.json",
     .help = "Where the name of the app that was made is recorded."},
    {.name = "fly-install-dir", .type = OPTION_PATH, .group = GROUP_FLY, .traits = OPTION_NO_FLAG,
     MEMBER(fly_install_dir), .env = {"FLYCTL_INSTALL"}, .arg = "DIR", .def_told = "~/.fly",
     .help = "Where flyctl is installed: in its folder bin."},
    {.name = "fly-config-dir", .type = OPTION_PATH, .group = GROUP_FLY, .traits = OPTION_NO_FLAG,
     MEMBER(fly_config_dir), .env = {"FLY_CONFIG_DIR"}, .arg = "DIR", .def_told = "~/.fly",
     .help = "Where flyctl keeps its login."},
    {.name = "fly-api-url", .type = OPTION_STRING, .group = GROUP_FLY, .traits = OPTION_NO_FLAG,
     MEMBER(fly_api_url), .env = {"FLY_API_BASE_URL"}, .arg = "URL", .def_told = "https://api.fly.io",
     .help = "Where organisations and flyctl's releases are asked for: https://, or http:// for this machine itself."},
    {.name = "fly-machines-url", .type = OPTION_STRING, .group = GROUP_FLY, .traits = OPTION_NO_FLAG,
     MEMBER(fly_machines_url), .env = {"FLY_FLAPS_BASE_URL"}, .arg = "URL",
     .def_told = "https://api.machines.dev",
     .help = "Where the Machines API is; likewise."},

    /* E2B */
    {.name = "e2b-api-key", .type = OPTION_STRING, .group = GROUP_E2B, .traits = BOTH | OPTION_SECRET,
     MEMBER(e2b_api_key), .env = {"E2B_API_KEY"}, .arg = "KEY",
     .help = "API key. As a flag it is visible to every user of this machine: prefer the variable."},
    {.name = "e2b-template", .type = OPTION_STRING, .group = GROUP_E2B, .traits = BOTH,
     MEMBER(e2b_template), .def = "base", .arg = "NAME",
     .help = "Template name or id."},
    {.name = "e2b-sandbox-timeout", .type = OPTION_SECONDS, .group = GROUP_E2B, .traits = BOTH,
     MEMBER(e2b_sandbox_timeout_s), .def = "3600", .min = 1, .max = DAY_S, .arg = "SECONDS",
     .help = "Lifetime of a sandbox at the provider, renewed while a server uses it. When it is over a temporary "
             "one is removed and a permanent one paused. Plans have a maximum."},
    {.name = "e2b-metadata", .type = OPTION_LIST, .group = GROUP_E2B, .traits = BOTH | OPTION_PAIRS,
     MEMBER(e2b_metadata), .arg = "KEY=VALUE",
     .help = "Metadata of the sandboxes, beside our own."},
    {.name = "e2b-env", .type = OPTION_LIST, .group = GROUP_E2B,
     .traits = BOTH | OPTION_PAIRS | OPTION_SECRET, MEMBER(e2b_env), .arg = "KEY=VALUE",
     .help = "Environment variable of the sandboxes."},
    {.name = "e2b-domain", .type = OPTION_STRING, .group = GROUP_E2B, .traits = OPTION_NO_FLAG,
     MEMBER(e2b_domain), .env = {"E2B_DOMAIN"}, .def = "e2b.app", .arg = "DOMAIN",
     .help = "Domain of the provider, for one of your own."},
    {.name = "e2b-api-url", .type = OPTION_STRING, .group = GROUP_E2B, .traits = OPTION_NO_FLAG,
     MEMBER(e2b_api_url), .env = {"E2B_API_URL"}, .arg = "URL", .def_told = "https://api.DOMAIN",
     .help = "Where its API is: https://, or http:// for this machine itself."},
    {.name = "e2b-sandbox-url", .type = OPTION_STRING, .group = GROUP_E2B, .traits = OPTION_NO_FLAG,
     MEMBER(e2b_sandbox_url), .env = {"E2B_SANDBOX_URL"}, .arg = "URL", .def_told = "what the domain has",
     .help = "Where all sandboxes are reached; likewise."},

    /* Modal */
    {.name = "modal-token-id", .type = OPTION_STRING, .group = GROUP_MODAL,
     .traits = BOTH | OPTION_SECRET, MEMBER(modal_token_id), .env = {"MODAL_TOKEN_ID"}, .arg = "ID",
     .def_told = "from ~/.modal.toml",
     .help = "Token id."},
    {.name = "modal-token-secret", .type = OPTION_STRING, .group = GROUP_MODAL,
     .traits = BOTH | OPTION_SECRET, MEMBER(modal_token_secret), .env = {"MODAL_TOKEN_SECRET"},
     .arg = "SECRET", .def_told = "from ~/.modal.toml",
     .help = "Token secret. As a flag it is visible to every user of this machine: prefer the variable, or what "
             "`modal setup` leaves."},
    {.name = "modal-app-name", .type = OPTION_STRING, .group = GROUP_MODAL, .traits = BOTH,
     MEMBER(modal_app_name), .def = "mcp-sandbox-computer-vm-for-ai", .def_kilntainers = "kilntainers",
     .arg = "NAME",
     .help = "App that owns the sandboxes."},
    {.name = "modal-cpu", .type = OPTION_NUMBER, .group = GROUP_MODAL, .traits = BOTH,
     MEMBER(modal_cpu), .def = "1.0", .min = 0.1, .max = 256, .arg = "N",
     .help = "Processor cores reserved for a sandbox."},
    {.name = "modal-memory", .type = OPTION_INTEGER, .group = GROUP_MODAL, .traits = BOTH,
     MEMBER(modal_memory_mib), .def = "512", .min = 1, .max = 1048576, .arg = "MIB",
     .help = "Memory reserved for a sandbox."},
    {.name = "gpu", .type = OPTION_STRING, .group = GROUP_MODAL, .traits = BOTH, MEMBER(gpu),
     .arg = "TYPE",
     .help = "Kind of GPU, such as A10G, or H100:2 for two. Sandboxes are then of the first generation."},
    {.name = "region", .type = OPTION_STRING, .group = GROUP_MODAL, .traits = BOTH, MEMBER(region),
     .arg = "REGION",
     .help = "Region, such as us-east."},
    {.name = "sandbox-timeout", .type = OPTION_SECONDS, .group = GROUP_MODAL, .traits = BOTH,
     MEMBER(sandbox_timeout_s), .def = "3600", .min = 1, .max = DAY_S, .arg = "SECONDS",
     .help = "Lifetime of a sandbox at Modal, which can't be renewed: before it is over a computer in use moves to "
             "a new sandbox with its files, and what runs in it ends."},
    {.name = "modal-profile", .type = OPTION_STRING, .group = GROUP_MODAL, .traits = OPTION_NO_FLAG,
     MEMBER(modal_profile), .env = {"MODAL_PROFILE"}, .arg = "NAME", .def_told = "the active one",
     .help = "Profile of ~/.modal.toml."},
    {.name = "modal-config-path", .type = OPTION_PATH, .group = GROUP_MODAL, .traits = OPTION_NO_FLAG,
     MEMBER(modal_config_path), .env = {"MODAL_CONFIG_PATH"}, .arg = "FILE", .def_told = "~/.modal.toml",
     .help = "File of profiles, as `modal setup` writes it."},
    {.name = "modal-server-url", .type = OPTION_STRING, .group = GROUP_MODAL, .traits = OPTION_NO_FLAG,
     MEMBER(modal_server_url), .env = {"MODAL_SERVER_URL"}, .arg = "URL", .def_told = "the profile's, or Modal's",
     .help = "Where Modal is: https://, or http:// for this machine itself."},
    {.name = "modal-environment", .type = OPTION_STRING, .group = GROUP_MODAL, .traits = OPTION_NO_FLAG,
     MEMBER(modal_environment), .env = {"MODAL_ENVIRONMENT"}, .arg = "NAME", .def_told = "the profile's, or the default",
     .help = "Environment of the workspace."},
    {.name = "modal-image-builder-version", .type = OPTION_STRING, .group = GROUP_MODAL, .traits = OPTION_NO_FLAG,
     MEMBER(modal_image_builder_version), .env = {"MODAL_IMAGE_BUILDER_VERSION"}, .arg = "VERSION",
     .def_told = "the environment's",
     .help = "Version of Modal's image builder."},
    {.name = "modal-sandbox-v2", .type = OPTION_STRING, .group = GROUP_MODAL, .traits = OPTION_NO_FLAG,
     MEMBER(modal_sandbox_v2), .env = {"MODAL_SANDBOX_V2"}, .arg = "YES", .def_told = "the profile's, or yes",
     .help = "Whether sandboxes are of the second generation."},

    /* WASM */
    {.name = "wasm-path", .type = OPTION_PATH, .group = GROUP_WASM, .traits = BOTH, MEMBER(wasm_path),
     .arg = "FILE",
     .help = "Module to run, a command of WASI preview 1; needed by the wasm backend."},
    {.name = "wasm-max-memory", .type = OPTION_INTEGER, .group = GROUP_WASM, .traits = BOTH,
     MEMBER(wasm_max_memory_mib), .def = "256", .min = 1, .max = 4096, .arg = "MIB",
     .help = "Memory that a module may have, in each command."},
    {.name = "wasm-fuel", .type = OPTION_INTEGER, .group = GROUP_WASM, .traits = BOTH,
     MEMBER(wasm_fuel), .min = 1, .max = COUNT_MAX, .arg = "N", .def_told = "unlimited",
     .help = "Instructions that a command may take; one that needs more ends with exit code 124."},
};
/* clang-format on */
const size_t option_row_count = ARRAY_LEN(option_rows);

const struct option_row *option_find(const char *name)
{
    for (size_t i = 0; i < option_row_count; i++)
        if (strcmp(option_rows[i].name, name) == 0)
            return &option_rows[i];
    return NULL;
}

const char *option_near_miss(const char *name, bool flags_only)
{
    int best_distance = strlen(name) < 4 ? 1 : 2;
    const char *best = NULL;
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->traits & (flags_only ? OPTION_NO_FLAG : OPTION_FLAG_ONLY))
            continue;
        int distance = str_edit_distance(name, row->name, best_distance);
        if (distance < best_distance || (distance == best_distance && best == NULL)) {
            best_distance = distance;
            best = row->name;
        }
    }
    return best;
}

/* A bound in the unit that the option is given in. */
static void bound_format(const struct option_row *row, double bound, char *ret, size_t size)
{
    if (row->type == OPTION_SIZE && bound >= (double)MIB && bound < (double)(KIB * MIB))
        snprintf(ret, size, "%.15gm", bound / (double)MIB);
    else if (row->type == OPTION_SIZE && bound >= (double)MIB)
        snprintf(ret, size, "%.15gg", bound / (double)(KIB * MIB));
    else
        snprintf(ret, size, "%.15g", bound);
}

const char *option_range(const struct option_row *row, char buf[OPTION_RANGE_SIZE])
{
    buf[0] = '\0';
    if (row->min >= row->max)
        return buf;
    char min[24];
    char max[24];
    bound_format(row, row->min, min, sizeof(min));
    bound_format(row, row->max, max, sizeof(max));
    if (row->max >= COUNT_MAX)
        snprintf(buf, OPTION_RANGE_SIZE, "%s or more", min);
    else
        snprintf(buf, OPTION_RANGE_SIZE, "%s to %s", min, max);
    return buf;
}

const char *option_default(const struct option_row *row, bool kilntainers)
{
    return kilntainers && row->def_kilntainers != NULL ? row->def_kilntainers : row->def;
}
