/* Composition, signals and the end.
 *
 * Start: configuration, then objects from the bottom of the layers up. Nothing slow happens before the first
 * reply: no thread, no disk, no helper process. When it was written, one worker warms up the backend and
 * removes what dead servers left (warm_up).
 *
 * End: the first of end of input, lost output, a dead parent, SIGTERM, SIGINT, SIGHUP begins it (begin_end).
 * The session closes: calls are cancelled, computers killed, all within END_SECONDS; then the loop stops.
 * What could not be removed in time is told on stderr and by exit code 1, and is the next start's to reap. */
#include "app.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/native.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/pool.h"
#include "computers/computers.h"
#include "config/config.h"
#include "protocol/protocol.h"
#include "tools/tools.h"
#include "transport/stdio.h"

/* A client that closed our input waits 2 s before it gets rude; a person expects an instant. */
#define END_SECONDS 0.8

struct app {
    struct config *config;
    const struct config_values *values;
    const char *name; /* of the personality */

    struct loop *loop;
    struct pool *pool;
    struct backend *backend;
    struct computers *computers;
    struct toolset *toolset;
    struct protocol *protocol;
    struct stdio *stdio;

    struct loop_signal *signals[4];
    struct loop_signal *child_signal; /* only as pid 1 */
    struct loop_watch *parent_watch;
    int parent_pidfd;
    struct pool_job warm_job;
    int64_t end_deadline; /* once ending */
    bool ending;
    bool left_behind;
};

static void end_done(void *arg, const char *left_behind)
{
    struct app *app = arg;
    if (left_behind) {
        app->left_behind = true;
        log_warning("%s; the next start removes it", left_behind);
    }
    loop_stop(app->loop);
}

static void begin_end(void *arg)
{
    struct app *app = arg;
    if (app->ending)
        return;
    app->ending = true;
    app->end_deadline = clock_deadline_after(END_SECONDS);
    session_close(stdio_session(app->stdio), app->end_deadline, end_done, app);
}

static void on_signal(void *arg, int signo)
{
    log_debug("ending on %s", strsignal(signo));
    begin_end(arg);
}

static void on_parent(void *arg, short revents)
{
    struct app *app = arg;
    app->parent_watch = loop_watch_free(app->parent_watch);
    log_debug("ending with the parent process");
    begin_end(app);
}

/* As pid 1 of a container we inherit orphans; our own child, the zygote, is watched by its pidfd. */
static void on_child(void *arg, int signo)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

/* A limit that isn't held is no secret. Whatever else keeps the backend from working is told with the first
 * call. */
static void tell_unenforced(const struct app *app)
{
    const struct backend_ops *ops = app->backend->ops;
    const struct wait at_once = {.deadline = clock_now()};
    struct backend_description description;
    if (ops->probe(app->backend, &at_once, NULL) < 0 || ops->capabilities(app->backend) & BACKEND_LIMITS)
        return;
    ops->describe(app->backend, &description);
    log_warning("computers are not limited as they should be: %s", description.limits);
}

static void warm_up(struct pool_job *job)
{
    struct app *app = CONTAINER_OF(job, struct app, warm_job);
    app->backend->ops->warm(app->backend);
    tell_unenforced(app);
    int reaped = computers_reap(app->computers);
    if (reaped > 0)
        log_info("removed %d computers of servers that are gone", reaped);
}

static void warm_up_refused(struct pool_job *job, const struct error *why)
{
    log_debug("no warm-up: %s", why->msg);
}

static void on_first_reply(void *arg)
{
    struct app *app = arg;
    struct error err = ERROR_INIT;
    app->warm_job.run = warm_up;
    app->warm_job.refused = warm_up_refused;
    app->warm_job.deadline = DEADLINE_NONE;
    if (pool_submit(app->pool, &app->warm_job, &err) < 0)
        log_debug("no warm-up: %s", err.msg);
}

/* A client may start us with a closed descriptor; nothing we open may land on 0, 1 or 2. */
static void secure_descriptors(void)
{
    for (;;) {
        int fd = open("/dev/null", O_RDWR);
        if (fd < 0)
            return;
        if (fd > STDERR_FILENO) {
            close(fd);
            break;
        }
    }
    fd_cloexec_from(STDERR_FILENO + 1);
}

static void watch_the_world(struct app *app)
{
    static const int ending[] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < ARRAY_LEN(ending); i++)
        app->signals[i] = loop_signal_new(app->loop, ending[i], on_signal, app);
    if (getpid() == 1) {
        app->child_signal = loop_signal_new(app->loop, SIGCHLD, on_child, app);
        return;
    }
    pid_t parent = getppid();
    if (parent > 1) {
        app->parent_pidfd = (int)syscall(SYS_pidfd_open, parent, 0);
        if (app->parent_pidfd >= 0) {
            app->parent_watch = loop_watch_new(app->loop, app->parent_pidfd, on_parent, app);
            loop_watch_set(app->parent_watch, POLLIN);
        }
    }
}

static struct backend *make_backend(const struct config_values *v)
{
    return native_new(&(struct native_options){
        .state_dir = v->state_dir,
        .rootfs = v->rootfs,
        .shell = v->shell,
        .memory_bytes = v->memory,
        .pids = v->pids,
        .cpus = v->cpu,
        .network_wanted = v->network,
    });
}

