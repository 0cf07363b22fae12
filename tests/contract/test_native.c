/* The contract, held against the native backend. With the argument "disk": whose computers' disks have a cap,
 * and permanent ones outlive their server; "keep": only the latter.
 * With SANDBOX_TEST_WEAK in the environment: weak ones will do, where no others are to be had. */
#include "contract/contract.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "backends/native/native.h"

static bool weak_will_do(void)
{
    return getenv("SANDBOX_TEST_WEAK") != NULL;
}

static struct backend *make(const char *state_dir)
{
    const struct native_options options = {.state_dir = state_dir,
                                           .memory_bytes = 512 * MIB,
                                           .pids = 512,
                                           .cpus = 1.0,
                                           .allow_weak = weak_will_do()};
    return native_new(&options);
}

static struct backend *make_keeping(const char *state_dir)
{
    const struct native_options options = {
        .state_dir = state_dir, .keep_running = true, .allow_weak = weak_will_do()};
    return native_new(&options);
}

static struct backend *make_capped(const char *state_dir)
{
    const struct native_options options = {
        .state_dir = state_dir, .disk_bytes = 256 * MIB, .keep_running = true, .allow_weak = weak_will_do()};
    return native_new(&options);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *argument, *name;
        backend_make_fn *make;
    } kinds[] = {
        {"", "contract: native", make},
        {"disk", "contract: native, disk", make_capped},
        {"keep", "contract: native, keep", make_keeping},
    };
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(argc > 1 ? argv[1] : "", kinds[i].argument) == 0)
            return contract_run(kinds[i].name, kinds[i].make);
    return 1;
}
