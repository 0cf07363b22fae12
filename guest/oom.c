/* A score can be raised by all and lowered to where it began, and children inherit it. So it is our own that
 * is raised while a command is started: the child couldn't, /proc/self is closed to it until its execve. */
#include "guest/oom.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest/sys.h"

#define SCORE_OF_COMMANDS "500"
#define COUNT_NAME "oom_kill "

static const char *const counters[] = {
    "/sys/fs/cgroup/memory.events",             /* version 2 */
    "/sys/fs/cgroup/memory/memory.oom_control", /* version 1 */
};

static struct {
    int score, counter;
    char score_before[8];
} oom = {.score = -1, .counter = -1};

void oom_open(void)
{
    oom.score = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (oom.score >= 0 && read(oom.score, oom.score_before, sizeof(oom.score_before) - 1) <= 0) {
        close(oom.score);
        oom.score = -1;
    }
    for (unsigned i = 0; i < ARRAY_LEN(counters) && oom.counter < 0; i++)
        oom.counter = open(counters[i], O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
}

static void write_score(const char *score)
{
    if (oom.score >= 0 && pwrite(oom.score, score, strlen(score), 0) < 0)
        return; /* then all have the same */
}

void oom_raise_score(void)
{
    write_score(SCORE_OF_COMMANDS);
}

void oom_restore_score(void)
{
    write_score(oom.score_before);
}

uint64_t oom_kills(void)
{
    char text[512];
    ssize_t size = oom.counter < 0 ? -1 : pread(oom.counter, text, sizeof(text) - 1, 0);
    if (size <= 0)
        return 0;
    text[size] = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, COUNT_NAME, strlen(COUNT_NAME)) == 0)
            return strtoull(line + strlen(COUNT_NAME), NULL, 10);
    }
    return 0;
}
