/* A computer is a folder and a key, by which the processes of its commands are marked (marked.h). */
#include "fakes/fake_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/output.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/str.h"
#include "fakes/marked.h"

#define SEARCH_PATH "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

struct fake {
    struct backend base;
    struct backend_ops ops;
    unsigned capabilities;
    struct fake_hooks hooks;
    pthread_mutex_t lock;
    struct fake_counts counts;
    struct list instances;
};

struct fake_instance {
    struct instance base;
    struct fake *fake;
    struct list node;
    char *id;
    char key[MARK_SIZE / 2];
    char *home;
    struct instance_stat stat; /* what holds for it */
    atomic_int execs;          /* number of the last one */
    struct cancel *death;      /* fired when it ends */
};

/* One running command. */
struct fake_exec {
    struct fake_instance *instance;
    const struct exec_request *request;
    char mark[MARK_SIZE]; /* KEY.NUMBER. with the last dot, so that 1 is no prefix of 12 */
    pid_t pid;
    int pidfd, in, out, err;
    size_t written;
    struct output *output;
    char *spool[OUTPUT_STREAMS];
    int spool_fd[OUTPUT_STREAMS];
    uint64_t spooled[OUTPUT_STREAMS];
};

static const struct backend_ops FAKE_OPS;

static void kill_instance(struct fake_instance *i)
{
    cancel_fire(i->death, ERR_GONE);
    if (atomic_load(&i->execs) > 0)
        marked_kill_all(i->key);
}

/* -- Starting a command */

/* As execvp(3) would find it: 0, or the errno that says why not. */
static int find_program(const char *name, char **ret_path)
{
    if (strchr(name, '/')) {
        struct stat st;
        if (stat(name, &st) < 0)
            return errno;
        if (S_ISDIR(st.st_mode) || access(name, X_OK) < 0)
            return EACCES;
        *ret_path = xstrdup(name);
        return 0;
    }
    _cleanup_(cleanup_free) char *folders = xstrdup(SEARCH_PATH);
    char *rest = folders;
    for (const char *folder; (folder = strsep(&rest, ":"));) {
        _cleanup_(cleanup_free) char *path = path_join(folder, name);
        if (access(path, X_OK) == 0) {
            *ret_path = TAKE_PTR(path);
            return 0;
        }
    }
    return ENOENT;
}

static char **make_env(const struct fake_exec *x)
{
    size_t extra = x->request->env ? strv_len(x->request->env) : 0, n = 0;
    char **env = xcalloc(extra + 6, sizeof(*env));
    env[n++] = xstrdup("PATH=" SEARCH_PATH);
    env[n++] = xstrdup("LANG=C.UTF-8");
    env[n++] = xasprintf("HOME=%s", x->instance->home);
    env[n++] = xasprintf("HOSTNAME=%s", x->instance->id);
    env[n++] = xasprintf(MARKER "=%s", x->mark);
    for (size_t i = 0; i < extra; i++)
        env[n++] = xstrdup(x->request->env[i]);
    return env;
}

/* A shell goes to the folder first, then becomes the program. */
static char **make_argv(const struct fake_exec *x, const char *program, char *const *arguments)
{
    size_t count = strv_len(arguments), n = 0;
    char **argv = xcalloc(count + 6, sizeof(*argv));
    const char *const head[] = {"sh",
                                "-c",
                                "cd -- \"$1\" && shift && exec \"$@\"",
                                "sh",
                                x->request->cwd ? x->request->cwd : x->instance->home,
                                program};
    for (size_t i = 0; i < ARRAY_LEN(head); i++)
        argv[n++] = xstrdup(head[i]);
    for (size_t i = 1; i < count; i++)
        argv[n++] = xstrdup(arguments[i]);
    return argv;
}

/* The command's text as arguments; a long one from a file. */
static char **make_command(const struct fake_exec *x)
{
    const struct exec_request *r = x->request;
    char **argv = xcalloc(4, sizeof(*argv));
    argv[0] = xstrdup("/bin/sh");
    if (r->command_len < LIMIT_COMMAND_INLINE_BYTES) {
        argv[1] = xstrdup("-c");
        argv[2] = xstrndup(r->command, r->command_len);
        return argv;
    }
    argv[1] = xasprintf("%s/.script-%s", x->instance->home, x->mark);
    if (file_replace(AT_FDCWD, argv[1], r->command, r->command_len, false, NULL) < 0)
        abort();
    return argv;
}

