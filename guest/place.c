/* See place.h. */
#include "guest/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "guest/job_wire.h"
#include "guest/report.h"
#include "guest/sys.h"

#define TOUCHED "touched"

/* Ours, and none of these permissions is given. */
static int check(int fd, mode_t refused)
{
    struct stat s;
    if (fd < 0 || fstat(fd, &s) < 0)
        return sys_close(fd);
    if (s.st_uid == geteuid() && !(s.st_mode & refused))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* Of the program. */
static int open_home(const char *program, struct guest_error *err)
{
    char path[GUEST_PATH_MAX];
    const char *slash = strrchr(program, '/');
    if (!slash || snprintf(path, sizeof(path), "%.*s", (int)(slash - program), program) >= (int)sizeof(path))
        return report_text(err, EINVAL, "find our folder", "");
    int fd = check(open(path[0] ? path : "/", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), 022);
    return fd < 0 ? report(err, "open our folder") : fd;
}

int place_open(const char *program, struct guest_error *err)
{
    _cleanup_fd_ int home = open_home(program, err);
    return home < 0 ? -1 : place_open_folder(home, JOB_PLACE, true, err);
}

/* Whether it is the root of a file system of its own. */
static bool is_mounted(const char *program, int place)
{
    struct guest_error unused;
    struct stat outer, inner;
    _cleanup_fd_ int home = open_home(program, &unused);
    return fstat(home, &outer) == 0 && fstat(place, &inner) == 0 && outer.st_dev != inner.st_dev;
}

/* Half of the machine's memory at most, as the kernel has it where nothing is said. */
int place_open_in_memory(const char *program, int place)
{
    struct guest_error unused;
    if (is_mounted(program, place))
        return place_open(program, &unused);
    const int failed = fchdir(place) < 0
                           ? -1
                           : mount("sandbox", ".", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700");
    return chdir("/") < 0 || failed < 0 ? -1 : place_open(program, &unused);
}

int place_open_folder(int at, const char *name, bool make, struct guest_error *err)
{
    if (make && mkdirat(at, name, 0700) < 0 && errno != EEXIST)
        return report_at(err, "make folder", name);
    int fd = check(openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), 077);
    return fd < 0 ? report_at(err, "open folder", name) : fd;
}

int place_open_file(int at, const char *name, int flags)
{
    struct stat s;
    int fd = openat(at, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0 || (fstat(fd, &s) == 0 && S_ISREG(s.st_mode)))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* By what the file has for its time, which need not be one: only that it changes counts. */
void place_touch(int place)
{
    _cleanup_fd_ int fd = place_open_file(place, TOUCHED, O_WRONLY | O_CREAT);
    if (fd >= 0)
        futimens(fd, NULL);
}

bool place_was_touched(int place, struct stat *seen)
{
    struct stat now = {0};
    if (fstatat(place, TOUCHED, &now, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    const bool touched = now.st_ino != seen->st_ino || now.st_mtim.tv_sec != seen->st_mtim.tv_sec ||
                         now.st_mtim.tv_nsec != seen->st_mtim.tv_nsec;
    *seen = now;
    return touched;
}