static int app_build(struct app *app, struct error *err)
{
    const struct config_values *v = app->values;
    app->loop = loop_new(err);
    if (!app->loop)
        return -1;
    app->pool = pool_new((int)v->max_concurrent, LIMIT_QUEUED_CALLS);
    app->backend = make_backend(v);
    app->computers = computers_new(&(struct computers_options){
        .state_dir = v->state_dir,
        .backend = app->backend,
        .network = "none",
        .max_per_principal = (int)v->max_computers,
    });
    app->toolset = toolset_new(
        &(struct toolset_options){
            .personality =
                v->personality == CONFIG_KILNTAINERS ? PERSONALITY_KILNTAINERS : PERSONALITY_COMPUTER,
            .description_override = v->tool_instruction_override,
            .description_extra = v->extended_tool_instruction,
            .default_timeout_s = v->timeout_s,
            .output_limit = (size_t)v->output_limit,
            .backend = app->backend,
        },
        err);
    if (!app->toolset)
        return -1;
    app->protocol = protocol_new(&(struct protocol_options){
        .loop = app->loop,
        .pool = app->pool,
        .toolset = app->toolset,
        .computers = app->computers,
        .server_name = app->name,
        .server_title =
            v->personality == CONFIG_KILNTAINERS ? "Kilntainers" : "MCP Sandbox Computer VM for AI",
        .server_version = config_version(),
        .on_first_reply = on_first_reply,
        .ctx = app,
    });
    app->stdio = stdio_new(app->loop, app->protocol, STDIN_FILENO, STDOUT_FILENO, begin_end, app, err);
    return app->stdio ? 0 : -1;
}

/* In the reverse order of app_build; accepts what that left half-built. */
static void app_free(struct app *app)
{
    for (size_t i = 0; i < ARRAY_LEN(app->signals); i++)
        app->signals[i] = loop_signal_free(app->signals[i]);
    app->child_signal = loop_signal_free(app->child_signal);
    app->parent_watch = loop_watch_free(app->parent_watch);
    fd_close(app->parent_pidfd);
    app->stdio = stdio_free(app->stdio);
    if (app->pool)
        app->pool = pool_free(app->pool);
    app->protocol = protocol_free(app->protocol);
    app->toolset = toolset_free(app->toolset);
    app->computers = computers_free(app->computers);
    if (app->backend)
        app->backend = app->backend->ops->free(app->backend);
    app->loop = loop_free(app->loop);
}

/* What a person should know once, at start. */
static void tell_warnings(const struct app *app)
{
    for (char *const *warning = config_warnings(app->config); *warning; warning++)
        log_warning("%s", *warning);
    if (app->values->network && !(app->backend->ops->capabilities(app->backend) & BACKEND_NETWORK))
        log_warning("computers have no network: the %s backend has none in this version; --no-network says "
                    "that this is meant",
                    app->backend->ops->name);
}

/* Until the end was asked for and done. The exit code. */
static int app_serve(struct app *app)
{
    tell_warnings(app);
    watch_the_world(app);
    loop_run(app->loop);
    /* A worker that is stuck (a dying disk, say) can't be joined: its memory is left to the kernel. */
    bool joined = pool_close(app->pool, app->end_deadline);
    if (joined && !app->left_behind) {
        app_free(app);
        return 0;
    }
    /* All calls have ended or were told of by end_done(); what still runs then is only the removal of what
     * other servers have left, or a folder that is made ahead: the next start sees to both. */
    log_close();
    _exit(app->left_behind);
}

static int fail(const struct app *app, const struct error *err, int exit_code)
{
    fprintf(stderr, "%s: error: %s\n", app->name, err->msg);
    return exit_code;
}

/* What only prints and ends; -1 for what runs. */
static int app_print(const struct app *app, enum config_action action)
{
    switch (action) {
    case CONFIG_HELP:
        config_print_help(app->config, stdout);
        break;
    case CONFIG_VERSION:
        config_print_version(app->config, stdout);
        break;
    case CONFIG_PRINT:
        config_print(app->config, stdout);
        break;
    case CONFIG_CHECK:
        printf("%s: the configuration is valid\n", app->name);
        break;
    case CONFIG_RUN:
    default:
        return -1;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

int app_run(int argc, char *const *argv, char *const *env)
{
    struct app app = {.name = config_program_name(argc, argv), .parent_pidfd = -1};
    struct error err = ERROR_INIT;
    enum config_action action = CONFIG_RUN;
    int exit_code = 0;

    secure_descriptors();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a log that meets `ulimit -f` loses lines, not the server */
    /* Large buffers go back to the kernel when they are freed. */
    mallopt(M_MMAP_THRESHOLD, 256 * KIB);
    _cleanup_(cleanup_config_free) struct config *config =
        config_load(argc, argv, env, &action, &exit_code, &err);
    if (!config)
        return fail(&app, &err, exit_code);
    app.config = config;
    app.values = config_values(config);
    if ((action == CONFIG_RUN || action == CONFIG_CHECK) && native_check(app.values->rootfs, &err) < 0)
        return fail(&app, &err, 1);
    exit_code = app_print(&app, action);
    if (exit_code >= 0)
        return exit_code;

    const struct config_values *v = app.values;
    if (log_open(app.name, v->log_level, v->log_format == CONFIG_LOG_JSON, v->log_file, &err) < 0)
        return fail(&app, &err, 1);
    if (app_build(&app, &err) < 0) {
        exit_code = fail(&app, &err, 1);
        app_free(&app);
        return exit_code;
    }
    exit_code = app_serve(&app);
    log_close();
    return exit_code;
}
