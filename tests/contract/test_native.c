/* The contract, held against the native backend. */
#include "contract/contract.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "backends/native/native.h"
#include "base/clock.h"

#define EXIT_SKIPPED 77

int main(void)
{
    if (geteuid() != 0) {
        printf("skipped: the native backend needs root\n");
        return EXIT_SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN);
    char *state_dir = contract_state_dir();
    const struct native_options options = {
        .state_dir = state_dir, .memory_bytes = 512 * MIB, .pids = 512, .cpus = 1.0};
    struct backend *backend = native_new(&options);
    const struct wait wait = {.deadline = clock_deadline_after(30)};
    struct error err = ERROR_INIT;
    if (backend->ops->probe(backend, &wait, &err) < 0) {
        printf("the native backend does not work here: %s\n", err.msg);
        return 1;
    }
    return contract_run("contract: native", backend, state_dir);
}
