/* The contract, held against Modal, or its fake: what MODAL_SERVER_URL, MODAL_TOKEN_ID and MODAL_TOKEN_SECRET
 * name. */
#include "contract/contract.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/modal/modal.h"

#define EXIT_SKIPPED 77
#define BRIEF_S 3.0 /* each command is a process that a fake starts, on a machine that may be busy */

static int generation_2 = 1;

static struct backend *make(const char *state_dir)
{
    (void)state_dir;
    struct error err = ERROR_INIT;
    struct backend *b = modal_new(
        &(struct modal_options){
            .account = {.token_id = getenv("MODAL_TOKEN_ID"),
                        .token_secret = getenv("MODAL_TOKEN_SECRET"),
                        .config_path = "/nonexistent",
                        .server_url = getenv("MODAL_SERVER_URL"),
                        .app_name = "contract",
                        .ca_file = getenv("NODE_EXTRA_CA_CERTS"),
                        .generation_2 = generation_2},
            .lifetime_s = 600,
        },
        &err);
    if (!b)
        fail_msg("%s", err.msg);
    return b;
}

int main(void)
{
    const char *v2 = getenv("MODAL_SANDBOX_V2");
    if (!getenv("MODAL_SERVER_URL")) {
        printf("skipped: no MODAL_SERVER_URL names a fake\n");
        return EXIT_SKIPPED;
    }
    generation_2 = !v2 || *v2 != '0';
    contract_brief_s = BRIEF_S;
    signal(SIGPIPE, SIG_IGN);
    return contract_run("contract: modal", make);
}
