/* See describe.h. */
#include "backends/native/describe.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"

#define OS_RELEASE_MAX 16384
#define NAME_MAX_BYTES 100

/* The value of PRETTY_NAME in os-release(5), without its quotes; NULL if there is none that can be shown. */
static char *pretty_name_in(const char *root, const char *file)
{
    static const char key[] = "\nPRETTY_NAME=";
    _cleanup_(cleanup_free) char *path = path_join(root, file);
    _cleanup_(buf_done) struct buf b = BUF_INIT(OS_RELEASE_MAX);
    if (buf_append_byte(&b, '\n') < 0 || file_read(AT_FDCWD, path, &b, NULL) < 0)
        return NULL;
    const char *value = strstr(buf_str(&b), key);
    if (!value)
        return NULL;
    value += strlen(key);
    value += *value == '"' || *value == '\'';
    size_t n = strcspn(value, "\"'\n");
    return n > 0 && n <= NAME_MAX_BYTES && utf8_valid(value, n) ? xstrndup(value, n) : NULL;
}

/* The file in /etc may be a link that leads out of a --rootfs, so it comes second. */
static char *pretty_name(const char *root)
{
    char *name = pretty_name_in(root, "usr/lib/os-release");
    return name ? name : pretty_name_in(root, "etc/os-release");
}

char *describe_weak_environment(void)
{
    _cleanup_(cleanup_free) char *name = pretty_name("/");
    return xasprintf(
        "a folder of this %s machine that is only WEAKLY isolated from it (--allow-weak-isolation): "
        "the machine's programs can be run, files can be changed in $HOME, the first working "
        "directory, and read in /usr, sockets can't be made, all processes are to be seen",
        name ? name : "Linux");
}

char *describe_environment(const char *rootfs)
{
    _cleanup_(cleanup_free) char *name = pretty_name(rootfs ? rootfs : "/");
    const char *programs =
        rootfs ? "" : " with this machine's programs (/usr is read-only, the rest is its own)";
    return xasprintf("an isolated %s computer%s", name ? name : "Linux", programs);
}

static void append_reason(struct buf *b, const struct cgroups *held, enum cgroup_limit limit)
{
    if (!held || held->places[limit].version != 0)
        return;
    const char *why = held->places[limit].why;
    const char *weaker = held->places[limit].weaker;
    if (buf_printf(b, " (%s: %s)", weaker ? weaker : "not enforced", why ? why : "no control group") < 0)
        return; /* the sentence is cut: better than none */
}

char *describe_size(int64_t bytes)
{
    if (bytes % (int64_t)(1024 * MIB) == 0)
        return xasprintf("%lld GiB", (long long)(bytes / (int64_t)(1024 * MIB)));
    if (bytes % (int64_t)MIB == 0)
        return xasprintf("%lld MiB", (long long)(bytes / (int64_t)MIB));
    return xasprintf("%lld bytes", (long long)bytes);
}

static int append_disk(struct buf *b, const struct disks *disks)
{
    _cleanup_(cleanup_free) char *size = describe_size(disks->limit.bytes);
    if (buf_printf(b, ", %s of disk", size) < 0)
        return -1;
    if (!disks->why[0]) /* it is enforced, or will be seen */
        return 0;
    return buf_printf(
        b, " (%s: %s)",
        disks->way == DISK_WATCHED ? "watched while commands run, not enforced" : "not enforced", disks->why);
}

char *describe_limits(const struct cgroup_values *values, const struct cgroups *held,
                      const struct disks *disks)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(4096);
    _cleanup_(cleanup_free) char *memory = describe_size(values->memory_bytes);
    bool cut = buf_printf(&b, "%s of memory", memory) < 0;
    append_reason(&b, held, CGROUP_MEMORY);
    cut |= buf_printf(&b, ", %lld processes", (long long)values->pids) < 0;
    append_reason(&b, held, CGROUP_PIDS);
    cut |= buf_printf(&b, ", %.12g CPU%s", values->cpus, values->cpus == 1.0 ? "" : "s") < 0;
    append_reason(&b, held, CGROUP_CPU);
    if (disks->way != DISK_NONE)
        cut |= append_disk(&b, disks) < 0;
    return cut && b.len == 0 ? xstrdup("") : buf_steal(&b);
}