static int make_pipe(int ret[2], struct error *err)
{
    return pipe2(ret, O_CLOEXEC) < 0 ? error_errno(err, ERR_INTERNAL, errno, "pipe") : 0;
}

static int start_process(struct fake_exec *x, const char *program, char *const *arguments, struct error *err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, errors[2] = {-1, -1};
    if ((x->request->stdin_bytes && make_pipe(in, err) < 0) || make_pipe(out, err) < 0 ||
        make_pipe(errors, err) < 0)
        return -1; /* out of descriptors: a test that fails anyway */
    _cleanup_(cleanup_strv_free) char **argv = make_argv(x, program, arguments);
    _cleanup_(cleanup_strv_free) char **env = make_env(x);
    const struct spawn_request request = {.path = "/bin/sh",
                                          .argv = argv,
                                          .env = env,
                                          .fds = (const int[]){in[0], out[1], errors[1]},
                                          .fd_count = 3};
    int r = spawn(&request, &x->pid, &x->pidfd, err);
    fd_close(in[0]);
    fd_close(out[1]);
    fd_close(errors[1]);
    x->in = in[1];
    x->out = out[0];
    x->err = errors[0];
    if (x->in >= 0)
        fd_set_nonblocking(x->in, true);
    fd_set_nonblocking(x->out, true);
    fd_set_nonblocking(x->err, true);
    return r;
}

/* -- Reading, writing, waiting */

