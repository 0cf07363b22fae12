/* Opens an account at Fly as the server does, by several threads at once, and prints what came of it as JSON:
 * for fly-account.test.mjs.
 *
 *   fly_account CALLERS SECONDS     options are told by the variables of the same names as the server's */
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fly/account.h"
#include "base/clock.h"
#include "base/macros.h"

#define CALLERS_MAX 16

struct caller {
    pthread_t thread;
    struct fly_account *account;
    double seconds;
    int failed;
    struct error err;
};

static const char *told(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void *open_it(void *arg)
{
    struct caller *c = arg;
    const struct wait wait = {.deadline = clock_deadline_after(c->seconds)};
    c->failed = fly_account_open(c->account, &wait, &c->err);
    return NULL;
}

static void print(const struct caller *c)
{
    json_t *line = c->failed
                       ? json_pack("{s:s, s:s}", "code", error_code_name(c->err.code), "error", c->err.msg)
                       : json_pack("{s:s, s:s}", "app", fly_account_app(c->account), "authorization",
                                   fly_account_machines(c->account)->headers[0].value);
    json_dumpf(line, stdout, 0);
    printf("\n");
    json_decref(line);
}

int main(int argc, char **argv)
{
    struct caller callers[CALLERS_MAX] = {0};
    struct error err = ERROR_INIT;
    const int count = argc == 3 ? atoi(argv[1]) : 0;
    if (count < 1 || count > CALLERS_MAX)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    const struct fly_account_options options = {
        .token = told("FLY_API_TOKEN"),
        .app = told("FLY_APP_NAME"),
        .organisation = told("FLY_ORG"),
        .cli = told("FLY_CLI"),
        .auto_install = told("AUTO_INSTALL_FLYCTL") && strcmp(told("AUTO_INSTALL_FLYCTL"), "true") == 0,
        .install_dir = told("FLYCTL_INSTALL"),
        .config_dir = told("FLY_CONFIG_DIR"),
        .state_file = told("KILNTAINERS_FLY_STATE_FILE"),
        .api_base = told("FLY_API_BASE_URL"),
        .machines_base = told("FLY_FLAPS_BASE_URL"),
        .ca_file = told("SSL_CERT_FILE"),
    };
    struct fly_account *a = fly_account_new(&options, &err);
    if (!a) {
        print(&(struct caller){.failed = -1, .err = err});
        return 1;
    }
    for (int i = 0; i < count; i++) {
        callers[i] = (struct caller){.account = a, .seconds = atof(argv[2])};
        pthread_create(&callers[i].thread, NULL, open_it, &callers[i]);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(callers[i].thread, NULL);
        print(&callers[i]);
    }
    fly_account_free(a);
    return 0;
}
