/* See account.h. Opening is done by a thread of its own, so that each caller waits no longer than it wants
 * to, and none waits in vain because another one gave up. It begins with the first caller, and again after a
 * failure.
 *
 *     token given ────────────────────────────────> app
 *     else flyctl's file has one ─────────────────> app, or 401
 *     else flyctl has one, which may be fresher ──> app, or 401
 *     else flyctl is installed, if it may be, so that the error can tell what to run */
#include "backends/fly/account.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "backends/fly/app.h"
#include "backends/fly/cli.h"
#include "backends/fly/state_file.h"
#include "base/attempt.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"

#define API_BASE "https://api.fly.io"
#define MACHINES_BASE "https://api.machines.dev"
#define SEARCH_TIMEOUT_NS (90 * NSEC_PER_SEC)
#define INSTALL_TIMEOUT_NS (600 * NSEC_PER_SEC) /* whatever callers wait for: the next one finds it done */
#define STATUS_UNAUTHORIZED 401

struct fly_account {
    char *named_app, *organisation;
    char *cli, *install_dir, *config_dir, *state_file;
    bool auto_install;
    char *api_base, *ca_file;
    struct http_client *api_client, *machines_client;
    struct pace *pace;

    bool token_given;
    struct fly_token token; /* that was given, else, like what follows, the opener's until it is open */
    struct provider machines, graphql;
    char *app;

    struct cancel *end;   /* of the account */
    pthread_mutex_t lock; /* of all that follows */
    struct attempt opening;
    bool is_open;
};

/* --- what the opener does --- */

static struct wait wait_of(const struct fly_account *a, int64_t ns)
{
    return (struct wait){.deadline = clock_now() + ns, .cancel = a->end};
}

/* Takes the token over. */
static void speak_as(struct fly_account *a, struct fly_token *token)
{
    fly_token_done(&a->token);
    a->token = *token;
    *token = (struct fly_token){0};
    a->machines = (struct provider){
        .name = "Fly",
        .client = a->machines_client,
        .headers = {{"Authorization", a->token.machines}},
        .header_count = 1,
        .secret = a->token.pieces,
        .pace = a->pace,
    };
    a->graphql = a->machines;
    a->graphql.client = a->api_client;
    a->graphql.headers[0].value = a->token.graphql;
}

/* *ret_refused: it is the token that Fly doesn't take. */
static int find_app(struct fly_account *a, bool *ret_refused, struct error *err)
{
    int status = 0;
    const struct wait wait = wait_of(a, SEARCH_TIMEOUT_NS);
    const struct app_search search = {
        .machines = &a->machines,
        .graphql = &a->graphql,
        .name = a->named_app,
        .organisation = a->organisation,
        .state_file = a->state_file,
    };
    if (app_find(&search, &wait, &a->app, &status, err) == 0)
        return 0;
    *ret_refused = status == STATUS_UNAUTHORIZED;
    if (err->code == ERR_TIMEOUT) /* which is nobody's limit but ours */
        return error_recast(err, ERR_UNAVAILABLE, "Fly is too slow to answer");
    return -1;
}

static int find_app_as(struct fly_account *a, struct fly_token *token, bool *ret_refused, struct error *err)
{
    speak_as(a, token);
    return find_app(a, ret_refused, err);
}

/* Finds, or else gets, what a person logs in with. NULL: there is nothing, and err says why not. */
static char *login_program(const struct fly_account *a, struct error *err)
{
    char *path = cli_find(a->cli, a->install_dir);
    if (path)
        return path;
    if (!cli_name_is_usual(a->cli)) {
        error_set(err, ERR_UNAVAILABLE, "there is no %.200s (--fly-cli)", a->cli);
    } else if (!a->auto_install) {
        error_set(err, ERR_UNAVAILABLE, "AUTO_INSTALL_FLYCTL says not to install it");
    } else {
        const struct wait wait = wait_of(a, INSTALL_TIMEOUT_NS);
        const struct cli_release release = {
            .api_base = a->api_base, .ca_file = a->ca_file, .install_dir = a->install_dir};
        if (cli_install(&release, &wait, err) == 0)
            return cli_find(a->cli, a->install_dir);
        error_prefix(err, "it can't be installed from here");
    }
    return NULL;
}

static int tell_login(const struct fly_account *a, const char *what, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_free) char *program = login_program(a, &why);
    if (program)
        return error_set(err, ERR_DENIED, "%s: run `%s auth login`, or set FLY_API_TOKEN", what, program);
    return error_set(err, ERR_DENIED,
                     "%s: set FLY_API_TOKEN, or install flyctl (fly.io/docs/flyctl/install) and run "
                     "`fly auth login`; %s",
                     what, why.msg);
}