static void spool(void *ctx, enum output_stream stream, const void *bytes, size_t n, bool first)
{
    struct fake_exec *x = ctx;
    if (first) {
        x->spool[stream] = xasprintf("%s/.output-%s%d", x->instance->home, x->mark, stream);
        x->spool_fd[stream] = open(x->spool[stream], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    }
    uint64_t room = LIMIT_SPOOL_BYTES - x->spooled[stream];
    size_t take = n < room ? n : (size_t)room;
    if (fd_write_all(x->spool_fd[stream], bytes, take) == 0)
        x->spooled[stream] += take;
}

/* False at the end of file. */
static bool read_some(struct fake_exec *x, enum output_stream stream, int fd)
{
    char bytes[65536];
    ssize_t n = read(fd, bytes, sizeof(bytes));
    if (n > 0)
        output_add(x->output, stream, bytes, (size_t)n);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Closed when all is written, or when nobody reads any more. */
static void write_some(struct fake_exec *x)
{
    const char *bytes = x->request->stdin_bytes;
    ssize_t n = write(x->in, bytes + x->written, x->request->stdin_len - x->written);
    if (n > 0)
        x->written += (size_t)n;
    bool failed = n < 0 && errno != EAGAIN && errno != EINTR;
    if (failed || x->written == x->request->stdin_len)
        x->in = fd_close(x->in);
}

enum outcome { OUTCOME_ENDED, OUTCOME_TIMEOUT, OUTCOME_CANCELLED, OUTCOME_GONE };

/* Moves bytes until the main process has ended (and a grace has passed, or both streams have ended), or must
 * be ended. */
static enum outcome move_bytes(struct fake_exec *x)
{
    int64_t deadline = x->request->wait.deadline;
    bool ended = false;
    for (;;) {
        struct pollfd fds[] = {
            {.fd = x->in, .events = POLLOUT},
            {.fd = x->out, .events = POLLIN},
            {.fd = x->err, .events = POLLIN},
            {.fd = ended ? -1 : x->pidfd, .events = POLLIN},
            {.fd = ended ? -1 : cancel_fd(x->request->wait.cancel), .events = POLLIN},
            {.fd = ended ? -1 : cancel_fd(x->instance->death), .events = POLLIN},
        };
        int n = poll(fds, ARRAY_LEN(fds), clock_poll_timeout(deadline));
        if (fds[5].revents)
            return OUTCOME_GONE;
        if (fds[4].revents)
            return OUTCOME_CANCELLED;
        if (n == 0)
            return ended ? OUTCOME_ENDED : OUTCOME_TIMEOUT;
        if (fds[0].revents)
            write_some(x);
        if (fds[1].revents && !read_some(x, OUTPUT_STDOUT, x->out))
            x->out = fd_close(x->out);
        if (fds[2].revents && !read_some(x, OUTPUT_STDERR, x->err))
            x->err = fd_close(x->err);
        if (fds[3].revents && !ended) {
            ended = true;
            x->in = fd_close(x->in);
            deadline = clock_now() + DRAIN_GRACE_MS * NSEC_PER_MSEC;
        }
        if (ended && (clock_now() >= deadline || (x->out < 0 && x->err < 0)))
            return OUTCOME_ENDED;
        if (!ended && clock_now() >= deadline)
            return OUTCOME_TIMEOUT;
    }
}

static void read_rest(struct fake_exec *x)
{
    struct pollfd fds[] = {{.fd = x->out, .events = POLLIN}, {.fd = x->err, .events = POLLIN}};
    while (poll(fds, 2, 0) > 0) {
        if (fds[0].revents && !read_some(x, OUTPUT_STDOUT, x->out))
            fds[0].fd = x->out = fd_close(x->out);
        if (fds[1].revents && !read_some(x, OUTPUT_STDERR, x->err))
            fds[1].fd = x->err = fd_close(x->err);
    }
}

/* -- One command */

static void finish_streams(struct fake_exec *x, struct exec_result *ret)
{
    struct exec_stream *streams[] = {&ret->out, &ret->err};
    output_finish(x->output, ret);
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        streams[i]->path = TAKE_PTR(x->spool[i]);
        streams[i]->path_bytes = x->spooled[i];
    }
}

static void finish_status(const struct fake_exec *x, int status, bool timed_out, struct exec_result *ret)
{
    ret->timed_out = timed_out;
    ret->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    ret->exit_code = timed_out ? 124 : ret->signal ? 128 + ret->signal : WEXITSTATUS(status);
    int pids[LIMIT_BACKGROUND_PIDS + 1];
    size_t count = marked_find(x->mark, x->pid, pids, ARRAY_LEN(pids));
    ret->background_more = count > LIMIT_BACKGROUND_PIDS;
    ret->background_count = ret->background_more ? LIMIT_BACKGROUND_PIDS : count;
    memcpy(ret->background, pids, ret->background_count * sizeof(pids[0]));
}

static void exec_done(struct fake_exec *x)
{
    fd_close(x->in);
    fd_close(x->out);
    fd_close(x->err);
    fd_close(x->pidfd);
    output_free(x->output);
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        fd_close(x->spool_fd[i]);
        free(x->spool[i]);
    }
}

static int run_process(struct fake_exec *x, const char *program, char *const *arguments,
                       struct exec_result *ret, struct error *err)
{
    int64_t start = clock_now();
    int status = 0;
    if (start_process(x, program, arguments, err) < 0)
        return -1;
    enum outcome outcome = move_bytes(x);
    if (outcome != OUTCOME_ENDED) {
        kill(x->pid, SIGKILL); /* in the middle of an execve(2) it has no mark to be seen */
        marked_kill(x->mark);
    }
    waitpid(x->pid, &status, 0);
    if (outcome == OUTCOME_TIMEOUT)
        read_rest(x);
    if (outcome == OUTCOME_CANCELLED)
        return wait_check(&x->request->wait, err);
    if (cancel_why(x->instance->death) != ERR_NONE)
        return error_set(err, ERR_GONE, "it was crashed by the test");
    struct exec_result result = {.duration_ns = clock_now() - start};
    finish_status(x, status, outcome == OUTCOME_TIMEOUT, &result);
    finish_streams(x, &result);
    *ret = result;
    return 0;
}

static int cannot_run(const char *program, int sys, struct exec_result *ret)
{
    *ret = (struct exec_result){.exit_code = sys == ENOENT || sys == ENOTDIR ? 127 : 126,
                                .note = xasprintf("cannot run '%s': %s", program, strerror(sys))};
    return 0;
}

