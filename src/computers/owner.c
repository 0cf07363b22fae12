/* Identity of a server process: machine id, boot id, pid and start time. Only the four together never come
 * again. */
#include "computers/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/str.h"

static bool machine_id_read(const char *path, char ret[OWNER_MACHINE_SIZE])
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(256);
    if (file_read(AT_FDCWD, path, &text, NULL) < 0)
        return false;
    const size_t digits = OWNER_MACHINE_SIZE - 1;
    if (strspn(buf_str(&text), "0123456789abcdef") != digits)
        return false; /* "uninitialized" in images, empty in containers */
    memcpy(ret, text.data, digits);
    ret[digits] = '\0';
    return true;
}

/* Makes STATE/machine unless it is there. What a server that was killed has left of it is replaced. */
static int machine_id_make(const char *state_dir, const char *path, struct error *err)
{
    char hex[OWNER_MACHINE_SIZE];
    _cleanup_fd_ int lock = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot lock '%s'", state_dir);
    if (access(path, F_OK) == 0) /* another server was first */
        return 0;
    random_hex(hex, (OWNER_MACHINE_SIZE - 1) / 2);
    return file_replace(AT_FDCWD, path, hex, strlen(hex), false, err);
}

static int unusable(struct error *err)
{
    return error_recast(err, ERR_UNAVAILABLE, "the state directory can't be used");
}

int owner_self(const char *state_dir, struct owner *ret, struct error *err)
{
    struct owner self = {.pid = getpid(), .start = clock_process_start(getpid())};
    snprintf(self.boot, sizeof(self.boot), "%s", clock_boot_id());
    if (!machine_id_read("/etc/machine-id", self.machine)) {
        _cleanup_(cleanup_free) char *path = path_join(state_dir, "machine");
        if (dir_make(state_dir, 0711, err) < 0)
            return unusable(err);
        if (!machine_id_read(path, self.machine)) {
            if (machine_id_make(state_dir, path, err) < 0)
                return unusable(err);
            if (!machine_id_read(path, self.machine))
                return error_set(err, ERR_INTERNAL, "'%s' holds no machine id: remove it", path);
        }
    }
    *ret = self;
    return 0;
}

void owner_words(const struct owner *o, const char *state_dir, struct computer_owner *ret)
{
    char digest[SHA256_HEX_SIZE];
    sha256_hex(state_dir, strlen(state_dir), digest);
    *ret = (struct computer_owner){0};
    snprintf(ret->machine, sizeof(ret->machine), "%s", o->machine);
    snprintf(ret->boot, sizeof(ret->boot), "%s", o->boot);
    snprintf(ret->pid, sizeof(ret->pid), "%d", (int)o->pid);
    snprintf(ret->start, sizeof(ret->start), "%llu", (unsigned long long)o->start);
    snprintf(ret->state, sizeof(ret->state), "%.32s", digest);
}

bool owner_of_words(const struct computer_owner *words, struct owner *ret)
{
    int64_t pid, start;
    struct owner o = {0};
    if (strlen(words->machine) != OWNER_MACHINE_SIZE - 1 || strlen(words->boot) != OWNER_BOOT_SIZE - 1 ||
        !str_parse_i64(words->pid, &pid) || !str_parse_i64(words->start, &start) || pid <= 0 || pid > INT_MAX)
        return false;
    strcpy(o.machine, words->machine);
    strcpy(o.boot, words->boot);
    o.pid = (pid_t)pid;
    o.start = (uint64_t)start;
    *ret = o;
    return true;
}

bool owner_equal(const struct owner *a, const struct owner *b)
{
    return strcmp(a->machine, b->machine) == 0 && strcmp(a->boot, b->boot) == 0 && a->pid == b->pid &&
           a->start == b->start;
}

bool owner_is_dead(const struct owner *self, const struct owner *owner)
{
    if (strcmp(self->machine, owner->machine) != 0)
        return false;
    if (strcmp(self->boot, owner->boot) != 0)
        return true;
    return owner->pid <= 0 ||
           (clock_process_start(owner->pid) != owner->start && !clock_process_is_hidden(owner->pid));
}
