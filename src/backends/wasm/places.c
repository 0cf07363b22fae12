/* See places.h. */
#include "backends/wasm/places.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/wasm/wasm.h"
#include "base/mem.h"
#include "base/path.h"

#define FOLDER "mcp-sandbox-computer-vm-for-ai/wasm"
#define LIBRARY "libwasmtime.so"
#define MODULE "busybox.wasm"
#ifdef __aarch64__
#define PYTHON_FOLDER "linux-aarch64"
#else
#define PYTHON_FOLDER "linux-x86_64"
#endif

/* The folder above that of this program, malloced; NULL: it can't be known. */
static char *prefix(void)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n <= 0)
        return NULL;
    path[n] = '\0';
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return NULL;
        *slash = '\0';
    }
    return xstrdup(path);
}

/* FOLDER/NAME if it is there, else NULL. Frees the folder. */
static char *in_folder(char *folder, const char *name)
{
    char *path = folder ? path_join(folder, name) : NULL;
    free(folder);
    if (path && access(path, R_OK) == 0)
        return path;
    free(path);
    return NULL;
}

static char *beside_program(void)
{
    _cleanup_(cleanup_free) char *up = prefix();
    return up ? xasprintf("%s/lib/" FOLDER, up) : NULL;
}

static char *of_user(void)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && path_is_absolute(data))
        return path_join(data, FOLDER);
    return home && path_is_absolute(home) ? path_join(home, ".local/share/" FOLDER) : NULL;
}

static char *find_ours(const char *name)
{
    const char *given = getenv(WASM_DIR_VARIABLE);
    if (given && *given)
        return in_folder(xstrdup(given), name);
    char *path = in_folder(beside_program(), name);
    if (!path)
        path = in_folder(of_user(), name);
    return path ? path : in_folder(xstrdup("/usr/local/lib/" FOLDER), name);
}

/* As a package of Python has put it beside this program. */
static char *find_pythons(void)
{
    _cleanup_(cleanup_free) char *up = prefix();
    if (!up)
        return NULL;
    _cleanup_(cleanup_free) char *pattern =
        xasprintf("%s/lib/python3.*/site-packages/wasmtime/" PYTHON_FOLDER "/_libwasmtime.so", up);
    glob_t found = {0};
    char *path = glob(pattern, GLOB_NOSORT, NULL, &found) == 0 ? xstrdup(found.gl_pathv[0]) : NULL;
    globfree(&found);
    return path;
}

char *places_library(struct error *err)
{
    const char *given = getenv("WASMTIME_LIBRARY");
    if (given && *given) {
        if (access(given, R_OK) == 0)
            return xstrdup(given);
        error_errno(err, ERR_UNAVAILABLE, errno, "WASMTIME_LIBRARY is %s, which can't be read", given);
        return NULL;
    }
    char *path = find_ours(LIBRARY);
    if (!path && !getenv(WASM_DIR_VARIABLE))
        path = find_pythons();
    return path ? path : xstrdup(LIBRARY);
}

char *places_busybox(struct error *err)
{
    char *path = find_ours(MODULE);
    if (!path)
        error_set(err, ERR_UNAVAILABLE,
                  "the module of go_busybox, " MODULE ", isn't installed: " PLACES_MEND);
    return path;
}