static int run_command(struct fake_instance *i, const struct exec_request *request, struct exec_result *ret,
                       struct error *err)
{
    struct stat st;
    if (request->cwd && (stat(request->cwd, &st) < 0 || !S_ISDIR(st.st_mode)))
        return error_set(err, ERR_CWD_NOT_FOUND, "there is no folder '%s' in the computer", request->cwd);
    _cleanup_(exec_done) struct fake_exec x = {.instance = i,
                                               .request = request,
                                               .pidfd = -1,
                                               .in = -1,
                                               .out = -1,
                                               .err = -1,
                                               .spool_fd = {-1, -1},
                                               .output = output_new(request->output_limit, spool, &x)};
    snprintf(x.mark, sizeof(x.mark), "%s.%d.", i->key, atomic_fetch_add(&i->execs, 1));
    _cleanup_(cleanup_strv_free) char **argv = request->command ? make_command(&x) : strv_copy(request->argv);
    _cleanup_(cleanup_free) char *program = NULL;
    int sys = find_program(argv[0], &program);
    return sys ? cannot_run(argv[0], sys, ret) : run_process(&x, program, argv, ret, err);
}

/* -- The table */

static struct fake *fake_of(const struct backend *b)
{
    return CONTAINER_OF(b, struct fake, base);
}

static struct fake_instance *instance_of(const struct instance *i)
{
    return CONTAINER_OF(i, struct fake_instance, base);
}

static void count(struct fake *f, int *counter, int live)
{
    pthread_mutex_lock(&f->lock);
    (*counter)++;
    f->counts.live += live;
    pthread_mutex_unlock(&f->lock);
}

static int fake_probe(struct backend *b, const struct wait *wait, struct error *err)
{
    const struct fake_hooks *hooks = &fake_of(b)->hooks;
    return hooks->probe ? hooks->probe(hooks->ctx, wait, err) : 0;
}

static unsigned fake_capabilities(const struct backend *b)
{
    return fake_of(b)->capabilities;
}

static void fake_describe(const struct backend *b, struct backend_description *ret)
{
    *ret = (struct backend_description){.environment = "a folder of the machine that runs the tests",
                                        .shell = "/bin/sh",
                                        .network = "that of the machine",
                                        .limits = "no limits"};
}

/* What it was given; else as for all. */
static void note_options(const struct computer_options *o, struct fake_instance *i)
{
    static const struct computer_options NONE = {0};
    struct instance_stat *ret = &i->stat;
    o = o ? o : &NONE;
    *ret = (struct instance_stat){.disk_bytes = -1};
    snprintf(ret->provider_id, sizeof(ret->provider_id), "fake-%s", i->key);
    snprintf(ret->image, sizeof(ret->image), "%s", o->given & COMPUTER_IMAGE ? o->image : "fake:1");
    ret->cpus_limit = o->given & COMPUTER_CPUS ? o->cpus : 0;
    ret->memory_limit = o->given & COMPUTER_MEMORY ? o->memory_bytes : 0;
    ret->pids_limit = o->given & COMPUTER_PIDS ? o->pids : 0;
    ret->disk_limit = o->given & COMPUTER_DISK ? o->disk_bytes : 0;
    ret->network = !(o->given & COMPUTER_NETWORK) || o->network;
}

static struct instance *instance_new(struct fake *f, const struct computer_spec *spec, int *counter)
{
    struct fake_instance *i = xcalloc(1, sizeof(*i));
    i->base.ops = &f->ops;
    i->fake = f;
    i->id = xstrdup(spec->id);
    i->home = path_join(spec->folder, "home");
    snprintf(i->key, sizeof(i->key), "%s", spec->key);
    note_options(spec->options, i);
    i->death = cancel_new();
    pthread_mutex_lock(&f->lock);
    list_append(&f->instances, &i->node);
    pthread_mutex_unlock(&f->lock);
    count(f, counter, 1);
    return &i->base;
}

