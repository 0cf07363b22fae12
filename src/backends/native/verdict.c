/* Which shells there are in the root that computers are made from. */
#include "backends/native/verdict.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

static const char *const shells[] = {"/bin/bash", "/bin/sh", "/bin/dash", "/bin/ash", "/bin/zsh"};

bool verdict_base_has(const struct native *n, const char *path)
{
    _cleanup_fd_ int root = open(n->rootfs ? n->rootfs : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    _cleanup_fd_ int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    return fd >= 0;
}

void verdict_list_shells(const struct native *n, char *ret, size_t size)
{
    size_t used = 0;
    ret[0] = '\0';
    for (size_t s = 0; s < ARRAY_LEN(shells) && used < size; s++)
        if (verdict_base_has(n, shells[s]))
            used += (size_t)snprintf(ret + used, size - used, "%s%s", used ? ", " : "", shells[s]);
}
