/* See compose.h. */
#include "compose.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "backends/engine/address.h"
#include "backends/engine/engine.h"
#include "backends/native/native.h"
#include "base/fd.h"
#include "computers/computers.h"
#include "tools/tools.h"

/* One computer is made ahead for each that much memory that is to be had at the start. */
#define POOL_BYTES_EACH (256 * MIB)
#define MEMINFO_BYTES_MAX (64 * KIB)

/* Long enough for an engine that is there, short enough for a client that waits for its tools. */
#define ASK_MS 300

/* -- Which backend. */

static struct engine_options engine_options(const struct config_values *v)
{
    return (struct engine_options){
        .engine = v->engine,
        .docker_host = v->docker_host,
        .container_host = v->container_host,
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

int backend_settle(const struct config_values *v, enum config_backend *ret, struct error *err)
{
    const struct engine_options options = engine_options(v);
    enum config_backend backend = v->backend;
    if (backend == CONFIG_AUTO && !engine_address_likely(&options))
        backend = CONFIG_NATIVE;
    if (backend == CONFIG_NATIVE && native_check(v->rootfs, err) < 0)
        return v->backend == CONFIG_NATIVE ? -1 : error_prefix(err, "no container engine was found");
    *ret = backend;
    return 0;
}

/* Where native computers can't be made anyway, an engine that is slow to come is the better hope. */
enum config_backend backend_ask(const struct config_values *v)
{
    const struct engine_options options = engine_options(v);
    bool docker = engine_answers(&options, ASK_MS) || native_check(v->rootfs, NULL) < 0;
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
        .network_wanted = v->network,
    });
}

static struct backend *make_backend(const struct config_values *v, enum config_backend backend,
                                    struct error *err)
{
    if (backend == CONFIG_NATIVE)
        return native_backend(v);
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
        .pool = pool_size(v),
    });
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
