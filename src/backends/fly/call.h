/* Commands in a machine: one is a job of our program there (guest/job_wire.h), by execs of the API. */
#pragma once

#include "backends/backend.h"
#include "base/list.h"
#include "guest/job_wire.h"

struct fly_instance;

/* What is known of the jobs of one machine, under its instance's lock. */
struct fly_calls {
    struct list under_way;
    char done[JOB_DONE_MAX][JOB_ID_MAX + 1]; /* what the machine is to be told of, oldest first */
    size_t done_count;
};
void fly_calls_init(struct fly_calls *calls);
/* All that are under way see the end soon: ERR_GONE. Under the lock. */
void fly_calls_cut_locked(struct fly_instance *i);

/* A command. As of shells_run_fn. */
int fly_call(void *computer, const struct exec_request *request, const char *shell, struct exec_result *ret,
             struct guest_exit *ret_exit, struct error *err);
/* A verb of our program there without arguments (JOB_TOUCH, JOB_SWEEP), of at most so many seconds. */
int fly_tell(struct fly_instance *i, const char *verb, int seconds, const struct wait *wait,
             struct error *err);
