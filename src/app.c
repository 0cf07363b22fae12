/* Composition, signals and the end.
 *
 * Start: configuration, then objects from the bottom of the layers up. Nothing slow happens before the first
 * reply: no thread, no disk, no helper process. When it was written, one worker warms up the backend and
 * removes what dead servers left (warm_up). Where nothing says which backend it is, and there is something
 * that looks like an engine, a worker asks it meanwhile (ask); what needs to know waits in the protocol.
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
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/backend.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/pool.h"
#include "compose.h"
#include "computers/computers.h"
#include "config/config.h"
#include "protocol/protocol.h"
#include "transport/stdio.h"

/* A client that closed our input waits 2 s before it gets rude; a person expects an instant. */
#define END_SECONDS 0.8

struct app {
    struct config *config;
    const struct config_values *values;
    const char *name; /* of the personality */

    struct loop *loop;
    struct pool *pool;
    enum config_backend backend; /* CONFIG_AUTO while an engine is asked */
    struct parts parts;          /* empty then */
    struct protocol *protocol;
    struct stdio *stdio;

    struct loop_signal *signals[4];
    struct loop_signal *child_signal; /* only as pid 1 */
    struct loop_watch *parent_watch;
    int parent_pidfd;
    struct pool_job ask_job;
    struct loop_post asked;
    struct pool_job warm_job;
    bool greeted;         /* the first reply was written */
    int64_t end_deadline; /* once ending */
    bool ending;
    bool refused; /* to start, though late */
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

/* What a person should know once, at start. */
static void tell_backend(const struct app *app)
{
    const struct backend *backend = app->parts.backend;
    if (app->values->backend == CONFIG_AUTO && app->backend == CONFIG_DOCKER)
        log_info("computers are made by the %s backend", backend->ops->name);
    else if (app->values->backend == CONFIG_AUTO)
        log_warning("computers are made by the %s backend, as no container engine answers; --backend %s says "
                    "that this is meant",
                    backend->ops->name, backend->ops->name);
    if (app->values->network && !(backend->ops->capabilities(backend) & BACKEND_NETWORK))
        log_warning("computers have no network: the %s backend has none in this version; --no-network says "
                    "that this is meant",
                    backend->ops->name);
}

/* -- Warming up. */

/* Neither an engine that can't be reached nor a limit that isn't held is a secret until the first call. */
static void tell_condition(struct backend *backend)
{
    const struct wait at_once = {.deadline = clock_now()};
    struct backend_description description;
    struct error err = ERROR_INIT;
    if (backend->ops->probe(backend, &at_once, &err) < 0) {
        log_warning("no computer can be made: %s", err.msg);
        return;
    }
    backend->ops->describe(backend, &description);
    if (description.weaker)
        log_warning("computers are not as they should be: %s", description.weaker);
    if (!(backend->ops->capabilities(backend) & BACKEND_LIMITS))
        log_warning("computers are not limited as they should be: %s", description.limits);
}

static void warm_up(struct pool_job *job)
{
    struct app *app = CONTAINER_OF(job, struct app, warm_job);
    app->parts.backend->ops->warm(app->parts.backend);
    tell_condition(app->parts.backend);
    int reaped = computers_reap(app->parts.computers);
    if (reaped > 0)
        log_info("removed %d computers of servers that are gone", reaped);
}

static void warm_up_refused(struct pool_job *job, const struct error *why)
{
    log_debug("no warm-up: %s", why->msg);
}

static void warm_up_soon(struct app *app)
{
    struct error err = ERROR_INIT;
    if (!app->greeted || !app->parts.backend)
        return;
    app->warm_job.run = warm_up;
    app->warm_job.refused = warm_up_refused;
    app->warm_job.deadline = DEADLINE_NONE;
    if (pool_submit(app->pool, &app->warm_job, &err) < 0)
        log_debug("no warm-up: %s", err.msg);
}

static void on_first_reply(void *arg)
{
    struct app *app = arg;
    app->greeted = true;
    warm_up_soon(app);
}

/* -- Asking an engine. */

static void on_asked(void *arg)
{
    struct app *app = arg;
    struct error err = ERROR_INIT;
    if (app->ending)
        return;
    if (parts_new(&app->parts, app->values, app->backend, &err) < 0) {
        log_error("%s", err.msg);
        app->refused = true;
        begin_end(app);
        return;
    }
    tell_backend(app);
    protocol_open(app->protocol, app->parts.toolset, app->parts.computers);
    warm_up_soon(app);
}

static void ask(struct pool_job *job)
{
    struct app *app = CONTAINER_OF(job, struct app, ask_job);
    app->backend = backend_ask(app->values);
    loop_post(app->loop, &app->asked);
}

static void ask_refused(struct pool_job *job, const struct error *why)
{
    struct app *app = CONTAINER_OF(job, struct app, ask_job);
    log_debug("no engine was asked: %s", why->msg);
    app->backend = CONFIG_NATIVE;
    loop_post(app->loop, &app->asked);
}

static int ask_soon(struct app *app, struct error *err)
{
    app->asked = (struct loop_post){.fn = on_asked, .arg = app};
    app->ask_job = (struct pool_job){.run = ask, .refused = ask_refused, .deadline = DEADLINE_NONE};
    return pool_submit(app->pool, &app->ask_job, err);
}

/* -- Start and end. */

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

static int app_build(struct app *app, struct error *err)
{
    const struct config_values *v = app->values;
    app->loop = loop_new(err);
    if (!app->loop)
        return -1;
    app->pool = pool_new((int)v->max_concurrent, LIMIT_QUEUED_CALLS);
    app->protocol = protocol_new(&(struct protocol_options){
        .loop = app->loop,
        .pool = app->pool,
        .toolset = app->parts.toolset,
        .computers = app->parts.computers,
        .server_name = app->name,
        .server_title =
            v->personality == CONFIG_KILNTAINERS ? "Kilntainers" : "MCP Sandbox Computer VM for AI",
        .server_version = config_version(),
        .on_first_reply = on_first_reply,
        .ctx = app,
    });
    app->stdio = stdio_new(app->loop, app->protocol, STDIN_FILENO, STDOUT_FILENO, begin_end, app, err);
    if (!app->stdio)
        return -1;
    return app->backend == CONFIG_AUTO ? ask_soon(app, err) : 0;
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
    parts_done(&app->parts);
    app->loop = loop_free(app->loop);
}

/* Until the end was asked for and done. The exit code. */
static int app_serve(struct app *app)
{
    for (char *const *warning = config_warnings(app->config); *warning; warning++)
        log_warning("%s", *warning);
    if (app->parts.backend)
        tell_backend(app);
    watch_the_world(app);
    loop_run(app->loop);
    /* A worker that is stuck (a dying disk, say) can't be joined: its memory is left to the kernel. */
    bool joined = pool_close(app->pool, app->end_deadline);
    if (joined && !app->left_behind) {
        app_free(app);
        return app->refused;
    }
    /* All calls have ended or were told of by end_done(); what still runs then is only the removal of what
     * other servers have left, or a folder that is made ahead: the next start sees to both. */
    log_close();
    _exit(app->left_behind || app->refused);
}

static int fail(const struct app *app, const struct error *err, int exit_code)
{
    fprintf(stderr, "%s: error: %s\n", app->name, err->msg);
    return exit_code;
}

/* What can be refused before anything runs. */
static int app_settle(struct app *app, struct error *err)
{
    if (backend_settle(app->values, &app->backend, err) < 0)
        return -1;
    return app->backend == CONFIG_AUTO ? 0 : parts_new(&app->parts, app->values, app->backend, err);
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
    if ((action == CONFIG_RUN || action == CONFIG_CHECK) && app_settle(&app, &err) < 0)
        return fail(&app, &err, 1);
    exit_code = app_print(&app, action);
    if (exit_code >= 0) {
        parts_done(&app.parts);
        return exit_code;
    }

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
