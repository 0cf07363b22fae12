/* Zombies have no environment, so they aren't found. */
#include "fakes/marked.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/str.h"

#define ENVIRON_MAX (1 * MIB)

static bool process_has_mark(pid_t pid, const char *mark)
{
    char path[64], wanted[MARK_SIZE + sizeof(MARKER) + 1];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    snprintf(wanted, sizeof(wanted), MARKER "=%s", mark);
    _cleanup_(buf_done) struct buf environment = BUF_INIT(ENVIRON_MAX);
    if (file_read(AT_FDCWD, path, &environment, NULL) < 0)
        return false;
    for (size_t i = 0; i < environment.len; i += strlen(environment.data + i) + 1)
        if (str_has_prefix(environment.data + i, wanted))
            return true;
    return false;
}

size_t marked_find(const char *mark, pid_t except, int *ret, size_t max)
{
    size_t count = 0;
    DIR *proc = opendir("/proc");
    for (const struct dirent *e; proc && (e = readdir(proc));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid > 0 && pid != except && count < max && process_has_mark(pid, mark))
            ret[count++] = pid;
    }
    closedir(proc);
    return count;
}

/* What is being forked while we look is found the next time. */
void marked_kill(const char *mark)
{
    int pids[256];
    for (int quiet = 0; quiet < 2;) {
        size_t n = marked_find(mark, 0, pids, ARRAY_LEN(pids));
        for (size_t i = 0; i < n; i++)
            kill(pids[i], SIGKILL);
        quiet = n ? 0 : quiet + 1;
    }
}

void marked_kill_all(const char *key)
{
    char mark[MARK_SIZE];
    snprintf(mark, sizeof(mark), "%s.", key);
    marked_kill(mark);
}
