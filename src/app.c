/* Composition, signals and the end.
 *
 * Start: configuration, then objects from the bottom of the layers up. Nothing slow happens before the first
 * reply: no thread, no disk, no helper process. When it was written, one worker warms up the backend and
 * removes what dead servers left (warm_up). Where nothing says which backend it is, and there is something
 * that looks like an engine, a worker asks it meanwhile (ask); what needs to know waits in the protocol.
 *
 * End: the first of end of input, lost output, a dead parent, SIGTERM, SIGINT, SIGHUP begins it (begin_end);
 * over HTTP there is no input and the parent doesn't matter. The sessions close: calls are cancelled,
 * computers killed, all within the time that front_close() gives it; then the loop stops.
 * What could not be removed in time is told on stderr and by exit code 1, and is the next start's to reap. */
#include "app.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/backend.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/pool.h"
#include "compose.h"
#include "computers/computers.h"
#include "config/config.h"
#include "front.h"
#include "metrics.h"
#include "protocol/protocol.h"

/* Between looks at a backend that can make no computer. */
#define LOOK_AGAIN_SECONDS 5

/* LOOKING: a worker is about to tell. */
enum condition { CONDITION_UNKNOWN, CONDITION_LOOKING, CONDITION_GOOD, CONDITION_BAD };

struct app {
    struct config *config;
    const struct config_values *values;
    const char *name; /* of the personality */

    struct loop *loop;
    struct pool *pool;
    enum config_backend backend; /* CONFIG_AUTO while an engine is asked */
    struct parts parts;          /* empty then */
    struct protocol *protocol;
    struct front *front;
    struct metrics *metrics; /* of a server for many */

    struct loop_signal *signals[4];
    struct loop_signal *child_signal; /* only as pid 1 */
    struct loop_watch *parent_watch;
    int parent_pidfd;
    struct pool_job ask_job;
    atomic_int condition;   /* enum condition, of the backend */
    struct error hindrance; /* with CONDITION_BAD; nobody writes it then */
    struct cancel *ended;   /* of looking at it */
    int64_t looked_at;
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
    cancel_fire(app->ended, ERR_CANCELLED);
    app->end_deadline = front_close(app->front, end_done, app);
}

