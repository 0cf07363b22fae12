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

static int score = -1, count = -1; /* descriptors */
static char score_before[8];

int oom_open_score(void)
{
    score = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (score >= 0 && read(score, score_before, sizeof(score_before) - 1) <= 0)
        score = sys_close(score);
    return score < 0 ? -1 : 0;
}

int oom_open_count(void)
{
    for (unsigned i = 0; i < ARRAY_LEN(counters) && count < 0; i++)
        count = open(counters[i], O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    return count < 0 ? -1 : 0;
}

static void write_score(const char *text)
{
    if (score >= 0 && pwrite(score, text, strlen(text), 0) < 0)
        return; /* then all have the same */
}

void oom_raise_score(void)
{
    write_score(SCORE_OF_COMMANDS);
}

void oom_restore_score(void)
{
    write_score(score_before);
}

uint64_t oom_kills(void)
{
    char text[512];
    ssize_t size = count < 0 ? -1 : pread(count, text, sizeof(text) - 1, 0);
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
