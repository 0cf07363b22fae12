/* A copy of the options that outlives the caller's. */
#include <stdlib.h>
#include <string.h>

#include "backends/engine/private.h"
#include "base/mem.h"

static char **copy_list(char *const *list)
{
    size_t n = 0;
    if (!list)
        return NULL;
    while (list[n])
        n++;
    char **copy = xcalloc(n + 1, sizeof(char *));
    for (size_t i = 0; i < n; i++)
        copy[i] = xstrdup(list[i]);
    return copy;
}

void engine_options_copy(const struct engine_options *from, struct engine_options *ret)
{
    *ret = *from;
    ret->engine = xstrdup(from->engine);
    ret->docker_host = xstrdup(from->docker_host);
    ret->container_host = xstrdup(from->container_host);
    ret->cert_path = xstrdup(from->cert_path);
    ret->image = xstrdup(from->image);
    ret->platform = xstrdup(from->platform);
    ret->shell = xstrdup(from->shell);
    ret->state_dir = xstrdup(from->state_dir);
    ret->run_flags = copy_list(from->run_flags);
}

static void free_string(const char *s)
{
    free((char *)(uintptr_t)s);
}

void engine_options_done(struct engine_options *o)
{
    free_string(o->engine);
    free_string(o->docker_host);
    free_string(o->container_host);
    free_string(o->cert_path);
    free_string(o->image);
    free_string(o->platform);
    free_string(o->shell);
    free_string(o->state_dir);
    char **flags = (char **)(uintptr_t)o->run_flags;
    for (char **flag = flags; flag && *flag; flag++)
        free(*flag);
    free(flags);
}
