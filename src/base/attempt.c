/* The event is a cancel token: it happens once, and any number may poll it. */
#include "base/attempt.h"

#include <poll.h>

int attempt_join(struct attempt *a, pthread_mutex_t *lock, const struct wait *wait, struct error *err)
{
    if (!a->over) {
        a->over = cancel_new();
        return 0;
    }
    _cleanup_(cleanup_cancel_unref) struct cancel *over = cancel_ref(a->over);
    int fd = cancel_fd(over);
    if (fd < 0) /* waiting would not end before the limits */
        return error_set(err, ERR_LIMIT, "the server has no descriptor left to wait with: try again later");
    pthread_mutex_unlock(lock);
    int failed = wait_fd(fd, POLLIN, wait, NULL, err);
    pthread_mutex_lock(lock);
    if (failed < 0)
        return -1;
    if (a->failure.code == ERR_NONE)
        return 1;
    if (err)
        *err = a->failure;
    return -1;
}

void attempt_end(struct attempt *a, const struct error *failure)
{
    a->failure = failure ? *failure : (struct error)ERROR_INIT;
    cancel_fire(a->over, ERR_BUSY);
    a->over = cancel_unref(a->over);
}
