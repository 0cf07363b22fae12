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
 * --tty, --interactive, --label of our own) says why. Files that flags name are read; after an error `body`
 * is good for nothing.
 *
 * Where `body` has a default of ours, a flag stands to it as follows:
 * - capabilities: --cap-add adds to those of `body`, --cap-drop takes away from them (ALL: every one), and
 *   what is both added and dropped is there, as the engine has it; --cap-add ALL is all but what is dropped.
 * - --privileged drops the list of capabilities and no-new-privileges, unless a flag asks for that one, too.
 * - --security-opt no-new-privileges=false takes it back alone.
 * - --memory without --memory-swap: still no swap, as far as `body` forbids it.
 * - --entrypoint runs in front of the entrypoint in `body`, which becomes its arguments; an empty one is
 *   what computers have anyway.
 * - --init is met by the first process of a computer, and changes nothing.
 * - --env, --label, --sysctl and other lists and maps add; a name that is there already is replaced. */
int run_flags_apply(char *const *flags, json_t *body, struct error *err);

/* The value of a flag that means more than a member of the body: the last one of --`name`; NULL if there is
 * none. Borrowed from flags, which run_flags_apply has found in order. */
const char *run_flags_value(char *const *flags, const char *name);

/* Memory and CPU as the CLI takes them: "512m", "1.5". -1: not a number of that kind. */
int run_flags_bytes(const char *text, int64_t *ret);
int run_flags_nano_cpus(const char *text, int64_t *ret);
