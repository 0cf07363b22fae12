/* Inside of tools/: the set of tools, and what one tool is. */
#pragma once

#include "tools/bind.h"
#include "tools/tools.h"

struct toolset {
    enum personality personality;
    double default_timeout_s;
    size_t output_limit;
    char *limits; /* the computers' limits in words */
    bool lifecycle;
    unsigned options;    /* of enum computer_option: what computers can have of their own */
    bool has_network;    /* computers can have one */
    bool own_program;    /* see BACKEND_OWN_PROGRAM */
    const char *backend; /* its name */
    char *version;       /* of this server */
    struct buf list;     /* the array of tools/list */
};

struct tool {
    const char *name;
    unsigned personalities;      /* 1 << enum personality */
    bool lifecycle;              /* only with the lifecycle tools */
    const unsigned char *schema; /* JSON of the whole tool, with a description to be filled in */
    const size_t *schema_size;
    int (*call)(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err);
};

/* exec.c, lifecycle.c, listing.c: as toolset_call. */
int tool_exec(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err);
int tool_create(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err);
int tool_restart(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err);
int tool_reset(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err);
int tool_delete(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err);
int tool_cancel(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err);
int tool_list(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err);

/* What the argument `temporary`, as it was bound, says. */
static inline enum lifetime lifetime_of(int temporary)
{
    if (temporary == CHOICE_NONE)
        return LIFETIME_AS_IS;
    return temporary ? LIFETIME_TEMPORARY : LIFETIME_PERMANENT;
}
