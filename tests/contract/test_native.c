/* The contract, held against the native backend. With the argument "disk": whose computers' disks have a cap.
 */
#include "contract/contract.h"

#include <signal.h>
#include <string.h>

#include "backends/native/native.h"

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
    signal(SIGPIPE, SIG_IGN);
    return is_capped ? contract_run("contract: native, disk", make_capped)
                     : contract_run("contract: native", make);
}