static void on_signal(void *arg, int signo)
{
    struct app *app = arg;
    if (signo == SIGHUP && front_reload(app->front))
        return;
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

static void tell_of_no_engine(const struct app *app)
{
    const char *name = app->parts.backend->ops->name;
    _cleanup_(cleanup_free) char *hindrance = backend_hindrance(app->values);
    log_warning(
        "computers are made by the %s backend, as no container engine answers%s%s%s; --backend %s says "
        "that this is meant",
        name, hindrance ? " (" : "", hindrance ? hindrance : "", hindrance ? ")" : "", name);
}

/* What a person should know once, at start. */
static void tell_backend(const struct app *app)
{
    const struct backend *backend = app->parts.backend;
    if (app->values->backend == CONFIG_AUTO && app->backend == CONFIG_DOCKER)
        log_info("computers are made by the %s backend", backend->ops->name);
    else if (app->values->backend == CONFIG_AUTO)
        tell_of_no_engine(app);
    if (app->values->network && !(backend->ops->capabilities(backend) & BACKEND_NETWORK))
        log_warning("computers have no network: the %s backend has none in this version; --no-network says "
                    "that this is meant",
                    backend->ops->name);
}

/* -- Warming up. */

static void tell_good(const struct app *app)
{
    const struct backend *backend = app->parts.backend;
    struct backend_description description;
    backend->ops->describe(backend, &description);
    if (description.weaker)
        log_warning("computers are not as they should be: %s", description.weaker);
    if (!description.limited_there && !(backend->ops->capabilities(backend) & BACKEND_LIMITS))
        log_warning("computers are not limited as they should be: %s", description.limits);
}

/* Neither an engine that can't be reached nor a limit that isn't held is a secret until the first call; but
 * what fails while the server ends may fail since it ends. */
static void look(struct app *app)
{
    struct backend *backend = app->parts.backend;
    const struct wait wait = {.deadline = DEADLINE_NONE, .cancel = app->ended};
    if (backend->ops->probe(backend, &wait, &app->hindrance) < 0) {
        if (cancel_why(app->ended) == ERR_NONE)
            log_warning("no computer can be made: %s", app->hindrance.msg);
        atomic_store(&app->condition, CONDITION_BAD);
        return;
    }
    if (backend->ops->warm)
        backend->ops->warm(backend, &wait);
    atomic_store(&app->condition, CONDITION_GOOD);
    tell_good(app);
}

static void warm_up(struct pool_job *job)
{
    struct app *app = CONTAINER_OF(job, struct app, warm_job);
    look(app);
    int reaped = computers_reap(app->parts.computers);
    if (reaped > 0)
        log_info("removed %d computers of servers that are gone", reaped);
    FAULT_POINT("start.over");
}

static void warm_up_refused(struct pool_job *job, const struct error *why)
{
    atomic_store(&CONTAINER_OF(job, struct app, warm_job)->condition, CONDITION_UNKNOWN);
    log_debug("no warm-up: %s", why->msg);
}

static void warm_up_soon(struct app *app)
{
    struct error err = ERROR_INIT;
    if (!app->greeted || !app->parts.backend)
        return;
    atomic_store(&app->condition, CONDITION_LOOKING);
    app->looked_at = clock_now();
    app->warm_job.run = warm_up;
    app->warm_job.refused = warm_up_refused;
    app->warm_job.deadline = DEADLINE_NONE;
    if (pool_submit(app->pool, &app->warm_job, &err) < 0)
        warm_up_refused(&app->warm_job, &err);
}

/* What is no good may have become better: it is looked at again now and then, while somebody asks. */
static bool is_ready(void *arg, const char **ret_why)
{
    struct app *app = arg;
    int condition = atomic_load(&app->condition);
    bool again = clock_now() - app->looked_at > LOOK_AGAIN_SECONDS * NSEC_PER_SEC;
    if ((condition == CONDITION_BAD || condition == CONDITION_UNKNOWN) && again)
        warm_up_soon(app);
    else if (condition == CONDITION_BAD)
        *ret_why = app->hindrance.msg;
    return condition == CONDITION_GOOD;
}

static int write_figures(void *arg, const struct http_figures *http, struct buf *ret)
{
    const struct app *app = arg;
    struct computers_counts counts = {0};
    if (app->parts.computers)
        counts = computers_count(app->parts.computers);
    return metrics_write(app->metrics, &counts, http, ret);
}

static void on_call(void *arg, const struct call_report *report)
{
    const struct app *app = arg;
    if (app->metrics)
        metrics_call(app->metrics, report);
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
    if (parent > 1 && !front_is_daemon(app->front)) {
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
    app->ended = cancel_new();
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
        .dashboard = v->lifecycle_tools,
        .on_first_reply = on_first_reply,
        .on_call = on_call,
        .ctx = app,
    });
    app->front = front_new(
        &(struct front_options){
            .loop = app->loop,
            .protocol = app->protocol,
            .values = v,
            .name = app->name,
            .on_end = begin_end,
            .ready = is_ready,
            .figures = write_figures,
            .ctx = app,
        },
        err);
    if (!app->front)
        return -1;
    app->greeted = front_is_daemon(app->front);
    app->metrics = app->greeted ? metrics_new() : NULL;
    watch_the_world(app); /* before anybody else hears of this process, such as an engine that is asked */
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
    app->front = front_free(app->front);
    app->metrics = metrics_free(app->metrics);
    if (app->pool)
        app->pool = pool_free(app->pool);
    app->protocol = protocol_free(app->protocol);
    parts_done(&app->parts);
    app->ended = cancel_unref(app->ended);
    app->loop = loop_free(app->loop);
}

/* Until the end was asked for and done. The exit code. */
static int app_serve(struct app *app)
{
    for (char *const *warning = config_warnings(app->config); *warning; warning++)
        log_warning("%s", *warning);
    if (app->parts.backend)
        tell_backend(app);
    warm_up_soon(app);
    loop_run(app->loop);
    /* A worker that is stuck (a dying disk, say) can't be joined: its memory is left to the kernel. */
    bool joined = pool_close(app->pool, app->end_deadline);
    const bool failed = app->left_behind || app->refused || front_has_lost(app->front);
    if (joined && !app->left_behind) {
        app_free(app);
        return failed;
    }
    /* All calls have ended or were told of by end_done(); what still runs then is only the removal of what
     * other servers have left, or a folder that is made ahead: the next start sees to both. */
    log_close();
    _exit(failed);
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
    /* Large buffers go back to the kernel when they are freed, but for a few: see buf.c. */
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
