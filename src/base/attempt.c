/* The event is a cancel token: it happens once, and any number may poll it. */
#include "base/attempt.h"

#include <poll.h>

#include "base/thread.h"

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

/* The thread before has given back the lock, so it is over, or nearly. */
static int begin_locked(struct attempt *a, void *(*run)(void *arg), void *arg, struct error *err)
{
    struct error why = ERROR_INIT;
    attempt_finish(a);
    const int failed = thread_start(&a->thread, run, arg);
    a->has_thread = failed == 0;
    if (!failed)
        return 0;
    error_errno(&why, ERR_LIMIT, failed, "start a thread");
    attempt_end(a, &why);
    return error_set(err, why.code, "%s", why.msg);
}

int attempt_by_thread(struct attempt *a, pthread_mutex_t *lock, void *(*run)(void *arg), void *arg,
                      const struct wait *wait, struct error *err)
{
    int joined = attempt_join(a, lock, wait, err);
    if (joined == 0)
        joined = begin_locked(a, run, arg, err) < 0 ? -1 : attempt_join(a, lock, wait, err);
    return joined < 0 ? -1 : 0;
}

void attempt_finish(struct attempt *a)
{
    if (a->has_thread)
        pthread_join(a->thread, NULL);
    a->has_thread = false;
}
