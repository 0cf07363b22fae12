/* One way for all of them: stack, mask, and nothing of the attributes left. */
#include "base/thread.h"

#include <signal.h>

#include "base/limits.h"

int thread_start(pthread_t *ret, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_t detached;
    sigset_t all;
    sigfillset(&all);
    pthread_attr_init(&attr);
    if (!ret)
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, WORKER_STACK_BYTES);
    pthread_attr_setsigmask_np(&attr, &all);
    int failed = pthread_create(ret ? ret : &detached, &attr, run, arg);
    pthread_attr_destroy(&attr);
    return failed;
}
