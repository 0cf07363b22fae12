/* The attempts of the escape suite, a row each. They run in order, as root of the computer "attacker",
 * through the exec tool. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct attempt {
    const char *group;
    const char *command; /* NULL: none, args instead */
    /* Extended regular expression over "STDOUT" "STDERR" "exit=N\n" put together: the only acceptable
     * outcome. It names the refusal itself, so that an attempt which couldn't even be made (a tool is
     * missing) is a failure of the suite. */
    const char *want;
    double timeout; /* of the call; 0: 20 s */
    /* More of the call: JSON, with ' for ". A call that is refused is then an outcome like others: its text
     * stands for the output. */
    const char *arguments;
    const char *until; /* made again and again until this file is there */
    bool toolbox;      /* means the machine's /usr: nothing to try with a root of its own */
};
extern const struct attempt attempts[];
extern const size_t attempt_count;
/* Those in a computer without namespaces. */
extern const struct attempt weak_attempts[];
extern const size_t weak_attempt_count;
