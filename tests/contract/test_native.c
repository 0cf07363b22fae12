/* The contract, held against the native backend. With the argument "disk": whose computers' disks have a cap.
 */
#include "contract/contract.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/native/native.h"

#define EXIT_SKIPPED 77

static struct backend *make(const char *state_dir)
{
    const struct native_options options = {
        .state_dir = state_dir, .memory_bytes = 512 * MIB, .pids = 512, .cpus = 1.0};
    return native_new(&options);
}

static struct backend *make_capped(const char *state_dir)
{
    const struct native_options options = {.state_dir = state_dir, .disk_bytes = 256 * MIB};
    return native_new(&options);
}

int main(int argc, char **argv)
{
    bool is_capped = argc > 1 && strcmp(argv[1], "disk") == 0;
    if (geteuid() != 0) {
        printf("skipped: the native backend needs root\n");
        return EXIT_SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN);
    return is_capped ? contract_run("contract: native, disk", make_capped)
                     : contract_run("contract: native", make);
}
