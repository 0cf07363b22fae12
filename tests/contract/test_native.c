/* The contract, held against the native backend. */
#include "contract/contract.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "backends/native/native.h"

#define EXIT_SKIPPED 77

static struct backend *make(const char *state_dir)
{
    const struct native_options options = {
        .state_dir = state_dir, .memory_bytes = 512 * MIB, .pids = 512, .cpus = 1.0};
    return native_new(&options);
}

int main(void)
{
    if (geteuid() != 0) {
        printf("skipped: the native backend needs root\n");
        return EXIT_SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN);
    return contract_run("contract: native", make);
}
