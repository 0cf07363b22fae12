/* Making files where hostile code lives: see file.h. */
#include "guest/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "guest/report.h"

int file_make(char *path, struct guest_error *err)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int failed = mkdir(path, 0755) < 0 && errno != EEXIST;
        *slash = '/';
        if (failed)
            return report(err, "make folder");
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    return fd < 0 ? report(err, "make file") : fd;
}
