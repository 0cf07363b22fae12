/* See proc.h. */
#include "guest/proc.h"

#include <stdio.h>
#include <string.h>

#include "guest/sys.h"

bool proc_read_stat(int dir, const char *process, struct proc_stat *ret)
{
    char path[32], text[256];
    snprintf(path, sizeof(path), "%.20s/stat", process);
    _cleanup_fd_ int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    text[size > 0 ? size : 0] = 0;
    const char *behind_name = strrchr(text, ')'); /* the name itself may hold anything */
    return behind_name && sscanf(behind_name, ") %c %d %*d %d %*d %*d %u", &ret->state, &ret->parent,
                                 &ret->session, &ret->flags) == 4;
}
