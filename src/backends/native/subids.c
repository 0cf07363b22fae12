/* See subids.h. */
#include "backends/native/subids.h"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/native/ids.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/str.h"

#define FILE_MAX (1U << 20)
#define IDS_FILE ".local/state/mcp-sandbox-computer-vm-for-ai/id-ranges"
#define HELPER_TIMEOUT_NS (10 * NSEC_PER_SEC)

/* Lines have the form OWNER:FIRST:COUNT, the owner being a name or a number. */
uint32_t subids_read(const char *file, const char *name, uid_t uid, uint32_t *ret_first)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(FILE_MAX);
    char number[16];
    uint32_t largest = 0;
    snprintf(number, sizeof(number), "%u", uid);
    if (file_read(AT_FDCWD, file, &text, NULL) < 0 || text.len == 0)
        return 0;
    char *rest = text.data;
    for (char *line; (line = strsep(&rest, "\n"));) {
        int64_t first, count;
        const char *owner = strsep(&line, ":"), *first_text = strsep(&line, ":");
        if (!first_text || !line || (strcmp(owner, name) != 0 && strcmp(owner, number) != 0) ||
            !str_parse_i64(first_text, &first) || !str_parse_i64(line, &count))
            continue;
        if (first <= 0 || count <= largest || first + count > UINT32_MAX)
            continue;
        *ret_first = (uint32_t)first;
        largest = (uint32_t)count;
    }
    return largest;
}

static bool has_helper(const char *name)
{
    _cleanup_(cleanup_free) char *path = spawn_find(name);
    return path != NULL;
}

bool subids_find(const char *root_file, struct subids *ret)
{
    char bytes[4096];
    struct passwd entry, *user = NULL;
    struct subids s = {
        .users = ID_RANGE_FIRST, .groups = ID_RANGE_FIRST, .count = ID_RANGE_COUNT * ID_RANGE_SIZE};
    if (geteuid() == 0) {
        s.file = xstrdup(root_file);
        *ret = s;
        return true;
    }
    if (getpwuid_r(geteuid(), &entry, bytes, sizeof(bytes), &user) != 0 || !user)
        return false;
    uint32_t user_count = subids_read("/etc/subuid", user->pw_name, geteuid(), &s.users);
    uint32_t group_count = subids_read("/etc/subgid", user->pw_name, geteuid(), &s.groups);
    s.count = user_count < group_count ? user_count : group_count;
    if (s.count == 0 || !path_is_absolute(user->pw_dir) || access(user->pw_dir, W_OK) < 0 ||
        !has_helper("newuidmap") || !has_helper("newgidmap"))
        return false;
    s.file = path_join(user->pw_dir, IDS_FILE);
    *ret = s;
    return true;
}

static int run_helper(const char *name, pid_t pid, uint32_t own, uint32_t first, uint32_t count,
                      const struct wait *wait, struct error *err)
{
    char numbers[4][16];
    char zero[] = "0", one[] = "1";
    _cleanup_(cleanup_free) char *path = spawn_find(name);
    if (!path)
        return error_set(err, ERR_DENIED, "%s is gone", name);
    const uint32_t values[] = {(uint32_t)pid, own, first, count};
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        snprintf(numbers[i], sizeof(numbers[i]), "%u", values[i]);
    char *const argv[] = {path, numbers[0], zero, numbers[1], one, one, numbers[2], numbers[3], NULL};
    const struct spawn_request request = {.path = path, .argv = argv};
    pid_t helper;
    _cleanup_fd_ int pidfd = -1;
    if (spawn(&request, &helper, &pidfd, err) < 0)
        return error_prefix(err, "%s", name);
    siginfo_t info = {0};
    int waited = wait_fd(pidfd, POLLIN, wait, NULL, err);
    if (waited < 0)
        kill(helper, SIGKILL); /* what runs as root doesn't mind, but it ends anyway */
    if (waited < 0 || waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0)
        return -1;
    if (info.si_code != CLD_EXITED || info.si_status != 0)
        return error_set(err, ERR_DENIED, "%s refuses: exit code %d", name, info.si_status);
    return 0;
}

static int write_map(pid_t pid, const char *name, uint32_t first, uint32_t count, struct error *err)
{
    char path[40], map[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    snprintf(map, sizeof(map), "0 0 1\n1 %u %u", first, count);
    return file_write(AT_FDCWD, path, map, err) < 0 ? error_recast(err, ERR_DENIED, "map ids") : 0;
}

int subids_map(const struct subids *s, pid_t pid, const struct wait *wait, struct error *err)
{
    struct wait bounded = wait_at_most(wait, clock_now() + HELPER_TIMEOUT_NS);
    if (geteuid() == 0)
        return write_map(pid, "uid_map", s->users, s->count, err) < 0
                   ? -1
                   : write_map(pid, "gid_map", s->groups, s->count, err);
    if (run_helper("newuidmap", pid, geteuid(), s->users, s->count, &bounded, err) < 0)
        return -1;
    return run_helper("newgidmap", pid, getegid(), s->groups, s->count, &bounded, err);
}
