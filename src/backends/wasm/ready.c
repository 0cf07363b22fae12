/* From the options to a zygote that has the module loaded: the library is found and asked for its version,
 * the module is read, its code comes from the cache or is compiled for it. One thread does all that, and who
 * needs it waits for as long as he likes: compiling may take minutes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/wasm/cache.h"
#include "backends/wasm/memory_file.h"
#include "backends/wasm/module.h"
#include "backends/wasm/places.h"
#include "backends/wasm/private.h"
#include "backends/wasm/process.h"
#include "backends/wasm/wasm_limits.h"
#include "backends/wasm/wasmtime.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#define SAID_MAX 1024
#define CHECK_TIMEOUT_NS (20 * NSEC_PER_SEC)
#define START_TIMEOUT_NS (20 * NSEC_PER_SEC)

static struct wait wait_of(const struct wasm *w, int64_t timeout_ns)
{
    return (struct wait){.deadline = clock_now() + timeout_ns, .cancel = w->end};
}

/* A process that does one thing and ends. */
struct errand {
    int pidfd, said;
};

static int errand_begin(const struct process *p, struct errand *ret, struct error *err)
{
    return process_start(p, &ret->pidfd, &ret->said, err);
}

static int errand_end(const struct wasm *w, struct errand *e, int64_t timeout_ns, struct buf *ret_said,
                      struct error *err)
{
    const struct wait wait = wait_of(w, timeout_ns);
    int failed = process_end(e->pidfd, e->said, &wait, ret_said, err);
    fd_close(e->pidfd);
    fd_close(e->said);
    return failed;
}

static int ask_major(const char *library, struct errand *ret, struct error *err)
{
    const struct process p = {
        .kind = "check", .library = library, .in = -1, .out = -1, .control = -1, .code = -1};
    return errand_begin(&p, ret, err);
}

static int hear_major(const struct wasm *w, const char *library, struct errand *e, int *ret,
                      struct error *err)
{
    _cleanup_(buf_done) struct buf said = BUF_INIT(SAID_MAX);
    if (errand_end(w, e, CHECK_TIMEOUT_NS, &said, err) < 0) {
        error_prefix(err, "the WASM engine can't be used; " PLACES_MEND);
        return error_recast(err, ERR_UNAVAILABLE, "Wasmtime");
    }
    int major = atoi(buf_str(&said));
    if (major < WASMTIME_MAJOR_MIN || major > WASMTIME_MAJOR_MAX)
        return error_set(err, ERR_UNAVAILABLE,
                         "%s is Wasmtime %d, and this program knows %d to %d: " PLACES_MEND
                         ", or name another one by WASMTIME_LIBRARY",
                         library, major, WASMTIME_MAJOR_MIN, WASMTIME_MAJOR_MAX);
    *ret = major;
    return 0;
}

/* Into memory; -1 on error. */
static int compile(const struct wasm *w, const char *library, const struct module *m, const char *path,
                   struct error *err)
{
    _cleanup_(buf_done) struct buf said = BUF_INIT(SAID_MAX);
    _cleanup_fd_ int in = memory_file_new("wasm-module", err);
    if (in < 0)
        return -1;
    if (fd_write_all(in, m->bytes.data, m->bytes.len) < 0)
        return error_errno(err, ERR_LIMIT, errno, "write the module to memory");
    _cleanup_fd_ int out = memory_file_seal(in, err) < 0 ? -1 : memory_file_new("wasm-code", err);
    if (out < 0)
        return -1;
    const struct process p = {.kind = "compile",
                              .library = library,
                              .fuel = w->fuel > 0,
                              .in = in,
                              .out = out,
                              .control = -1,
                              .code = -1};
    struct errand errand;
    if (errand_begin(&p, &errand, err) < 0 ||
        errand_end(w, &errand, COMPILE_SECONDS * NSEC_PER_SEC, &said, err) < 0)
        return error_prefix(err, "the module %s can't be compiled", path);
    return memory_file_seal(out, err) < 0 ? -1 : TAKE_FD(out);
}

/* With code from the cache, if it has any that is good. */
static struct wasm_zygote *start_cached(const struct wasm *w, const char *library, int cache,
                                        const struct cache_key *key, const struct wait *wait)
{
    _cleanup_fd_ int code = cache_find(cache, key);
    struct error err = ERROR_INIT;
    if (code < 0)
        return NULL;
    struct wasm_zygote *z = wasm_zygote_start(library, w->fuel > 0, code, wait, &err);
    if (!z && err.code == ERR_INVALID)
        cache_drop(cache, key); /* as when it was made by another kind of processor */
    return z;
}

static struct wasm_zygote *start(const struct wasm *w, const char *library, const char *path,
                                 struct error *err)
{
    int major = 0;
    struct errand errand;
    struct error unread = ERROR_INIT;
    _cleanup_(module_done) struct module m = {0};
    if (ask_major(library, &errand, err) < 0)
        return NULL;
    const int read = module_read(path, &m, &unread); /* meanwhile */
    if (hear_major(w, library, &errand, &major, err) < 0)
        return NULL;
    if (read < 0) {
        error_set(err, unread.code, "%s", unread.msg);
        return NULL;
    }
    _cleanup_fd_ int cache = cache_open(w->state_dir, err);
    if (cache < 0)
        return NULL;
    const struct cache_key key = cache_key(m.hash, major, w->fuel > 0);
    const struct wait wait = wait_of(w, START_TIMEOUT_NS);
    struct wasm_zygote *z = start_cached(w, library, cache, &key, &wait);
    _cleanup_fd_ int code = z ? -1 : compile(w, library, &m, path, err);
    if (code < 0)
        return z;
    const struct wait then = wait_of(w, START_TIMEOUT_NS);
    z = wasm_zygote_start(library, w->fuel > 0, code, &then, err);
    if (z)
        cache_put(cache, &key, code);
    return z;
}

static struct wasm_zygote *prepare(const struct wasm *w, struct error *err)
{
    _cleanup_(cleanup_free) char *library = places_library(err);
    _cleanup_(cleanup_free) char *path = !library    ? NULL
                                         : w->module ? xstrdup(w->module)
                                                     : places_busybox(err);
    return path ? start(w, library, path, err) : NULL;
}

static void *prepare_for_all(void *arg)
{
    struct wasm *w = arg;
    struct error why = ERROR_INIT;
    pthread_mutex_lock(&w->lock);
    struct wasm_zygote *dead = TAKE_PTR(w->zygote);
    pthread_mutex_unlock(&w->lock);
    wasm_zygote_unref(dead);
    struct wasm_zygote *z = prepare(w, &why);
    if (!z && why.code != ERR_DENIED && why.code != ERR_LIMIT)
        why.code = ERR_UNAVAILABLE;
    pthread_mutex_lock(&w->lock);
    w->zygote = z;
    attempt_end(&w->preparing, z ? NULL : &why);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct wasm_zygote *wasm_ready(struct wasm *w, const struct wait *wait, struct error *err)
{
    struct wasm_zygote *z = NULL;
    int failed = 0;
    pthread_mutex_lock(&w->lock);
    while (failed == 0 && !z) {
        if (w->zygote && wasm_zygote_alive(w->zygote)) {
            z = wasm_zygote_ref(w->zygote);
            continue;
        }
        failed = attempt_by_thread(&w->preparing, &w->lock, prepare_for_all, w, wait, err);
    }
    pthread_mutex_unlock(&w->lock);
    return z;
}

void wasm_ready_end(struct wasm *w)
{
    cancel_fire(w->end, ERR_CANCELLED);
    attempt_finish(&w->preparing);
}
