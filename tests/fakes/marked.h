/* Processes by a mark: every process that a command of a fake computer starts carries MARKER=KEY.NUMBER. in
 * its environment, and that is how all of them are found, wherever they went. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define MARKER "FAKE_BACKEND_EXEC"
#define MARK_SIZE 64 /* KEY.NUMBER. with the last dot, so that 1 is no prefix of 12 */

/* Those that carry the mark or a longer one, except one. */
size_t marked_find(const char *mark, pid_t except, int *ret, size_t max);
/* Until none is found twice in a row. */
void marked_kill(const char *mark);
void marked_kill_all(const char *key); /* of a computer */
