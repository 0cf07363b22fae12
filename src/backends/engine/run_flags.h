/* --docker-run-flag: flags of `docker run` in their own syntax, as members of the API's container body. One
 * table: flag, argument or not, place in the API, parser. Source: docker-run(1), Engine API v1.41
 * ContainerCreate. */
#pragma once

#include <jansson.h>

#include "base/error.h"

/* flags: NULL-ended; each element is a flag with its value ("--memory=1g", "-e A=B", "-v /a:/b"), or two
 * elements of which the second is the value. Adds to `body` ({"HostConfig":{}, ...}), whose other members
 * stay, except those that the flags replace. ERR_INVALID names the flag, the value and what it takes; an
 * unknown flag names the near misses; a flag that would break what a computer is (--rm, --name, --detach,
 * --tty, --interactive, --label of our own) says why. */
int run_flags_apply(char *const *flags, json_t *body, struct error *err);

/* Memory and CPU as the CLI takes them: "512m", "1.5". -1: not a number of that kind. */
int run_flags_bytes(const char *text, int64_t *ret);
int run_flags_nano_cpus(const char *text, int64_t *ret);
