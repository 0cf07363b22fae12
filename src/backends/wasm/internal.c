/* See wire.h. Such a process ends by _exit(2): what the library does at an exit isn't needed, and takes a
 * millisecond. */
#include "backends/wasm/internal.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "backends/wasm/runtime.h"
#include "backends/wasm/wasm.h"
#include "base/macros.h"

/* Whoever started us reads fd 2 as long as it lives: without it we are not wanted. */
static int tie_to_parent(struct error *err)
{
    struct pollfd p = {.fd = STDERR_FILENO};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return poll(&p, 1, 0) == 0 ? 0 : error_set(err, ERR_CANCELLED, "nobody listens");
}

int internal_check(const char *library, struct error *err)
{
    int major;
    if (runtime_load(library, err) < 0 || runtime_major(runtime_new(false), &major, err) < 0)
        return -1;
    dprintf(STDERR_FILENO, "%d", major);
    return 0;
}

static int check(const char *library, bool fuel, struct error *err)
{
    (void)fuel;
    return tie_to_parent(err) < 0 ? -1 : internal_check(library, err);
}

static int compile(const char *library, bool fuel, struct error *err)
{
    return tie_to_parent(err) < 0 ? -1 : internal_compile(library, fuel, err);
}

static const struct {
    const char *name;
    int (*run)(const char *library, bool fuel, struct error *err);
} kinds[] = {{"check", check}, {"compile", compile}, {"zygote", internal_zygote}};

int wasm_internal(int argc, char *const *argv)
{
    if (argc < 2 || strcmp(argv[1], WASM_INTERNAL) != 0)
        return -1;
    struct error err = {.code = ERR_INVALID, .msg = "this is for the server's own use"};
    int result = -1;
    for (size_t i = 0; argc == 5 && i < ARRAY_LEN(kinds); i++)
        if (strcmp(argv[2], kinds[i].name) == 0)
            result = kinds[i].run(argv[3], strcmp(argv[4], "fuel") == 0, &err);
    if (result < 0)
        dprintf(STDERR_FILENO, "%s", err.msg);
    _exit(result < 0);
}
