/* Commands of one stream of frames, from their RUN to their END. */
#pragma once

#include <poll.h>
#include <sys/resource.h>

#include "guest/frames.h"

#define COMMANDS_POLLED (3 * SERVE_COMMANDS_MAX)

/* nofile: for those commands that the configuration says nothing about. The configuration is borrowed. */
void commands_set_up(const struct serve_config *config, const struct rlimit *nofile);
/* Starts what the frame asks for, and keeps its body as long as it has to, or answers why not. -1: it makes
 * no sense that a command of this id is asked for. */
int commands_run(struct frame *frame);
/* Harmless for one that isn't there any more. */
void commands_kill(uint32_t id);
/* All whose first process runs. */
void commands_kill_running(void);
/* None is left whose END isn't sent. */
bool commands_are_over(void);
/* Ends all that was ever started here and still runs, background included; again until no child is left. */
void commands_kill_everything(void);

/* What to poll; returns how many. */
unsigned commands_poll(struct pollfd *ret);
/* When, in ns of the monotonic clock, something is to be done anyway; INT64_MAX: never. */
int64_t commands_due(void);
/* Does all that can be done now. `polled`: as filled by commands_poll(). */
void commands_go_on(const struct pollfd *polled, int64_t now);

/* The socket that reapers send their records to. */
int commands_open_reports(void);
int commands_reports(void); /* to be polled */
void commands_read_reports(void);
/* Collects ended children. False: there are none left to end. */
bool commands_reap(void);
