/* One command, from the request to the result:
 *
 *   begin  the zygote forks a process for it
 *   pump   read whatever is ready, until the zygote says that it is over, or it has to stop
 *   end    if it has to stop: shut down its line, which kills it, and go on reading until it is over
 *   drain  nobody holds the pipes any more: what is in them is all
 *
 * One thread, no lock, nothing kept of it afterwards. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/output.h"
#include "backends/spool.h"
#include "backends/verdict.h"
#include "backends/wasm/folder.h"
#include "backends/wasm/private.h"
#include "backends/wasm/request.h"
#include "backends/wasm/verdict.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/mem.h"

#define CHUNK_BYTES (64 * KIB) /* a pipe's capacity */
#define END_TIMEOUT_NS (10 * NSEC_PER_SEC)

enum pumped { PUMP_MORE, PUMP_OVER, PUMP_CANCELLED, PUMP_KILLED, PUMP_OVER_DISK, PUMP_LOST };

struct run {
    struct wasm_instance *i;
    const struct exec_request *request;
    struct cancel *end; /* of the computer */
    struct wasm_call call;
    struct output *output;
    struct spool spool;
    struct watcher watcher;
    struct wasm_verdict verdict; /* tag 0: there is none */
    struct wasm_over over;
    bool is_over_disk;
};