static void instance_free(struct fake_instance *i, int *counter)
{
    kill_instance(i);
    pthread_mutex_lock(&i->fake->lock);
    list_unlink(&i->node);
    pthread_mutex_unlock(&i->fake->lock);
    count(i->fake, counter, -1);
    cancel_unref(i->death);
    free(i->home);
    free(i->id);
    free(i);
}

static int fake_prepare(struct backend *b, const struct computer_spec *spec, struct instance **ret,
                        struct error *err)
{
    (void)ret; /* nothing but a folder */
    struct fake *f = fake_of(b);
    const char *folder = spec->folder;
    if (f->hooks.prepare && f->hooks.prepare(f->hooks.ctx, folder, err) < 0)
        return -1;
    _cleanup_(cleanup_free) char *home = path_join(folder, "home");
    if (dir_make(home, 0700, err) < 0)
        return -1;
    count(f, &f->counts.prepared, 0);
    return 0;
}

static int fake_create(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                       struct instance **ret, struct error *err)
{
    struct fake *f = fake_of(b);
    if (wait_check(wait, err) < 0 || (f->hooks.create && f->hooks.create(f->hooks.ctx, spec, wait, err) < 0))
        return -1;
    _cleanup_(cleanup_free) char *home = path_join(spec->folder, "home");
    if (dir_make(home, 0700, err) < 0)
        return -1;
    *ret = instance_new(f, spec, &f->counts.created);
    return 0;
}

static int fake_begin(struct instance *instance, const struct computer_options *options, struct error *err)
{
    struct fake_instance *i = instance_of(instance);
    if (i->id[0] || (options && (options->given & ~i->fake->ops.late_options)))
        abort(); /* the contract */
    note_options(options, i);
    return i->fake->hooks.begin ? i->fake->hooks.begin(i->fake->hooks.ctx, options, err) : 0;
}

static int fake_give_id(struct instance *instance, const struct computer_spec *spec,
                        int (*move)(void *ctx, struct error *err), void *ctx, struct error *err)
{
    struct fake_instance *i = instance_of(instance);
    struct fake *f = i->fake;
    if (i->id[0] || strcmp(i->key, spec->key) != 0)
        abort(); /* the contract */
    if ((f->hooks.give_id && f->hooks.give_id(f->hooks.ctx, spec, false, err) < 0) || move(ctx, err) < 0)
        return -1;
    pthread_mutex_lock(&f->lock);
    free(i->home);
    i->home = path_join(spec->folder, "home");
    free(i->id);
    i->id = xstrdup(spec->id);
    pthread_mutex_unlock(&f->lock);
    if (f->hooks.give_id && f->hooks.give_id(f->hooks.ctx, spec, true, err) < 0)
        return -1;
    count(f, &f->counts.named, 0);
    return 0;
}

static unsigned fake_options(const struct backend *b)
{
    return fake_of(b)->hooks.options;
}

static int fake_restart(struct instance *instance, const struct wait *wait, struct error *err)
{
    struct fake_instance *i = instance_of(instance);
    struct fake *f = i->fake;
    if (wait_check(wait, err) < 0)
        return -1;
    marked_kill_all(i->key);
    if (f->hooks.restart && f->hooks.restart(f->hooks.ctx, i->id, wait, err) < 0) {
        kill_instance(i);
        return -1;
    }
    pthread_mutex_lock(&f->lock);
    if (cancel_why(i->death) != ERR_NONE) { /* it lives again */
        cancel_unref(i->death);
        i->death = cancel_new();
    }
    pthread_mutex_unlock(&f->lock);
    count(f, &f->counts.restarted, 0);
    return 0;
}

static int fake_make_way(struct instance *instance, const char *folder, struct error *err)
{
    struct fake_instance *i = instance_of(instance);
    free(i->home);
    i->home = path_join(folder, "home");
    return 0;
}

