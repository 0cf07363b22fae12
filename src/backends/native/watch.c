/* Looks cost at most a twentieth of the time, however many files there are. */
#include "backends/native/watch.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/fd.h"

#define PAUSE_NS (250 * NSEC_PER_MSEC)
#define PAUSE_PER_COST 20

/* What can't be measured now counts as it did. */
static void look(struct watch *w, const char *folder, const struct usage *limit)
{
    struct usage used;
    const int64_t begin = clock_now();
    _cleanup_fd_ int fd = open(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && usage_measure(fd, w->name ? w->name : "native", limit->files * 2, &used, NULL) == 0) {
        w->bytes = used.bytes;
        w->files = used.files;
    }
    const int64_t end = clock_now(), pause = PAUSE_PER_COST * (end - begin);
    w->next = end + (pause > PAUSE_NS ? pause : PAUSE_NS);
}

static struct usage last_seen(struct watch *w)
{
    return (struct usage){.bytes = w->bytes, .files = w->files};
}

void watcher_begin(struct watcher *r, struct watch *watch, const char *folder, const struct usage *limit)
{
    *r = (struct watcher){.watch = watch, .folder = folder, .limit = *limit};
    if (watch->next == 0 && !atomic_exchange(&watch->is_looked_at, true)) {
        look(watch, folder, limit); /* it may have files from an earlier life */
        watch->is_looked_at = false;
    }
    r->before = last_seen(watch);
    r->next = clock_now() + PAUSE_NS;
}

int64_t watcher_next(const struct watcher *r, int64_t deadline)
{
    return r->watch && r->next < deadline ? r->next : deadline;
}

static bool grew_beyond(const struct usage *now, const struct usage *before, const struct usage *limit)
{
    return (now->bytes > limit->bytes && (now->bytes > before->bytes || now->bytes == USAGE_UNKNOWN)) ||
           (now->files > limit->files && now->files > before->files);
}

bool watcher_look(struct watcher *r)
{
    struct watch *w = r->watch;
    if (!w || clock_now() < r->next)
        return false;
    if (clock_now() >= w->next && !atomic_exchange(&w->is_looked_at, true)) {
        look(w, r->folder, &r->limit);
        w->is_looked_at = false;
    }
    const struct usage now = last_seen(w);
    bool is_over = grew_beyond(&now, &r->before, &r->limit);
    r->before = now;
    r->next = w->next > clock_now() ? w->next : clock_now() + PAUSE_NS;
    return is_over;
}
