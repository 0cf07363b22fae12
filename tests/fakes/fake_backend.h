/* A backend for tests: "computers" are folders, and commands are ordinary processes of this machine that
 * start in theirs. It isolates nothing, so tests give it nothing but commands of their own. It keeps the
 * whole contract of backends/backend.h, and hooks let a test make any step of it slow or fail. */
#pragma once

#include "backends/backend.h"

/* What happens instead of, or before, the fake's own work. Each may be NULL. Called on the thread of the
 * backend call. */
struct fake_hooks {
    /* Before it is looked whether anything works, a folder is prepared, or a computer made, brought back,
     * removed or reaped: -1 with an error lets the step fail. */
    int (*probe)(void *ctx, const struct wait *wait, struct error *err);
    int (*prepare)(void *ctx, const char *folder, struct error *err);
    int (*create)(void *ctx, const struct computer_spec *spec, const struct wait *wait, struct error *err);
    int (*attach)(void *ctx, const struct computer_spec *spec, const struct wait *wait, struct error *err);
    int (*remove)(void *ctx, const char *id, struct error *err);
    int (*reap)(void *ctx, const struct computer_spec *spec, const json_t *data, struct error *err);
    /* Twice, before and after the folder was moved. */
    int (*give_id)(void *ctx, const struct computer_spec *spec, bool moved, struct error *err);
    int (*restart)(void *ctx, const char *id, const struct wait *wait, struct error *err);
    /* Twice, before and after the old one has lost its name. */
    int (*take_over)(void *ctx, const struct computer_spec *spec, bool moved, struct error *err);
    bool (*paused)(void *ctx, const char *id); /* NULL: nobody can be */
    /* What exists beside the state directory; NULL: nothing can. As the ops. */
    int (*list)(void *ctx, backend_found_fn *fn, void *fn_ctx, struct error *err);
    int (*find)(void *ctx, const struct computer_spec *spec, backend_found_fn *fn, void *fn_ctx,
                struct error *err);
    /* Instead of running a command. */
    int (*exec)(void *ctx, const char *id, const struct exec_request *request, struct exec_result *ret,
                struct error *err);
    void *ctx;
    bool needs_id;       /* computers need their id from birth */
    bool takes_id;       /* BACKEND_TAKES_ID */
    bool never_restarts; /* they can't be, or replaced */
    int ends_at_once;    /* as of the ops */
    unsigned options;    /* of enum computer_option: what a computer may have of its own. It is only told */
    unsigned late_options;
    int (*begin)(void *ctx, const struct computer_options *options, struct error *err);
};

struct fake_counts {
    /* calls that succeeded */
    int prepared, created, named, attached, killed, detached, removed, reaped, settled, restarted, replaced;
    int live; /* instances */
};

/* `capabilities`: of enum backend_capability. */
struct backend *fake_backend_new(unsigned capabilities, const struct fake_hooks *hooks);
struct fake_counts fake_backend_counts(struct backend *b);
/* The computer ends by itself: its processes die, its calls fail with ERR_GONE. "": all without an id. */
void fake_backend_crash(struct backend *b, const char *id);