/* Reads once; false: nothing there now, or closed. */
static bool read_stream(struct run *r, enum output_stream stream)
{
    char chunk[CHUNK_BYTES];
    int *fd = stream == OUTPUT_STDOUT ? &r->call.out : &r->call.err;
    if (*fd < 0)
        return false;
    ssize_t n = read(*fd, chunk, sizeof(chunk));
    if (n > 0) {
        FAULT_POINT("exec.output");
        output_add(r->output, stream, chunk, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        *fd = fd_close(*fd);
    }
    return n > 0;
}

static enum pumped read_line(struct run *r)
{
    union {
        uint32_t tag;
        struct wasm_verdict verdict;
        struct wasm_over over;
    } packet;
    ssize_t n = recv(r->call.line, &packet, sizeof(packet), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return PUMP_MORE;
    if (n == sizeof(packet.over) && packet.tag == WASM_OVER) {
        r->over = packet.over;
        return PUMP_OVER;
    }
    if (n != sizeof(packet.verdict) || packet.tag != WASM_VERDICT)
        return PUMP_LOST;
    r->verdict = packet.verdict;
    return PUMP_MORE;
}

/* Waits until something is ready and handles it. stoppable: who may stop it is listened to. */
static enum pumped pump(struct run *r, int timeout_ms, bool stoppable)
{
    struct pollfd p[] = {
        {.fd = r->call.line, .events = POLLIN},
        {.fd = r->call.out, .events = POLLIN},
        {.fd = r->call.err, .events = POLLIN},
        {.fd = stoppable ? cancel_fd(r->request->wait.cancel) : -1, .events = POLLIN},
        {.fd = stoppable ? cancel_fd(r->end) : -1, .events = POLLIN},
    };
    if (poll(p, ARRAY_LEN(p), timeout_ms) <= 0)
        return PUMP_MORE;
    if (p[1].revents)
        read_stream(r, OUTPUT_STDOUT);
    if (p[2].revents)
        read_stream(r, OUTPUT_STDERR);
    if (p[0].revents)
        return read_line(r);
    return p[3].revents ? PUMP_CANCELLED : p[4].revents ? PUMP_KILLED : PUMP_MORE;
}

/* The zygote forgets nobody: only if it is stopped itself does this take longer than a moment. */
static enum pumped end(struct run *r)
{
    const int64_t deadline = clock_now() + END_TIMEOUT_NS;
    enum pumped pumped = PUMP_MORE;
    shutdown(r->call.line, SHUT_WR);
    while (pumped == PUMP_MORE && clock_now() < deadline)
        pumped = pump(r, clock_poll_timeout(deadline), false);
    return pumped;
}

static void drain(struct run *r)
{
    while (read_stream(r, OUTPUT_STDOUT) || read_stream(r, OUTPUT_STDERR))
        ;
}

static enum pumped pump_to_the_end(struct run *r)
{
    const int64_t deadline = r->request->wait.deadline;
    enum pumped pumped = PUMP_MORE;
    while (pumped == PUMP_MORE && clock_now() < deadline) {
        pumped = pump(r, clock_poll_timeout(watcher_next(&r->watcher, deadline)), true);
        if (pumped == PUMP_MORE && watcher_look(&r->watcher))
            pumped = PUMP_OVER_DISK;
    }
    return pumped;
}

/* A zygote that has died since is replaced, once. */
static int begin(struct run *r, struct error *err)
{
    for (int attempt = 0;; attempt++) {
        struct error why = ERROR_INIT;
        _cleanup_(cleanup_wasm_zygote_unref) struct wasm_zygote *zygote =
            wasm_ready(r->i->wasm, &r->request->wait, err);
        if (!zygote)
            return -1;
        if (wasm_call_begin(r->i, zygote, r->request, &r->call, &why) == 0)
            return 0;
        if (why.code != ERR_GONE || attempt > 0)
            return error_set(err, why.code == ERR_GONE ? ERR_UNAVAILABLE : why.code, "%s", why.msg);
    }
}

static int tell_killed(const struct run *r, struct error *err)
{
    return error_set(err, ERR_GONE, "the computer %s was ended", r->i->id);
}

static int run_to_its_end(struct run *r, struct exec_result *ret, struct error *err)
{
    struct error why = ERROR_INIT;
    const int64_t began = clock_now();
    if (cancel_why(r->end) != ERR_NONE)
        return tell_killed(r, err);
    if (wait_check(&r->request->wait, &why) < 0)
        return verdict_stopped(&why, ret, err);
    if (begin(r, &why) < 0)
        return wait_was_over(&why) ? verdict_stopped(&why, ret, err)
                                   : error_set(err, why.code, "%s", why.msg);
    FAULT_POINT("exec.sent");
    enum pumped pumped = pump_to_the_end(r);
    const enum pumped stopped_by = pumped;
    if (pumped != PUMP_OVER && pumped != PUMP_LOST)
        pumped = end(r);
    ret->duration_ns = clock_now() - began;
    drain(r);
    FAULT_POINT("exec.drained");
    if (pumped != PUMP_OVER)
        return error_set(
            err, ERR_UNAVAILABLE,
            "the engine's process has died under the command: the next command starts a new one");
    r->is_over_disk = stopped_by == PUMP_OVER_DISK;
    if (stopped_by == PUMP_KILLED)
        return tell_killed(r, err);
    if (stopped_by == PUMP_MORE || stopped_by == PUMP_CANCELLED) {
        wait_check(&r->request->wait, &why);
        return verdict_stopped(&why, ret, err);
    }
    return wasm_verdict(r->i->wasm, r->verdict.tag ? &r->verdict : NULL, &r->over, ret, err);
}

static void tell_disk(const struct run *r, struct exec_result *ret)
{
    const struct usage *limit = &r->i->wasm->disk;
    if (!r->is_over_disk)
        return;
    ret->disk_full = true;
    free(ret->note);
    ret->note = xasprintf("the command was ended, since the computer's disk is full (limit %lld MiB and %lld "
                          "files)",
                          (long long)(limit->bytes / (int64_t)MIB), (long long)limit->files);
}

int wasm_exec(struct instance *instance, const struct exec_request *request, struct exec_result *ret,
              struct error *err)
{
    struct wasm_instance *i = wasm_instance_of(instance);
    _cleanup_(cleanup_cancel_unref) struct cancel *end = wasm_end_of(i);
    struct run r = {.i = i, .request = request, .end = end, .call = WASM_CALL_NONE};
    struct exec_result result = {0};
    if (i->wasm->disk.bytes)
        watcher_begin(&r.watcher, &i->watch, i->folder, &i->wasm->disk);
    spool_init(&r.spool, wasm_folder_open_spool, &i->root);
    r.output = output_new(request->output_limit, spool_write, &r.spool);
    atomic_fetch_add(&i->running, 1);
    int failed = run_to_its_end(&r, &result, err);
    atomic_fetch_sub(&i->running, 1);
    wasm_call_done(&r.call);
    output_finish(r.output, &result);
    output_free(r.output);
    spool_finish(&r.spool, &result);
    if (failed < 0) {
        exec_result_done(&result);
        return -1;
    }
    tell_disk(&r, &result);
    *ret = result;
    return 0;
}
