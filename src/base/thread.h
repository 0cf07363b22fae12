/* Threads beside the loop's: with a small stack, and no signal is delivered to them. */
#pragma once

#include <pthread.h>

/* ret NULL: it is detached. 0, or an errno as of pthread_create(3). */
int thread_start(pthread_t *ret, void *(*run)(void *), void *arg);
