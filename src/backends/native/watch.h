/* The watch over a disk that nothing enforces the limit of. Whoever runs a command looks from time to time;
 * of several at once, one. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "backends/native/usage.h"

/* One computer's. All zero is right for a new one. */
struct watch {
    const char *name; /* of what is watched in the computer's folder; NULL: "native" */
    atomic_bool is_looked_at;
    _Atomic int64_t bytes, files; /* as of the last look */
    _Atomic int64_t next;         /* no look before that */
};

/* One command's. */
struct watcher {
    struct watch *watch; /* NULL: there is nothing to watch, and all is well */
    const char *folder;  /* of the computer */
    struct usage limit, before;
    int64_t next;
};
void watcher_begin(struct watcher *r, struct watch *watch, const char *folder, const struct usage *limit);
/* When it wants to look, or `deadline` if that is earlier. */
int64_t watcher_next(const struct watcher *r, int64_t deadline);
/* Looks if it is time. True: there is more than the limit, and more than before. Who deletes is left alone.
 */
bool watcher_look(struct watcher *r);
