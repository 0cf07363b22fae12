/* A copy of the options that outlives the caller's. */
#include <stdlib.h>

#include "backends/engine/private.h"
#include "base/mem.h"

void engine_options_copy(const struct engine_options *from, struct engine_options *ret)
{
    *ret = *from;
    ret->engine = xstrdup(from->engine);
    ret->docker_host = xstrdup(from->docker_host);
    ret->container_host = xstrdup(from->container_host);
    ret->context = xstrdup(from->context);
    ret->cert_path = xstrdup(from->cert_path);
    ret->image = xstrdup(from->image);
    ret->platform = xstrdup(from->platform);
    ret->shell = xstrdup(from->shell);
    ret->state_dir = xstrdup(from->state_dir);
    ret->run_flags = from->run_flags ? strv_copy(from->run_flags) : NULL;
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
    free_string(o->context);
    free_string(o->cert_path);
    free_string(o->image);
    free_string(o->platform);
    free_string(o->shell);
    free_string(o->state_dir);
    strv_free((char **)(uintptr_t)o->run_flags);
}
