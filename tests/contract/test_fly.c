/* The contract, held against Fly Machines, or their fake: what FLY_FLAPS_BASE_URL, FLY_API_TOKEN and
 * FLY_APP_NAME name. */
#include "contract/contract.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/fly/fly.h"

#define EXIT_SKIPPED 77
#define BRIEF_S 3.0            /* each exec is a process that a fake starts, on a machine that may be busy */
#define CALLS_EACH_S 1000.0    /* the fake has no limits either */
#define OWN_MEMORY (768 * MIB) /* Fly has it in steps */

static struct backend *make(const char *state_dir)
{
    struct error err = ERROR_INIT;
    struct backend *b = fly_new(
        &(struct fly_options){
            .account = {.token = getenv("FLY_API_TOKEN"),
                        .app = getenv("FLY_APP_NAME"),
                        .api_base = getenv("FLY_API_BASE_URL"),
                        .machines_base = getenv("FLY_FLAPS_BASE_URL"),
                        .ca_file = getenv("NODE_EXTRA_CA_CERTS")},
            .lease_s = 600,
            .calls_each_s = CALLS_EACH_S,
        },
        &err);
    if (!b)
        fail_msg("%s", err.msg);
    return b;
}

int main(void)
{
    if (!getenv("FLY_FLAPS_BASE_URL") || !getenv("FLY_APP_NAME")) {
        printf("skipped: no FLY_FLAPS_BASE_URL and FLY_APP_NAME name a fake and an app\n");
        return EXIT_SKIPPED;
    }
    contract_brief_s = BRIEF_S;
    contract_own_memory = OWN_MEMORY;
    signal(SIGPIPE, SIG_IGN);
    return contract_run("contract: fly", make);
}
