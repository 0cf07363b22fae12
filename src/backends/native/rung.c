/* Names of the rungs, and the reasons for being on none. */
#include "backends/native/rung.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"

#define STATUS_MAX 16384

static const struct {
    const char *name, *words;
} rungs[RUNGS] = {
    [RUNG_ROOT] = {"root", NULL},
    [RUNG_RANGE] = {"range", NULL},
    [RUNG_ONE_ID] = {"one-id", "files have no owner but root: changing it seems to work, and does nothing"},
    [RUNG_WEAK] =
        {"weak", "weak isolation, as --allow-weak-isolation allows: there are no namespaces, only Landlock, "
                 "filters of system calls and limits keep a computer from the machine and from others"},
};

const char *rung_name(enum rung rung)
{
    return rungs[rung].name;
}

const char *rung_words(enum rung rung)
{
    return rungs[rung].words;
}

/* Since Linux 5.14 a user's processes count anew in each user namespace. Where each computer has users of its
 * own it comes to the same. */
const char *rung_counts_processes(enum rung rung)
{
    static const char each[] = "for each of its users";
    struct utsname kernel;
    int major, minor;
    if (rung == RUNG_WEAK)
        return geteuid() == 0 ? "by its user" : "together with what else its user runs meanwhile";
    if (rung != RUNG_ONE_ID)
        return each;
    return uname(&kernel) == 0 && sscanf(kernel.release, "%d.%d", &major, &minor) == 2 &&
                   (major > 5 || (major == 5 && minor >= 14))
               ? each
               : NULL;
}

/* The threads of a process are the folders in its folder `task`: each is one more link to it. */
static uint32_t count_threads(int proc, const char *name)
{
    struct stat st;
    char path[32];
    if (fstatat(proc, name, &st, 0) < 0 || st.st_uid != geteuid())
        return 0;
    snprintf(path, sizeof(path), "%.16s/task", name);
    return fstatat(proc, path, &st, 0) == 0 && st.st_nlink > 2 ? (uint32_t)st.st_nlink - 2 : 0;
}

uint32_t rung_processes_before(enum rung rung, const char *proc)
{
    DIR *dir = rung == RUNG_WEAK && geteuid() != 0 ? opendir(proc) : NULL;
    uint32_t count = 0;
    if (!dir)
        return 0;
    for (const struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            count += count_threads(dirfd(dir), e->d_name);
    closedir(dir);
    return count;
}

/* Switches of the kernel that close user namespaces, to whom. */
enum certainty { MAYBE, FOR_USERS, FOR_ALL }; /* nothing else can open them */
static const struct {
    const char *file, *closed;
    enum certainty certain;
    const char *remedy, *behind_path; /* of this program, between them; NULL: no need of it */
} switches[] = {
    {"sys/user/max_user_namespaces", "0", FOR_ALL,
     "the kernel allows none: as root, `sysctl -w user.max_user_namespaces=15000`", NULL},
    {"sys/kernel/unprivileged_userns_clone", "0", FOR_USERS,
     "the kernel keeps them for root: as root, `sysctl -w kernel.unprivileged_userns_clone=1`", NULL},
    {"sys/kernel/apparmor_restrict_unprivileged_userns", "1", MAYBE,
     "AppArmor keeps them for programs with a profile that says `userns,` (Ubuntu): as root, write `abi "
     "<abi/4.0>, profile sandbox-computer ",
     " flags=(unconfined) { userns, }` to "
     "/etc/apparmor.d/sandbox-computer and run `apparmor_parser -r` on it, or `sysctl -w "
     "kernel.apparmor_restrict_unprivileged_userns=0`"},
};

static bool is_closed(const char *proc, const char *file, const char *closed)
{
    _cleanup_(cleanup_free) char *path = path_join(proc, file);
    _cleanup_(buf_done) struct buf b = BUF_INIT(64);
    if (file_read(AT_FDCWD, path, &b, NULL) < 0)
        return false;
    _cleanup_(cleanup_free) char *value = str_trim(buf_str(&b));
    return strcmp(value, closed) == 0;
}

/* An engine's filter, most likely: whoever sets one for a service leaves namespaces alone. */
static bool is_filtered(const char *proc)
{
    _cleanup_(cleanup_free) char *path = path_join(proc, "self/status");
    _cleanup_(buf_done) struct buf b = BUF_INIT(STATUS_MAX);
    return file_read(AT_FDCWD, path, &b, NULL) == 0 && strstr(buf_str(&b), "\nSeccomp:\t2");
}

static void own_path(char *ret, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", ret, size - 1);
    snprintf(ret + (n > 0 ? n : 0), size - (size_t)(n > 0 ? n : 0), "%s",
             n > 0 ? "" : "PATH-OF-THIS-PROGRAM");
}

static int refuse(struct error *err, const char *remedy)
{
    return error_set(
        err, ERR_DENIED,
        "native computers need user namespaces, which this user may not make: %s; or, much weaker, "
        "--allow-weak-isolation",
        remedy);
}

int rung_check(const char *proc, bool root, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(switches); i++)
        if (switches[i].certain >= (root ? FOR_ALL : FOR_USERS) &&
            is_closed(proc, switches[i].file, switches[i].closed))
            return refuse(err, switches[i].remedy);
    return 0;
}

int rung_refused(const char *proc, struct error *err)
{
    char exe[160], remedy[480];
    own_path(exe, sizeof(exe));
    for (size_t i = 0; i < ARRAY_LEN(switches); i++) {
        if (!is_closed(proc, switches[i].file, switches[i].closed))
            continue;
        const char *behind = switches[i].behind_path;
        snprintf(remedy, sizeof(remedy), "%s%s%s", switches[i].remedy, behind ? exe : "",
                 behind ? behind : "");
        return refuse(err, remedy);
    }
    if (is_filtered(proc))
        return refuse(err, "a system call filter refuses, as those of containers do: run the container with "
                           "`--security-opt seccomp=unconfined --security-opt systempaths=unconfined`");
    return error_prefix(err, "native computers need user namespaces");
}
