/* The contract, held against E2B, or its fake: what E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY name. */
#include "contract/contract.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/e2b/e2b.h"

#define EXIT_SKIPPED 77
#define BRIEF_S 3.0 /* each command is a process that a fake starts, on a machine that may be busy */

static struct backend *make(const char *state_dir)
{
    struct error err = ERROR_INIT;
    struct backend *b = e2b_new(
        &(struct e2b_options){
            .api_key = getenv("E2B_API_KEY"),
            .api_url = getenv("E2B_API_URL"),
            .sandbox_url = getenv("E2B_SANDBOX_URL"),
            .ca_file = getenv("NODE_EXTRA_CA_CERTS"),
            .lifetime_s = 600,
        },
        &err);
    if (!b)
        fail_msg("%s", err.msg);
    return b;
}

int main(void)
{
    if (!getenv("E2B_API_URL")) {
        printf("skipped: no E2B_API_URL names a fake\n");
        return EXIT_SKIPPED;
    }
    contract_brief_s = BRIEF_S;
    signal(SIGPIPE, SIG_IGN);
    return contract_run("contract: e2b", make);
}
