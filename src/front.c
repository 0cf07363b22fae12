/* One of two: stdio has one session and ends with its client; HTTP has many, and ends when it is told to. */
#include "front.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "notify.h"
#include "transport/http.h"
#include "transport/listen.h"
#include "transport/request_log.h"
#include "transport/stdio.h"

/* A client that closed our input waits 2 s before it gets rude; a person expects an instant. */
#define STDIO_END_SECONDS 0.8
/* After the calls have ended or were cancelled: for the computers of all sessions. */
#define HTTP_END_SECONDS 5

/* Slow clients: what a request, and an idle connection, may take. */
#define HEAD_SECONDS 15
#define BODY_SECONDS 30
#define IDLE_SECONDS 120
#define WRITE_SECONDS 60

struct front {
    struct front_options options;
    struct stdio *stdio;

    struct listening listening;
    bool is_inherited; /* from a service manager */
    struct access *access;
    struct request_log *log; /* NULL: none is kept */
    struct http *http;
    struct notify *notify;
};

/* -- HTTP. */

/* Each connection is one; who needs many has raised the hard limit. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* What a service manager has opened, the options and their rules know nothing of. */
static int check_inherited(const struct front *f, struct error *err)
{
    const struct config_values *v = f->options.values;
    if (!f->listening.is_exposed || v->auth_token || v->auth_token_file || v->allow_unauthenticated_http)
        return 0;
    return error_set(err, ERR_INVALID,
                     "The sockets that the service manager has passed let other machines in without a token; "
                     "give --auth-token-file FILE or --allow-unauthenticated-http, or have it listen on "
                     "127.0.0.1");
}

static int listen_on(struct front *f, struct error *err)
{
    const struct config_values *v = f->options.values;
    if (listen_inherited(&f->listening, err) < 0)
        return -1;
    f->is_inherited = f->listening.count > 0;
    if (f->is_inherited)
        return check_inherited(f, err);
    if (v->unix_socket)
        return listen_unix(&f->listening, v->unix_socket, err);
    return listen_tcp(&f->listening, v->host, (int)v->port, err);
}

/* Said whatever the log level: who starts a server wants to know where it is. */
static void tell_addresses(const struct front *f)
{
    const char *program = f->options.name;
    for (size_t i = 0; i < f->listening.count; i++) {
        const char *name = f->listening.names[i];
        bool is_unix = str_has_prefix(name, "unix:");
        fprintf(stderr, "%s: listening on %s%s%s\n", program, is_unix ? "" : "http://", name,
                is_unix ? "" : "/mcp");
    }
    if (!access_needs_token(f->access) && !f->options.values->unix_socket)
        log_info("no token is set: every user of this machine gets in");
}

/* By which addresses clients may call us. */
static const char *host_of(const struct front *f)
{
    const struct config_values *v = f->options.values;
    if (f->is_inherited)
        return f->listening.is_exposed ? "*" : NULL;
    return v->unix_socket ? NULL : v->host;
}

static int open_http(struct front *f, struct error *err)
{
    const struct config_values *v = f->options.values;
    raise_descriptor_limit();
    if (listen_on(f, err) < 0)
        return -1;
    f->access = access_new(
        &(struct access_options){
            .host = host_of(f),
            .token = v->auth_token,
            .token_file = v->auth_token_file,
            .metrics_token_file = v->metrics_token_file,
            .allowed_hosts = v->allowed_host,
            .allowed_origins = v->allowed_origin,
        },
        err);
    if (!f->access)
        return -1;
    f->log = v->access_log ? request_log_new(v->access_log, err) : NULL;
    if (v->access_log && !f->log)
        return -1;
    int sessions = (int)v->max_sessions;
    f->http = http_new(
        &(struct http_options){
            .loop = f->options.loop,
            .protocol = f->options.protocol,
            .access = f->access,
            .name = f->options.name,
            .listeners = f->listening.fds,
            .listener_count = f->listening.count,
            .limits =
                {
                    .connections = (int)v->max_connections,
                    .connections_per_peer = (int)v->max_connections_per_peer,
                    .body_bytes = (size_t)v->max_body,
                    .head_seconds = HEAD_SECONDS,
                    .body_seconds = BODY_SECONDS,
                    .idle_seconds = IDLE_SECONDS,
                    .write_seconds = WRITE_SECONDS,
                    .queue_bytes = LIMIT_SEND_QUEUE_BYTES,
                    .unread_bytes = LIMIT_UNREAD_BYTES,
                },
            .log = f->log,
            .ready = f->options.ready,
            .figures = f->options.figures,
            .ctx = f->options.ctx,
            .session_timeout_s = v->session_timeout_s,
            .max_sessions = sessions,
            .max_sessions_per_principal = v->auth_token_file && sessions > 1 ? sessions / 2 : sessions,
        },
        err);
    if (!f->http)
        return -1;
    listening_give(&f->listening);
    tell_addresses(f);
    f->notify = notify_new(f->options.loop);
    notify_tell(f->notify, "READY=1");
    return 0;
}

/* -- Either. */

struct front *front_new(const struct front_options *options, struct error *err)
{
    struct front *f = xcalloc(1, sizeof(*f));
    f->options = *options;
    int r;
    if (options->values->transport == CONFIG_HTTP) {
        r = open_http(f, err);
    } else {
        f->stdio = stdio_new(options->loop, options->protocol, STDIN_FILENO, STDOUT_FILENO, options->on_end,
                             options->ctx, err);
        r = f->stdio ? 0 : -1;
    }
    return r < 0 ? front_free(f) : f;
}

bool front_is_daemon(const struct front *f)
{
    return f->http != NULL;
}

bool front_reload(struct front *f)
{
    struct error err = ERROR_INIT;
    if (!f->http)
        return false;
    if (access_reload(f->access, &err) < 0)
        log_error("%s; the tokens are as before", err.msg);
    if (f->log && request_log_reopen(f->log, &err) < 0)
        log_error("%s; the old one is written on", err.msg);
    log_info("tokens were read, and the access log opened, anew");
    return true;
}

int64_t front_close(struct front *f, void (*on_done)(void *arg, const char *left_behind), void *arg)
{
    if (f->stdio) {
        int64_t deadline = clock_deadline_after(STDIO_END_SECONDS);
        session_close(stdio_session(f->stdio), deadline, on_done, arg);
        return deadline;
    }
    double patience = f->options.values->stop_timeout_s;
    int64_t deadline = clock_deadline_after(patience + HTTP_END_SECONDS);
    notify_tell(f->notify, "STOPPING=1");
    http_close(f->http, clock_deadline_after(patience), deadline, on_done, arg);
    return deadline;
}

bool front_has_lost(const struct front *f)
{
    return f->stdio && stdio_has_lost(f->stdio);
}

struct front *front_free(struct front *f)
{
    if (!f)
        return NULL;
    stdio_free(f->stdio);
    http_free(f->http);
    access_free(f->access);
    request_log_free(f->log);
    listening_done(&f->listening);
    notify_free(f->notify);
    free(f);
    return NULL;
}
