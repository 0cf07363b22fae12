/* Inside of tools/: the set of tools, and what one tool is. */
#pragma once

#include "tools/tools.h"

struct toolset {
    enum personality personality;
    double default_timeout_s;
    size_t output_limit;
    char *limits;    /* the computers' limits in words */
    struct buf list; /* the array of tools/list */
};

struct tool {
    const char *name;
    unsigned personalities;      /* 1 << enum personality */
    const unsigned char *schema; /* JSON of the whole tool, with a description to be filled in */
    const size_t *schema_size;
    int (*call)(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err);
};

/* exec.c: as toolset_call. */
int tool_exec(const struct toolset *t, const struct tool_call *call, struct buf *ret, struct error *err);
