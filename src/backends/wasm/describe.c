/* What is said of such computers, for an agent that has never seen one: most of what it knows of shells and
 * of Linux isn't there. */
#include <stdlib.h>

#include "backends/native/describe.h"
#include "backends/wasm/jail.h"
#include "backends/wasm/private.h"
#include "base/mem.h"

/* Of the module that `make wasm` installs: each was run. Left out is what is there in name only (awk, wget,
 * xargs and sh fail). */
#define APPLETS                                                                                              \
    "cat cp cut diff echo find grep gunzip gzip head ls mkdir mv nproc printf pwd rm rmdir sed sleep sort "  \
    "tail tar tr uniq wc"
/* Without a comma, since the place comes before. */
#define BUSYBOX "a WebAssembly sandbox with the tools of a BusyBox written in Go, and nothing else: " APPLETS
#define INDEPENDENT                                                                                          \
    "- Each call is one run and independent: files persist within the computer, nothing else does, and "     \
    "nothing runs on after the call.\n"                                                                      \
    "- There are no packages, no other programs, no processes, users or devices.\n"                          \
    "- Use relative paths: where a working_directory is given (it is made if need be), what lies directly "  \
    "in / can't be found by its absolute path."
#define NO_SHELL                                                                                             \
    "- There is no shell, so no pipes, redirections, variables or globs, and `command` is refused: give "    \
    "`args`, "

#define NO_LANDLOCK                                                                                          \
    "this kernel has no Landlock, so that of what keeps a module in its folder one layer is missing: use "   \
    "Linux 5.13 or newer with landlock among its security modules"

static char *word_environment(const struct wasm *w)
{
    return w->module ? xasprintf("a WebAssembly sandbox that runs one program, the module %s", w->stem)
                     : xstrdup(BUSYBOX);
}

static char *word_usage(const struct wasm *w)
{
    if (!w->module)
        return xstrdup(NO_SHELL "such as [\"ls\", \"-l\", \"docs\"].\n"
                                "- To write a file, pass its lines as stdin to args [\"sed\", \"-n\", \"w "
                                "notes.txt\"]. Pass what another tool is to read as stdin.\n" INDEPENDENT);
    if (!w->shell)
        return xasprintf(NO_SHELL "which are what comes after the program's name; none is right, too.\n"
                                  "%s",
                         INDEPENDENT);
    return xasprintf(
        "- `command` is run by the program's own %s -c; `args` are what comes after the program's "
        "name.\n%s",
        w->shell, INDEPENDENT);
}

static char *word_limits(const struct wasm *w)
{
    _cleanup_(cleanup_free) char *memory = describe_size(w->memory_bytes);
    _cleanup_(cleanup_free) char *disk = w->disk.bytes ? describe_size(w->disk.bytes) : NULL;
    _cleanup_(cleanup_free) char *fuel =
        w->fuel ? xasprintf(", %lld instructions", (long long)w->fuel) : xstrdup("");
    return xasprintf("%s of memory and one CPU%s for each command%s%s%s", memory, fuel, disk ? "; " : "",
                     disk ? disk : "", disk ? " of disk (watched while commands run, not enforced)" : "");
}

void wasm_describe_init(struct wasm *w)
{
    w->environment = word_environment(w);
    w->usage = word_usage(w);
    w->limits = word_limits(w);
}

void wasm_describe_done(struct wasm *w)
{
    free(w->environment);
    free(w->usage);
    free(w->limits);
}

void wasm_describe(const struct backend *b, struct backend_description *ret)
{
    const struct wasm *w = (const struct wasm *)b;
    *ret = (struct backend_description){
        .environment = w->environment,
        .place = "as its only user and from /",
        .shell = w->shell ? w->shell : "/none",
        .usage = w->usage,
        .network = "no network",
        .limits = w->limits,
        .weaker = jail_has_landlock() ? NULL : NO_LANDLOCK,
    };
}

int wasm_shell(const struct wasm *w, const char **ret, struct error *err)
{
    if (!w->shell)
        return error_set(err, ERR_SHELL_NOT_FOUND,
                         "the module %s has no shell that could run a `command`: give `args` instead, the "
                         "program and its arguments one by one, such as %s%s",
                         w->stem, w->module ? "[\"--help\"]" : "[\"ls\", \"-l\", \"/\"]",
                         w->module ? "; if the module has a shell, start the server with --shell" : "");
    *ret = w->shell;
    return 0;
}
