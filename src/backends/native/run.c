/* One command, from the request to the result:
 *
 *   send   init starts it, with pipes of ours
 *   pump   read and write whatever is ready, until init's record of its end comes, or it has to stop
 *   drain  after the record: read what is in the pipes, and for a short grace more while background
 *          processes hold them; their end is never waited for
 *   end    if it has to stop: kill its scope until the record is there and the scope is empty
 *
 * One thread, no lock, nothing kept of it afterwards but the scope, if processes live on in it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/native/channel.h"
#include "backends/native/describe.h"
#include "backends/native/private.h"
#include "backends/native/request.h"
#include "backends/native/spool.h"
#include "backends/native/verdict.h"
#include "backends/output.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/mem.h"

#define CHUNK_BYTES (64 * KIB) /* a pipe's capacity */
#define KILL_AGAIN_MS 50
#define END_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define GONE_TIMEOUT_MS 1000
#define DEFAULT_SHELL "/bin/bash"
#define FALLBACK_SHELL "/bin/sh"

struct run {
    struct native_instance *i;
    const struct exec_request *request;
    struct scope *scope; /* NULL with reapers */
    uint32_t id;
    struct pipes pipes;
    size_t stdin_sent;
    struct output *output;
    struct spool spool;
    struct guest_exit record;
    struct watcher watcher;
    bool is_over_disk;  /* stopped for what it has written */
    bool met_full_disk; /* who fails for want of room may tidy up before it ends */
    bool ends_early;    /* stopped by us: who is left in the scope is not background */
};

enum pumped { PUMP_MORE, PUMP_RECORD, PUMP_CANCELLED, PUMP_OVER_DISK, PUMP_LOST };

const char *instance_shell(const struct native_instance *i)
{
    if (i->native->shell)
        return i->native->shell;
    return i->bash_is_missing ? FALLBACK_SHELL : DEFAULT_SHELL;
}

static void write_stdin(struct run *r)
{
    const char *bytes = r->request->stdin_bytes;
    ssize_t n = write(r->pipes.in, bytes + r->stdin_sent, r->request->stdin_len - r->stdin_sent);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    /* A command that reads no further (EPIPE) is no error. */
    r->stdin_sent = n < 0 ? r->request->stdin_len : r->stdin_sent + (size_t)n;
    if (r->stdin_sent == r->request->stdin_len)
        r->pipes.in = fd_close(r->pipes.in);
}

