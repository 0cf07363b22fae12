/* Of fault builds only, part of the server and of the guest program, so that it needs nothing but the C
 * library. Processes that are forked share the mapping. */
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define VARIABLE "SANDBOX_FAULTS"
#define NAME_SIZE 48
#define REACHED_MAX 255
#define HELD_POLL_MS 1

enum fault_state { FAULT_NONE, FAULT_ARMED, FAULT_HELD };

/* As the test reads and writes it, without padding: tests/kill/support/faults.mjs. */
struct fault_file {
    char wanted[NAME_SIZE];
    _Atomic int state; /* the test makes it ARMED; we make it HELD; the test makes it NONE, and we go on */
    _Atomic unsigned reached_count;
    char reached[REACHED_MAX][NAME_SIZE]; /* each point that somebody came to, in order of the first time */
};

static struct fault_file *file;
static char variable[sizeof(VARIABLE) + 256];
static char *environment[] = {variable, NULL};

static void __attribute__((constructor)) map_file(void)
{
    const char *path = getenv(VARIABLE);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped == MAP_FAILED)
        return;
    file = mapped;
    snprintf(variable, sizeof(variable), VARIABLE "=%s", path);
}

char *const *fault_environment(void)
{
    return file ? environment : NULL;
}

/* Two that come at once may both be listed, which does no harm. */
static void note(const char *name)
{
    unsigned count = atomic_load(&file->reached_count);
    for (unsigned i = 0; i < count && i < REACHED_MAX; i++)
        if (strncmp(file->reached[i], name, NAME_SIZE) == 0)
            return;
    unsigned own = atomic_fetch_add(&file->reached_count, 1);
    if (own < REACHED_MAX)
        strncpy(file->reached[own], name, NAME_SIZE - 1);
}

/* Keeps errno. Not by SIGSTOP: the first process of a computer doesn't heed its own. */
void fault_point(const char *name)
{
    int armed = FAULT_ARMED, sys = errno;
    if (!file)
        return;
    note(name);
    if (strncmp(file->wanted, name, NAME_SIZE) == 0 &&
        atomic_compare_exchange_strong(&file->state, &armed, FAULT_HELD))
        while (atomic_load(&file->state) == FAULT_HELD)
            poll(NULL, 0, HELD_POLL_MS);
    errno = sys;
}