static int find_by_login(struct fly_account *a, struct error *err)
{
    struct fly_token token = {0};
    bool refused = false;
    int found = fly_token_of_login(a->config_dir, &token, err);
    if (found < 0)
        return -1;
    if (found > 0 && (find_app_as(a, &token, &refused, err) == 0 || !refused))
        return a->app ? 0 : -1;
    const struct wait wait = wait_of(a, SEARCH_TIMEOUT_NS);
    _cleanup_(cleanup_free) char *program = cli_find(a->cli, a->install_dir);
    found = program ? cli_token(program, &wait, &token) : 0;
    if (found > 0 && (find_app_as(a, &token, &refused, err) == 0 || !refused))
        return a->app ? 0 : -1;
    return tell_login(a, refused ? "Fly doesn't take the login any more" : "Fly needs a login", err);
}

static int find_by_given(struct fly_account *a, struct error *err)
{
    bool refused = false;
    if (find_app(a, &refused, err) == 0)
        return 0;
    return refused ? error_prefix(err, "Fly refuses the token (--fly-token, FLY_API_TOKEN)") : -1;
}

static void *open_it(void *arg)
{
    struct fly_account *a = arg;
    struct error why = ERROR_INIT;
    const int failed = a->token_given ? find_by_given(a, &why) : find_by_login(a, &why);
    pthread_mutex_lock(&a->lock);
    a->is_open = failed == 0;
    attempt_end(&a->opening, failed ? &why : NULL);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* --- what callers do --- */

int fly_account_open(struct fly_account *a, const struct wait *wait, struct error *err)
{
    int failed = 0;
    pthread_mutex_lock(&a->lock);
    while (failed == 0 && !a->is_open)
        failed = attempt_by_thread(&a->opening, &a->lock, open_it, a, wait, err);
    pthread_mutex_unlock(&a->lock);
    return failed;
}

const struct provider *fly_account_machines(const struct fly_account *a)
{
    return &a->machines;
}

const char *fly_account_app(const struct fly_account *a)
{
    return a->app;
}

/* --- making it --- */

struct fly_account *fly_account_free(struct fly_account *a)
{
    if (!a)
        return NULL;
    cancel_fire(a->end, ERR_CANCELLED);
    attempt_finish(&a->opening);
    http_client_free(a->api_client);
    http_client_free(a->machines_client);
    pace_free(a->pace);
    pthread_mutex_destroy(&a->lock);
    cancel_unref(a->end);
    fly_token_done(&a->token);
    free(a->named_app);
    free(a->organisation);
    free(a->cli);
    free(a->install_dir);
    free(a->config_dir);
    free(a->state_file);
    free(a->api_base);
    free(a->ca_file);
    free(a->app);
    free(a);
    return NULL;
}

static int check_options(const struct fly_account_options *o, struct error *err)
{
    if (o->app && !app_name_is_valid(o->app))
        return error_set(
            err, ERR_INVALID,
            "--fly-app %.80s is the name of no app: it has letters, digits and dashes, at most 63", o->app);
    if (o->organisation && !app_name_is_valid(o->organisation))
        return error_set(err, ERR_INVALID, "FLY_ORG=%.80s is no organisation's slug", o->organisation);
    if (o->state_file && !path_is_absolute(o->state_file))
        return error_set(err, ERR_INVALID, "KILNTAINERS_FLY_STATE_FILE must be an absolute path");
    return 0;
}

static int make_clients(struct fly_account *a, const struct fly_account_options *o, struct error *err)
{
    _cleanup_(cleanup_free) char *machines =
        provider_base("FLY_FLAPS_BASE_URL", o->machines_base ? o->machines_base : MACHINES_BASE, err);
    a->api_base =
        machines ? provider_base("FLY_API_BASE_URL", o->api_base ? o->api_base : API_BASE, err) : NULL;
    if (a->api_base)
        a->api_client =
            http_client_new(&(struct http_address){.url = a->api_base, .ca_file = a->ca_file}, err);
    if (a->api_client)
        a->machines_client =
            http_client_new(&(struct http_address){.url = machines, .ca_file = a->ca_file}, err);
    return a->machines_client ? 0 : -1;
}

static int take_token(struct fly_account *a, const char *given, struct error *err)
{
    struct fly_token token;
    if (given && fly_token_parse("--fly-token, or FLY_API_TOKEN,", given, &token, err) < 0)
        return -1;
    a->token_given = given != NULL;
    if (given)
        speak_as(a, &token);
    return 0;
}

struct fly_account *fly_account_new(const struct fly_account_options *o, struct error *err)
{
    struct fly_account *a = xcalloc(1, sizeof(*a));
    a->named_app = xstrdup(o->app);
    a->organisation = xstrdup(o->organisation);
    a->cli = xstrdup(o->cli ? o->cli : "fly");
    a->auto_install = o->auto_install;
    a->install_dir = xstrdup(o->install_dir);
    a->config_dir = xstrdup(o->config_dir);
    a->state_file = state_file_place(o->state_file);
    a->ca_file = xstrdup(o->ca_file);
    a->pace = pace_new();
    a->end = cancel_new();
    pthread_mutex_init(&a->lock, NULL);
    if (check_options(o, err) < 0 || make_clients(a, o, err) < 0 || take_token(a, o->token, err) < 0)
        return fly_account_free(a);
    return a;
}
