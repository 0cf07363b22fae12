/* The life of one computer. Nothing of it runs between commands, so it is a folder, and a token that is fired
 * when it is ended. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/wasm/folder.h"
#include "backends/wasm/private.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/mem.h"

static int64_t memory_of(const struct wasm *w, const struct computer_spec *spec)
{
    const struct computer_options *o = spec->options;
    return o && (o->given & COMPUTER_MEMORY) ? o->memory_bytes : w->memory_bytes;
}

/* Takes the root. */
static struct wasm_instance *instance_new(struct wasm *w, const struct computer_spec *spec, int root)
{
    struct wasm_instance *i = xcalloc(1, sizeof(*i));
    i->base.ops = w->base.ops;
    i->wasm = w;
    snprintf(i->id, sizeof(i->id), "%s", spec->id);
    snprintf(i->key, sizeof(i->key), "%s", spec->key);
    i->folder = xstrdup(spec->folder);
    i->root = root;
    i->memory_bytes = memory_of(w, spec);
    i->env = spec->options && spec->options->env ? strv_copy(spec->options->env) : NULL;
    i->watch.name = WASM_FOLDER;
    i->end = cancel_new();
    pthread_mutex_init(&i->lock, NULL);
    return i;
}

static void instance_free(struct wasm_instance *i)
{
    fd_close(i->root);
    cancel_unref(i->end);
    pthread_mutex_destroy(&i->lock);
    strv_free(i->env);
    free(i->folder);
    free(i);
}

static void move_to(struct wasm_instance *i, const char *folder)
{
    free(i->folder);
    i->folder = xstrdup(folder);
}

/* -- Beginning */

/* Only a computer that commands can run in is one. */
static int check_ready(struct wasm *w, const struct wait *wait, struct error *err)
{
    if (wait_check(wait, err) < 0)
        return -1;
    struct wasm_zygote *zygote = wasm_ready(w, wait, err);
    wasm_zygote_unref(zygote);
    return zygote ? 0 : -1;
}

int wasm_create(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                struct instance **ret, struct error *err)
{
    struct wasm *w = wasm_of(b);
    if (check_ready(w, wait, err) < 0)
        return -1;
    int root = wasm_folder_make(spec->folder, err);
    if (root < 0) {
        backend_tell_full(err);
        wasm_folder_remove(spec->folder, NULL);
        return -1;
    }
    FAULT_POINT("create.files-made");
    *ret = &instance_new(w, spec, root)->base;
    return 0;
}

int wasm_attach(struct backend *b, const struct computer_spec *spec, const json_t *data,
                const struct wait *wait, struct instance **ret, struct error *err)
{
    struct wasm *w = wasm_of(b);
    (void)data; /* all that it needs is where its folder is */
    _cleanup_fd_ int root = wasm_folder_open(spec->folder, err);
    if (root < 0 || check_ready(w, wait, err) < 0)
        return -1;
    *ret = &instance_new(w, spec, TAKE_FD(root))->base;
    return 0;
}

int wasm_take_over(struct instance *instance, const struct computer_spec *spec,
                   int (*move)(void *ctx, struct error *err), void *ctx, struct error *err)
{
    struct wasm_instance *i = wasm_instance_of(instance);
    if (move(ctx, err) < 0)
        return -1;
    move_to(i, spec->folder);
    snprintf(i->id, sizeof(i->id), "%s", spec->id);
    return 0;
}

int wasm_make_way(struct instance *instance, const char *folder, struct error *err)
{
    (void)err;
    move_to(wasm_instance_of(instance), folder);
    return 0;
}

/* -- Records */

static json_t *limit(const char *unit, int64_t value, json_t *enforced)
{
    json_t *o = json_object();
    if (value)
        json_object_set_new(o, unit, json_integer(value));
    json_object_set_new(o, "enforced", enforced);
    return o;
}

static json_t *record(const struct wasm *w, int64_t memory_bytes)
{
    json_t *limits = json_object();
    json_object_set_new(limits, "memory", limit("bytes", memory_bytes, json_true()));
    json_object_set_new(limits, "disk",
                        limit("bytes", w->disk.bytes, w->disk.bytes ? json_string("watched") : json_false()));
    if (w->fuel)
        json_object_set_new(limits, "fuel", limit("count", w->fuel, json_true()));
    json_t *o = json_object();
    json_object_set_new(o, "limits", limits);
    json_object_set_new(o, "network", json_string("none"));
    return o;
}

json_t *wasm_plan(const struct backend *b, const struct computer_spec *spec)
{
    const struct wasm *w = (const struct wasm *)b;
    return record(w, memory_of(w, spec));
}

json_t *wasm_record(const struct instance *instance)
{
    const struct wasm_instance *i = wasm_instance_of(instance);
    return record(i->wasm, i->memory_bytes);
}

/* -- Ending */

struct cancel *wasm_end_of(struct wasm_instance *i)
{
    pthread_mutex_lock(&i->lock);
    struct cancel *end = cancel_ref(i->end);
    pthread_mutex_unlock(&i->lock);
    return end;
}

bool wasm_alive(const struct instance *instance)
{
    struct wasm_instance *i = wasm_instance_of(instance);
    _cleanup_(cleanup_cancel_unref) struct cancel *end = wasm_end_of(i);
    return cancel_why(end) == ERR_NONE;
}

void wasm_kill(struct instance *instance)
{
    _cleanup_(cleanup_cancel_unref) struct cancel *end = wasm_end_of(wasm_instance_of(instance));
    cancel_fire(end, ERR_GONE);
}

/* No command runs. */
int wasm_restart(struct instance *instance, const struct wait *wait, struct error *err)
{
    struct wasm_instance *i = wasm_instance_of(instance);
    if (check_ready(i->wasm, wait, err) < 0)
        return -1;
    pthread_mutex_lock(&i->lock);
    struct cancel *old = i->end;
    i->end = cancel_new();
    pthread_mutex_unlock(&i->lock);
    cancel_unref(old);
    return 0;
}

int wasm_detach(struct instance *instance, struct error *err)
{
    (void)err;
    instance_free(wasm_instance_of(instance));
    return 0;
}

int wasm_remove(struct instance *instance, struct error *err)
{
    struct wasm_instance *i = wasm_instance_of(instance);
    i->root = fd_close(i->root);
    int failed = wasm_folder_remove(i->folder, err);
    FAULT_POINT("end.files-removed");
    instance_free(i);
    return failed;
}

/* What a dead server ran has ended with it. */
int wasm_reap(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err)
{
    (void)b;
    (void)data;
    return wasm_folder_remove(spec->folder, err);
}

int wasm_settle(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err)
{
    (void)b;
    (void)spec;
    (void)data;
    (void)err;
    return 0;
}
