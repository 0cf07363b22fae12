/* How fast a provider may be asked, and how often again: one for all calls that it counts together. Any
 * thread.
 *
 * - a limit, where the provider has told one: so many at once, and then one after each interval
 * - a queue: once the provider has said that there were too many, calls go one after the other, in the order
 *   of their coming, further apart the more often it says so; with each success they come closer again
 * - a budget: calls that fail are repeated while most succeed. Where nothing works, repeating everything
 *   would only make it worse */
#pragma once

#include <stdint.h>

#include "base/cancel.h"

struct pace;
struct pace *pace_new(void);
/* `burst` at once, and then one after each `every_ns`. */
struct pace *pace_new_limited(int64_t every_ns, int burst);
struct pace *pace_free(struct pace *p); /* accepts NULL, returns NULL */

/* Until it is the caller's turn. -1: the wait is over; ERR_BUSY, at once: it would be before a limit lets it
 * come, as after too many others; ERR_LIMIT: no descriptor is left to wait with. NULL is no pace: at once. */
int pace_take_turn(struct pace *p, const struct wait *wait, struct error *err);
void pace_succeeded(struct pace *p);
/* How often that was called: who is refused while this grows has only come too early. */
uint64_t pace_successes(struct pace *p);
/* The provider said that there were too many, and that it takes no more for so long; 0: it didn't say. What
 * many calls are told that went out together counts once. */
void pace_slow_down(struct pace *p, int64_t ns);
/* The next turn would be at once. */
bool pace_is_free(struct pace *p);
/* Whether it makes sense to come again after so long: the wait isn't over before, and nobody is kept longer
 * than a minute, whatever the provider wants. */
bool pace_is_bearable(const struct wait *wait, int64_t ns);
/* Nobody has been here of late: it is as good as a new one. */
bool pace_is_idle(struct pace *p);
/* Takes one from the budget. False: there is none left. */
bool pace_may_repeat(struct pace *p);

/* How long to wait before the `attempt`th repetition (from 0 on): doubled each time, and any part of that, so
 * that those who failed together don't come back together. */
int64_t pace_delay(int attempt);
/* Lets so much time pass. False: the wait would be over before, so there is no point in it. */
bool pace_pause(const struct wait *wait, int64_t ns);