static int fake_take_over(struct instance *instance, const struct computer_spec *spec,
                          int (*move)(void *ctx, struct error *err), void *ctx, struct error *err)
{
    struct fake_instance *i = instance_of(instance);
    struct fake *f = i->fake;
    if (strcmp(i->id, spec->id) != 0 || strcmp(i->key, spec->key) != 0)
        abort(); /* the contract */
    if ((f->hooks.take_over && f->hooks.take_over(f->hooks.ctx, spec, false, err) < 0) || move(ctx, err) < 0)
        return -1;
    free(i->home);
    i->home = path_join(spec->folder, "home");
    if (f->hooks.take_over && f->hooks.take_over(f->hooks.ctx, spec, true, err) < 0)
        return -1;
    count(f, &f->counts.replaced, 0);
    return 0;
}

/* Processes: the computer itself, which is none here, and what its commands have left. */
static int fake_stat(struct instance *instance, bool usage, const struct wait *wait,
                     struct instance_stat *ret, struct error *err)
{
    struct fake_instance *i = instance_of(instance);
    char mark[MARK_SIZE];
    int pids[256];
    snprintf(mark, sizeof(mark), "%s.", i->key);
    *ret = i->stat;
    if (!usage)
        return 0;
    ret->pids = 1 + (atomic_load(&i->execs) > 0 ? (int)marked_find(mark, 0, pids, ARRAY_LEN(pids)) : 0);
    ret->memory_bytes = 4096;
    return 0;
}

static bool fake_paused(struct instance *instance, const struct wait *wait)
{
    const struct fake_instance *i = instance_of(instance);
    const struct fake_hooks *hooks = &i->fake->hooks;
    return hooks->paused && hooks->paused(hooks->ctx, i->id);
}

static int fake_list(struct backend *b, const struct wait *wait, backend_found_fn *fn, void *ctx,
                     struct error *err)
{
    const struct fake_hooks *hooks = &fake_of(b)->hooks;
    return hooks->list(hooks->ctx, fn, ctx, err);
}

static int fake_find(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                     backend_found_fn *fn, void *ctx, struct error *err)
{
    const struct fake_hooks *hooks = &fake_of(b)->hooks;
    return hooks->find(hooks->ctx, spec, fn, ctx, err);
}

static int fake_attach(struct backend *b, const struct computer_spec *spec, const json_t *data,
                       const struct wait *wait, struct instance **ret, struct error *err)
{
    struct fake *f = fake_of(b);
    if (wait_check(wait, err) < 0 || (f->hooks.attach && f->hooks.attach(f->hooks.ctx, spec, wait, err) < 0))
        return -1;
    _cleanup_(cleanup_free) char *home = path_join(spec->folder, "home");
    if (!json_is_true(json_object_get(data, "fake")) || access(home, X_OK) < 0)
        return error_set(err, ERR_GONE, "its folder is not there");
    marked_kill_all(spec->key); /* by a server that died */
    *ret = instance_new(f, spec, &f->counts.attached);
    return 0;
}

static json_t *fake_plan(const struct backend *b, const struct computer_spec *spec)
{
    return json_pack("{s:b}", "fake", 1);
}

static json_t *fake_record(const struct instance *i)
{
    return json_pack("{s:b}", "fake", 1);
}

static int fake_exec(struct instance *instance, const struct exec_request *request, struct exec_result *ret,
                     struct error *err)
{
    struct fake_instance *i = instance_of(instance);
    const struct fake_hooks *hooks = &i->fake->hooks;
    if (cancel_why(i->death) != ERR_NONE)
        return error_set(err, ERR_GONE, "it was crashed by the test");
    if (cancel_why(request->wait.cancel) != ERR_NONE)
        return wait_check(&request->wait, err);
    if (hooks->exec)
        return hooks->exec(hooks->ctx, i->id, request, ret, err);
    return run_command(i, request, ret, err);
}

static bool fake_alive(const struct instance *instance)
{
    return cancel_why(instance_of(instance)->death) == ERR_NONE;
}

static void fake_kill(struct instance *instance)
{
    struct fake_instance *i = instance_of(instance);
    kill_instance(i);
    count(i->fake, &i->fake->counts.killed, 0);
}

static int fake_detach(struct instance *instance, struct error *err)
{
    struct fake_instance *i = instance_of(instance);
    instance_free(i, &i->fake->counts.detached);
    return 0;
}

