/* The contract, held against a real engine: the one that DOCKER_HOST or CONTAINER_HOST names, with the image
 * of SANDBOX_TEST_IMAGE. With "plain" as its argument: as if our program could run in none of its containers.
 */
#include "contract/contract.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/engine/engine.h"

#define EXIT_SKIPPED 77

static bool without_guest;

static struct backend *make(const char *state_dir)
{
    const char *engine = getenv("SANDBOX_ENGINE");
    struct error err = ERROR_INIT;
    const struct engine_options options = {
        .engine = engine ? engine : "docker",
        .docker_host = getenv("DOCKER_HOST"),
        .container_host = getenv("CONTAINER_HOST"),
        .image = getenv("SANDBOX_TEST_IMAGE"),
        .network = false,
        .state_dir = state_dir,
        .without_guest = without_guest,
    };
    struct backend *b = engine_new(&options, &err);
    if (!b)
        fail_msg("%s", err.msg);
    return b;
}

int main(int argc, char **argv)
{
    without_guest = argc > 1 && strcmp(argv[1], "plain") == 0;
    if (!getenv("DOCKER_HOST") && !getenv("CONTAINER_HOST")) {
        printf("skipped: no engine is named by DOCKER_HOST or CONTAINER_HOST\n");
        return EXIT_SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN);
    return contract_run(without_guest ? "contract: engine, plain" : "contract: engine", make);
}
