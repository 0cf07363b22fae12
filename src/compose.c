/* See compose.h. */
#include "compose.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "backends/e2b/e2b.h"
#include "backends/engine/address.h"
#include "backends/engine/engine.h"
#include "backends/fly/fly.h"
#include "backends/modal/modal.h"
#include "backends/native/native.h"
#include "backends/wasm/wasm.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "computers/computers.h"
#include "config/config.h"
#include "tools/tools.h"

/* One computer is made ahead for each that much memory that is to be had at the start. */
#define POOL_BYTES_EACH (256 * MIB)
#define MEMINFO_BYTES_MAX (64 * KIB)

/* Long enough for an engine that is there, short enough for a client that waits for its tools. */
#define ASK_MS 300
#define KNOW_SECONDS 5.0

/* -- Which backend. */

static struct engine_options engine_options(const struct config_values *v)
{
    return (struct engine_options){
        .engine = v->engine,
        .docker_host = v->docker_host,
        .container_host = v->container_host,
        .context = v->docker_context,
        .tls_verify = v->docker_tls_verify,
        .cert_path = v->docker_cert_path,
        .image = v->image,
        .platform = v->platform,
        .shell = v->shell,
        .cpus = v->cpu,
        .memory_bytes = v->memory,
        .pids = v->pids,
        .network = v->network,
        .run_flags = v->docker_run_flag,
        .keep_running = v->on_exit == CONFIG_ON_EXIT_KEEP,
        .state_dir = v->state_dir,
    };
}

static bool is_wasm(enum config_backend backend)
{
    return backend == CONFIG_WASM || backend == CONFIG_GO_BUSYBOX;
}

static struct wasm_options wasm_options(const struct config_values *v)
{
    return (struct wasm_options){
        .go_busybox = v->backend == CONFIG_GO_BUSYBOX,
        .state_dir = v->state_dir,
        .module = v->wasm_path,
        .shell = v->backend == CONFIG_GO_BUSYBOX ? NULL : v->shell,
        .memory_bytes = v->wasm_max_memory_mib * (int64_t)MIB,
        .fuel = v->wasm_fuel,
        .disk_bytes = v->disk,
        .network_wanted = v->network,
    };
}

char *backend_hindrance(const struct config_values *v)
{
    const struct engine_options options = engine_options(v);
    return engine_address_hindrance(&options);
}

int backend_settle(const struct config_values *v, enum config_backend *ret, struct error *err)
{
    const struct engine_options options = engine_options(v);
    enum config_backend backend = v->backend;
    if (backend == CONFIG_AUTO && !engine_address_likely(&options))
        backend = CONFIG_NATIVE;
    if (backend == CONFIG_NATIVE && native_check(v->rootfs, v->allow_weak_isolation, err) < 0) {
        _cleanup_(cleanup_free) char *hindrance = backend_hindrance(v);
        if (v->backend == CONFIG_NATIVE)
            return -1;
        return hindrance ? error_prefix(err, "no container engine can be used (%s)", hindrance)
                         : error_prefix(err, "no container engine was found");
    }
    if (is_wasm(backend)) {
        const struct wasm_options wasm = wasm_options(v);
        if (wasm_check(&wasm, err) < 0)
            return -1;
    }
    *ret = backend;
    return 0;
}

/* Where native computers can't be made anyway, an engine that is slow to come is the better hope. */
enum config_backend backend_ask(const struct config_values *v)
{
    const struct engine_options options = engine_options(v);
    bool docker =
        engine_answers(&options, ASK_MS) || native_check(v->rootfs, v->allow_weak_isolation, NULL) < 0;
    return docker ? CONFIG_DOCKER : CONFIG_NATIVE;
}

/* -- The parts. */

static struct backend *native_backend(const struct config_values *v)
{
    return native_new(&(struct native_options){
        .state_dir = v->state_dir,
        .rootfs = v->rootfs,
        .shell = v->shell,
        .memory_bytes = v->memory,
        .pids = v->pids,
        .cpus = v->cpu,
        .disk_bytes = v->disk,
        .keep_running = v->on_exit != CONFIG_ON_EXIT_STOP,
        .allow_weak = v->allow_weak_isolation,
        .network_wanted = v->network,
    });
}

/* A provider's credentials are in this process: it leaves no image of its memory, and no other process of its
 * user may look into it. */
static void guard_credentials(void)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static struct backend *e2b_backend(const struct config_values *v, struct error *err)
{
    guard_credentials();
    return e2b_new(
        &(struct e2b_options){
            .api_key = v->e2b_api_key,
            .domain = v->e2b_domain,
            .api_url = v->e2b_api_url,
            .sandbox_url = v->e2b_sandbox_url,
            .template = v->e2b_template,
            .shell = v->shell,
            .lifetime_s = v->e2b_sandbox_timeout_s,
            .metadata = v->e2b_metadata,
            .env = v->e2b_env,
            .network = v->network,
            .ca_file = v->ca_file,
        },
        err);
}