static int fake_remove(struct instance *instance, struct error *err)
{
    struct fake_instance *i = instance_of(instance);
    struct fake *f = i->fake;
    int r = f->hooks.remove ? f->hooks.remove(f->hooks.ctx, i->id, err) : 0;
    if (r == 0)
        r = tree_remove(AT_FDCWD, i->home, err);
    instance_free(i, &f->counts.removed);
    return r;
}

static int fake_reap(struct backend *b, const struct computer_spec *spec, const json_t *data,
                     struct error *err)
{
    struct fake *f = fake_of(b);
    if (f->hooks.reap && f->hooks.reap(f->hooks.ctx, spec, data, err) < 0)
        return -1;
    marked_kill_all(spec->key);
    _cleanup_(cleanup_free) char *home = spec->folder ? path_join(spec->folder, "home") : NULL;
    if (home && tree_remove(AT_FDCWD, home, err) < 0)
        return -1;
    count(f, &f->counts.reaped, 0);
    return 0;
}

static int fake_settle(struct backend *b, const struct computer_spec *spec, const json_t *data,
                       struct error *err)
{
    marked_kill_all(spec->key);
    count(fake_of(b), &fake_of(b)->counts.settled, 0);
    return 0;
}

static struct backend *fake_free(struct backend *b)
{
    struct fake *f = fake_of(b);
    if (!list_empty(&f->instances))
        abort(); /* somebody has lost one */
    pthread_mutex_destroy(&f->lock);
    free(f);
    return NULL;
}

static const struct backend_ops FAKE_OPS = {
    .name = "fake",
    .probe = fake_probe,
    .capabilities = fake_capabilities,
    .describe = fake_describe,
    .prepare = fake_prepare,
    .create = fake_create,
    .begin = fake_begin,
    .give_id = fake_give_id,
    .options = fake_options,
    .restart = fake_restart,
    .make_way = fake_make_way,
    .take_over = fake_take_over,
    .stat = fake_stat,
    .paused = fake_paused,
    .list = fake_list,
    .find = fake_find,
    .attach = fake_attach,
    .plan = fake_plan,
    .record = fake_record,
    .exec = fake_exec,
    .alive = fake_alive,
    .kill = fake_kill,
    .detach = fake_detach,
    .remove = fake_remove,
    .reap = fake_reap,
    .settle = fake_settle,
    .free = fake_free,
};

struct backend *fake_backend_new(unsigned capabilities, const struct fake_hooks *hooks)
{
    struct fake *f = xcalloc(1, sizeof(*f));
    signal(SIGPIPE, SIG_IGN);
    f->base.ops = &f->ops;
    f->ops = FAKE_OPS;
    if (hooks)
        f->hooks = *hooks;
    f->capabilities = capabilities | (f->hooks.takes_id ? BACKEND_TAKES_ID : 0);
    if (f->hooks.needs_id)
        f->ops.give_id = NULL;
    if (f->hooks.never_restarts) {
        f->ops.restart = NULL;
        f->ops.take_over = NULL;
    }
    f->ops.late_options = f->hooks.late_options;
    f->ops.ends_at_once = f->hooks.ends_at_once;
    f->ops.list = f->hooks.list ? f->ops.list : NULL;
    f->ops.find = f->hooks.find ? f->ops.find : NULL;
    pthread_mutex_init(&f->lock, NULL);
    list_init(&f->instances);
    return &f->base;
}

struct fake_counts fake_backend_counts(struct backend *b)
{
    struct fake *f = fake_of(b);
    pthread_mutex_lock(&f->lock);
    struct fake_counts counts = f->counts;
    pthread_mutex_unlock(&f->lock);
    return counts;
}

void fake_backend_crash(struct backend *b, const char *id)
{
    struct fake *f = fake_of(b);
    pthread_mutex_lock(&f->lock);
    list_for_each (node, &f->instances) {
        struct fake_instance *i = list_entry(node, struct fake_instance, node);
        if (strcmp(i->id, id) == 0)
            cancel_fire(i->death, ERR_GONE); /* its calls kill what they run; the rest goes with it */
    }
    pthread_mutex_unlock(&f->lock);
}