/* Reads once. Returns the number of bytes; 0: nothing there now, or closed. */
static size_t read_stream(struct run *r, enum output_stream stream)
{
    char chunk[CHUNK_BYTES];
    int *fd = stream == OUTPUT_STDOUT ? &r->pipes.out : &r->pipes.err;
    if (*fd < 0)
        return 0;
    ssize_t n = read(*fd, chunk, sizeof(chunk));
    if (n > 0) {
        FAULT_POINT("exec.output");
        output_add(r->output, stream, chunk, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        *fd = fd_close(*fd);
    }
    return n > 0 ? (size_t)n : 0;
}

static enum pumped read_record(struct run *r)
{
    ssize_t n = read(r->pipes.status, &r->record, sizeof(r->record));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return PUMP_MORE;
    return n == (ssize_t)sizeof(r->record) && r->record.id == r->id ? PUMP_RECORD : PUMP_LOST;
}

/* Waits until something is ready and handles it. cancel_fd -1: nobody can interrupt. */
static enum pumped pump(struct run *r, int timeout_ms, int cancel_fd)
{
    struct pollfd p[] = {
        {.fd = r->pipes.status, .events = POLLIN}, {.fd = r->pipes.out, .events = POLLIN},
        {.fd = r->pipes.err, .events = POLLIN},    {.fd = r->pipes.in, .events = POLLOUT},
        {.fd = cancel_fd, .events = POLLIN},
    };
    if (poll(p, ARRAY_LEN(p), timeout_ms) <= 0)
        return PUMP_MORE;
    if (p[1].revents)
        read_stream(r, OUTPUT_STDOUT);
    if (p[2].revents)
        read_stream(r, OUTPUT_STDERR);
    if (p[3].revents)
        write_stdin(r);
    if (p[0].revents)
        return read_record(r);
    return p[4].revents ? PUMP_CANCELLED : PUMP_MORE;
}

static bool others_hold_on(const struct run *r)
{
    return r->scope ? !scope_is_empty(r->scope) : r->record.background_count || r->record.background_more;
}

/* Reads all that is there, within a budget of bytes. */
static size_t read_what_is_there(struct run *r, size_t budget)
{
    size_t total = 0;
    for (size_t n = 1; n > 0 && total < budget;) {
        n = read_stream(r, OUTPUT_STDOUT) + read_stream(r, OUTPUT_STDERR);
        total += n;
    }
    return total;
}

/* First who else holds on, then what is there: in this order nothing that the dead have written is missed. */
static void drain(struct run *r)
{
    int64_t deadline = clock_now() + DRAIN_GRACE_MS * NSEC_PER_MSEC;
    size_t budget = LIMIT_DRAIN_BYTES;
    for (;;) {
        bool others = !r->ends_early && others_hold_on(r);
        size_t n = read_what_is_there(r, budget);
        budget -= n < budget ? n : budget;
        bool open = r->pipes.out >= 0 || r->pipes.err >= 0;
        if (!others || !open || budget == 0 || clock_now() >= deadline)
            return;
        struct pollfd p[] = {{.fd = r->pipes.out, .events = POLLIN}, {.fd = r->pipes.err, .events = POLLIN}};
        poll(p, ARRAY_LEN(p), clock_poll_timeout(deadline));
    }
}

static void kill_scope(struct run *r)
{
    if (r->scope) {
        scope_kill(r->scope);
        return;
    }
    const struct guest_kill request = {.type = GUEST_KILL, .id = r->id};
    struct wait now = {.deadline = clock_now()};
    channel_send(r->i->channel, &request, sizeof(request), NULL, 0, NULL, 0, &now, NULL);
}

/* Kills until the command's end is recorded and nothing of it is left. A command that init hasn't started yet
 * is met by a later round. What can't be killed so ends with the whole computer. */
static enum pumped end(struct run *r)
{
    int64_t deadline = clock_now() + END_TIMEOUT_NS;
    enum pumped pumped = PUMP_MORE;
    r->ends_early = true;
    r->pipes.in = fd_close(r->pipes.in);
    while (pumped == PUMP_MORE && clock_now() < deadline) {
        kill_scope(r);
        int64_t again = clock_now() + KILL_AGAIN_MS * NSEC_PER_MSEC;
        while (pumped == PUMP_MORE && clock_now() < again)
            pumped = pump(r, clock_poll_timeout(again), -1);
    }
    if (pumped == PUMP_RECORD && (!r->scope || scope_end(r->scope, deadline) == 0)) {
        drain(r);
        return PUMP_RECORD;
    }
    if (pumped != PUMP_LOST)
        instance_give_up(r->i);
    return PUMP_LOST;
}

/* The status pipe was closed without a record: init has ended, which its pidfd tells in a moment. */
static int lost(struct run *r, uint64_t oom_before, struct error *err)
{
    struct pollfd p = {.fd = r->i->pidfd, .events = POLLIN};
    if (r->i->is_given_up)
        return error_set(err, ERR_GONE,
                         "a command in it was still there %lld seconds after it was killed, so all that ran "
                         "in it was killed",
                         (long long)(END_TIMEOUT_NS / NSEC_PER_SEC));
    if (poll(&p, 1, GONE_TIMEOUT_MS) <= 0)
        return error_set(err, ERR_INTERNAL, "the computer %s gave no account of the command", r->i->id);
    bool out_of_memory = cgroup_oom_kills(r->i->oom) > oom_before;
    return verdict_gone(out_of_memory ? r->i->values.memory_bytes : 0, err);
}

/* True if what failed is to be tried in another way, from now on. */
static bool try_differently(struct run *r)
{
    struct native_instance *i = r->i;
    if (r->record.stage == GUEST_STAGE_SCOPE && r->scope && !i->native->scope_by_move) {
        i->native->scope_by_move = true;
        return true;
    }
    if (r->record.stage == GUEST_STAGE_EXEC && r->record.sys == ENOENT && r->request->command &&
        !i->native->shell && !i->bash_is_missing) {
        i->bash_is_missing = true;
        return true;
    }
    return false;
}

/* Sends it and waits for its end. What stops it before is told by wait_check() afterwards. */
static enum pumped run_once(struct run *r, struct error *err)
{
    const struct wait *wait = &r->request->wait;
    enum pumped pumped = PUMP_MORE;
    int cancel = cancel_fd(wait->cancel);
    r->id = atomic_fetch_add(&r->i->next_exec, 1);
    pipes_close(&r->pipes);
    if (request_send(r->i, r->request, instance_shell(r->i), r->scope, r->id, &r->pipes, &r->stdin_sent,
                     err) < 0)
        return PUMP_LOST;
    FAULT_POINT("exec.sent");
    while (pumped == PUMP_MORE && clock_now() < wait->deadline) {
        pumped = pump(r, clock_poll_timeout(watcher_next(&r->watcher, wait->deadline)), cancel);
        r->met_full_disk |= disk_is_full(&r->i->disk);
        if (pumped == PUMP_MORE && watcher_look(&r->watcher))
            pumped = PUMP_OVER_DISK;
    }
    return pumped;
}

static void list_background(struct run *r, struct exec_result *ret)
{
    if (r->scope) {
        ret->background_count =
            scope_pids(r->scope, ret->background, LIMIT_BACKGROUND_PIDS, &ret->background_more);
        return;
    }
    uint32_t count = r->record.background_count;
    _Static_assert(GUEST_BACKGROUND_MAX == LIMIT_BACKGROUND_PIDS, "as many as a result lists");
    ret->background_count = count < LIMIT_BACKGROUND_PIDS ? count : LIMIT_BACKGROUND_PIDS;
    for (size_t n = 0; n < ret->background_count; n++)
        ret->background[n] = r->record.background[n];
    ret->background_more = r->record.background_more > 0;
}

static int judge(struct run *r, struct exec_result *ret, struct error *err)
{
    char shells[128] = "";
    struct verdict_about about = {
        .shell = instance_shell(r->i), .other_shells = shells, .pids = r->i->values.pids};
    if (r->record.stage == GUEST_STAGE_EXEC && r->request->command) { /* it may be about the shell */
        about.shell_was_there = verdict_base_has(r->i->native, about.shell);
        verdict_list_shells(r->i->native, shells, sizeof(shells));
    }
    return verdict(&about, r->request, &r->record, ret, err);
}

static int run_to_its_end(struct run *r, uint64_t oom_before, struct exec_result *ret, struct error *err)
{
    struct error unsent = ERROR_INIT, why = ERROR_INIT;
    enum pumped pumped;
    int64_t began = clock_now();
    if (wait_check(&r->request->wait, &why) < 0)
        return verdict_stopped(&why, ret, err);
    do {
        pumped = run_once(r, &unsent);
    } while (pumped == PUMP_RECORD && try_differently(r));
    ret->duration_ns = clock_now() - began;

    if (unsent.code != ERR_NONE && unsent.code != ERR_GONE)
        return verdict_stopped(&unsent, ret, err);
    r->is_over_disk = pumped == PUMP_OVER_DISK || watcher_look(&r->watcher);
    if (pumped != PUMP_RECORD && pumped != PUMP_LOST) {
        wait_check(&r->request->wait, &why);
        bool for_disk = pumped == PUMP_OVER_DISK;
        pumped = end(r);
        if (pumped == PUMP_RECORD && !for_disk)
            return verdict_stopped(&why, ret, err);
    }
    if (pumped == PUMP_LOST)
        return lost(r, oom_before, err);
    FAULT_POINT("exec.recorded");
    drain(r);
    FAULT_POINT("exec.drained");
    if (judge(r, ret, err) < 0)
        return -1;
    list_background(r, ret);
    return 0;
}

static void tell_disk(const struct run *r, struct exec_result *ret)
{
    const struct disk *d = &r->i->disk;
    bool file_met_it = d->way == DISK_WATCHED && ret->signal == SIGXFSZ;
    bool is_full = r->is_over_disk || file_met_it || disk_is_full(d);
    ret->disk_full = is_full || r->met_full_disk;
    if (!ret->disk_full)
        return;
    const char *what = r->is_over_disk && ret->signal == SIGKILL
                           ? "the command was ended, since the computer's disk is full"
                       : is_full ? "the computer's disk is full"
                                 : "the computer's disk was full while the command ran";
    _cleanup_(cleanup_free) char *size = describe_size(d->limit.bytes);
    _cleanup_(cleanup_free) char *why =
        xasprintf("%s (limit %s and %lld files)", what, size, (long long)d->limit.files);
    exec_result_add_note(ret, why);
}

static int execute(struct native_instance *i, const struct exec_request *request, struct exec_result *ret,
                   struct error *err)
{
    struct run r = {.i = i, .request = request, .pipes = PIPES_NONE};
    struct exec_result result = {0};
    uint64_t oom_before = cgroup_oom_kills(i->oom);
    if (!i->reaper && !(r.scope = scope_take(&i->scopes, err)))
        return instance_alive(&i->base) ? -1 : lost(&r, oom_before, err);
    FAULT_POINT("exec.scope-made");
    if (i->disk.way == DISK_WATCHED)
        watcher_begin(&r.watcher, &i->watch, i->folder, &i->disk.limit);
    spool_init(&r.spool, native_spool_open, i);
    r.output = output_new(request->output_limit, spool_write, &r.spool);

    int failed = run_to_its_end(&r, oom_before, &result, err);
    pipes_close(&r.pipes);
    if (r.scope)
        scope_give_back(&i->scopes, r.scope);
    output_finish(r.output, &result);
    output_free(r.output);
    spool_finish(&r.spool, &result);
    if (failed < 0) {
        exec_result_done(&result);
        return -1;
    }
    tell_disk(&r, &result);
    result.usage = verdict_usage(&r.record);
    result.oom_killed = cgroup_oom_kills(i->oom) > oom_before;
    *ret = result;
    return 0;
}

int instance_exec(struct instance *instance, const struct exec_request *request, struct exec_result *ret,
                  struct error *err)
{
    struct native_instance *i = instance_of(instance);
    atomic_fetch_add(&i->commands_begun, 1);
    int failed = execute(i, request, ret, err);
    atomic_fetch_add(&i->commands_ended, 1);
    return failed;
}