static struct backend *fly_backend(const struct config_values *v, struct error *err)
{
    guard_credentials();
    return fly_new(
        &(struct fly_options){
            .account =
                {
                    .token = v->fly_token,
                    .app = v->fly_app,
                    .organisation = v->fly_org,
                    .cli = v->fly_cli,
                    .auto_install = v->fly_auto_install,
                    .install_dir = v->fly_install_dir,
                    .config_dir = v->fly_config_dir,
                    .state_file = v->fly_state_file,
                    .api_base = v->fly_api_url,
                    .machines_base = v->fly_machines_url,
                    .ca_file = v->ca_file,
                },
            .image = v->fly_image,
            .region = v->fly_region,
            .shell = v->shell,
            .performance = v->fly_cpu_kind == CONFIG_FLY_PERFORMANCE,
            .cpus = v->fly_cpus,
            .memory_mb = v->fly_memory_mb,
            .rootfs_gb = v->fly_rootfs_size_gb,
            .lease_s = v->fly_lease_s,
            .calls_each_s = v->fly_rate,
        },
        err);
}

static struct backend *modal_backend(const struct config_values *v, struct error *err)
{
    bool v2 = false;
    const bool told = v->modal_sandbox_v2 && str_parse_bool(v->modal_sandbox_v2, &v2);
    guard_credentials();
    return modal_new(
        &(struct modal_options){
            .account =
                {
                    .token_id = v->modal_token_id,
                    .token_secret = v->modal_token_secret,
                    .profile = v->modal_profile,
                    .config_path = v->modal_config_path,
                    .server_url = v->modal_server_url,
                    .environment = v->modal_environment,
                    .builder_version = v->modal_image_builder_version,
                    .app_name = v->modal_app_name,
                    .ca_file = v->ca_file,
                    .generation_2 = told ? v2 : -1,
                },
            .image = v->image,
            .shell = v->shell,
            .gpu = v->gpu,
            .region = v->region,
            .cpus = v->modal_cpu,
            .memory_mib = v->modal_memory_mib,
            .lifetime_s = v->sandbox_timeout_s,
            .network = v->network,
        },
        err);
}

static struct backend *make_backend(const struct config_values *v, enum config_backend backend,
                                    struct error *err)
{
    if (backend == CONFIG_NATIVE)
        return native_backend(v);
    if (is_wasm(backend)) {
        const struct wasm_options wasm = wasm_options(v);
        return wasm_new(&wasm);
    }
    if (backend == CONFIG_E2B)
        return e2b_backend(v, err);
    if (backend == CONFIG_FLY)
        return fly_backend(v, err);
    if (backend == CONFIG_MODAL)
        return modal_backend(v, err);
    const struct engine_options options = engine_options(v);
    return engine_new(&options, err);
}

/* 0: it can't be known. */
static uint64_t memory_available(void)
{
    static const char NAME[] = "MemAvailable:";
    _cleanup_(buf_done) struct buf text = BUF_INIT(MEMINFO_BYTES_MAX);
    if (file_read(AT_FDCWD, "/proc/meminfo", &text, NULL) < 0)
        return 0;
    const char *found = strstr(buf_str(&text), NAME);
    return found ? strtoull(found + strlen(NAME), NULL, 10) * KIB : 0;
}

static int pool_size(const struct config_values *v)
{
    uint64_t most = memory_available() / POOL_BYTES_EACH;
    return most < (uint64_t)v->warm_pool ? (int)most : (int)v->warm_pool;
}

static struct computers *make_computers(const struct config_values *v, struct backend *backend)
{
    bool network = v->network && (backend->ops->capabilities(backend) & BACKEND_NETWORK);
    return computers_new(&(struct computers_options){
        .state_dir = v->state_dir,
        .backend = backend,
        .network = network ? "default" : "none",
        .max_per_principal = (int)v->max_computers,
        .ttl_s = v->ttl_s,
        .idle_s = v->idle_timeout_s,
        .pool = pool_size(v),
    });
}

/* Where computers may be weak, what the tools say of them must not be said before it is known. */
static void know_rung(struct backend *native)
{
    const struct wait wait = {.deadline = clock_deadline_after(KNOW_SECONDS)};
    struct error unknown = ERROR_INIT; /* the first call tells */
    native->ops->probe(native, &wait, &unknown);
}

static struct toolset *make_toolset(const struct config_values *v, const struct backend *backend,
                                    struct error *err)
{
    return toolset_new(
        &(struct toolset_options){
            .personality =
                v->personality == CONFIG_KILNTAINERS ? PERSONALITY_KILNTAINERS : PERSONALITY_COMPUTER,
            .description_override = v->tool_instruction_override,
            .description_extra = v->extended_tool_instruction,
            .default_timeout_s = v->timeout_s,
            .output_limit = (size_t)v->output_limit,
            .lease_s = v->transport == CONFIG_HTTP ? v->session_timeout_s : 0,
            .lifecycle = v->lifecycle_tools,
            .version = config_version(),
            .backend = backend,
        },
        err);
}

int parts_new(struct parts *ret, const struct config_values *v, enum config_backend backend,
              struct error *err)
{
    struct parts p = {.backend = make_backend(v, backend, err)};
    if (!p.backend)
        return -1;
    if (backend == CONFIG_NATIVE && v->allow_weak_isolation)
        know_rung(p.backend);
    p.computers = make_computers(v, p.backend);
    p.toolset = make_toolset(v, p.backend, err);
    if (!p.toolset) {
        parts_done(&p);
        return -1;
    }
    *ret = p;
    return 0;
}

void parts_done(struct parts *p)
{
    toolset_free(p->toolset);
    computers_free(p->computers);
    if (p->backend)
        p->backend->ops->free(p->backend);
    *p = (struct parts){0};
}
