/* Which of many processes have ended. The kernel keeps the list of those that did (epoll), so that a look
 * costs one call that doesn't depend on how many live. Any thread. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct deaths {
    pthread_mutex_t lock;
    int epoll; /* -1: there is none to be had, and each process is asked by itself */
};
/* One process; all of it zero at first. Under the lock. */
struct death {
    bool is_awaited, is_known;
};

void deaths_init(struct deaths *d);
void deaths_done(struct deaths *d);
/* Whether the process of this pidfd has ended by now. From the first call on `one` belongs to that pidfd,
 * until deaths_forget(), which comes before it is closed. Never blocks. */
bool deaths_tell(struct deaths *d, struct death *one, int pidfd);
void deaths_forget(struct deaths *d, struct death *one, int pidfd);
