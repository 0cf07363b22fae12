/* The backend's table. */
#include "backends/wasm/wasm.h"

#include <stdlib.h>
#include <unistd.h>

#include "backends/wasm/module.h"
#include "backends/wasm/places.h"
#include "backends/wasm/private.h"
#include "base/limits.h"
#include "base/mem.h"

#define MEMORY_DEFAULT (256 * MIB)
#define BYTES_PER_FILE 8192 /* of the cap: a file's share, in mean */
#define FILES_MAX (INT64_C(16) << 20)

int wasm_check(const struct wasm_options *options, struct error *err)
{
    if (options->go_busybox) {
        _cleanup_(cleanup_free) char *path = places_busybox(err);
        return path ? module_check(path, err) : -1;
    }
    if (!options->module)
        return error_set(err, ERR_INVALID, "the wasm backend needs a module: give --wasm-path FILE");
    return module_check(options->module, err);
}

static int wasm_probe(struct backend *b, const struct wait *wait, struct error *err)
{
    struct wasm_zygote *z = wasm_ready(wasm_of(b), wait, err);
    wasm_zygote_unref(z);
    return z ? 0 : -1;
}

static unsigned wasm_capabilities(const struct backend *b)
{
    const struct wasm *w = (const struct wasm *)b;
    /* A command is one thread, with its own memory: of the limits that there are only the disk's is watched.
     */
    return BACKEND_PERSISTENT | BACKEND_NETWORK_OFF | (w->disk.bytes ? 0 : BACKEND_LIMITS) |
           (w->module ? BACKEND_OWN_PROGRAM : 0);
}

static unsigned wasm_options_of(const struct backend *b)
{
    (void)b;
    return COMPUTER_MEMORY | COMPUTER_ENV;
}

static struct backend *wasm_free(struct backend *b)
{
    if (!b)
        return NULL;
    struct wasm *w = wasm_of(b);
    wasm_ready_end(w);
    wasm_zygote_unref(w->zygote);
    cancel_unref(w->end);
    pthread_mutex_destroy(&w->lock);
    wasm_describe_done(w);
    free(w->state_dir);
    free(w->module);
    free(w->shell);
    free(w->stem);
    free(w);
    return NULL;
}

#define WASM_OPS(its_name)                                                                                   \
    {                                                                                                        \
        .name = its_name, .probe = wasm_probe, .capabilities = wasm_capabilities, .describe = wasm_describe, \
        .create = wasm_create, .options = wasm_options_of, .restart = wasm_restart,                          \
        .make_way = wasm_make_way, .take_over = wasm_take_over, .stat = wasm_stat, .attach = wasm_attach,    \
        .plan = wasm_plan, .record = wasm_record, .exec = wasm_exec, .alive = wasm_alive, .kill = wasm_kill, \
        .detach = wasm_detach, .remove = wasm_remove, .reap = wasm_reap, .settle = wasm_settle,              \
        .free = wasm_free,                                                                                   \
    }
static const struct backend_ops ops[] = {WASM_OPS("wasm"), WASM_OPS("go_busybox")};

static struct usage cap(int64_t bytes)
{
    int64_t files = bytes / BYTES_PER_FILE;
    return (struct usage){.bytes = bytes, .files = files < FILES_MAX ? files : FILES_MAX};
}

struct backend *wasm_new(const struct wasm_options *options)
{
    struct wasm *w = xcalloc(1, sizeof(*w));
    w->base.ops = &ops[options->go_busybox];
    w->state_dir = xstrdup(options->state_dir);
    w->module = options->go_busybox ? NULL : xstrdup(options->module);
    w->shell = xstrdup(options->shell);
    w->stem = module_stem(w->module ? w->module : "busybox.wasm");
    w->memory_bytes = options->memory_bytes ? options->memory_bytes : (int64_t)MEMORY_DEFAULT;
    w->fuel = options->fuel;
    w->disk = cap(options->disk_bytes);
    w->network_wanted = options->network_wanted;
    w->end = cancel_new();
    pthread_mutex_init(&w->lock, NULL);
    wasm_describe_init(w);
    return &w->base;
}
