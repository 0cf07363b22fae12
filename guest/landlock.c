/* What Landlock adds to namespaces and the filter, and costs a computer some ten microseconds:
 *
 *   - mounts can't be changed from within a domain that handles files at all, whatever a hole in the filter
 *     or in the user namespace may give;
 *   - no device nodes are made;
 *   - no signal to a process, no connection to an abstract socket, no tracing outside of the domain, which is
 *     this computer and nothing else, even if it shared a pid or a network namespace;
 *   - code inside can't fill the host's audit log with refusals of domains of its own.
 *
 * What the computer sees of files is the mount namespace's business: rules for paths would double it, and be
 * looked up at every open. Those handled here are looked up only when a node is made, or a file changes its
 * folder; that there are any costs about one part in a hundred where files are opened and made all the time.
 * Only a computer without a mount namespace of its own (weak.h) is shut in by them. */
#include "guest/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <linux/landlock.h>

#include "guest/report.h"
#include "guest/sys.h"

/* The first that lets files be moved between folders; before it, none that handles files does. */
#define ABI_REFER 2
#define ABI_TRUNCATE 3
#define ABI_PORTS 4
#define ABI_DEVICES 5
#define ABI_SCOPES 6
#define ABI_LOG 7

/* The kernel's, as of ABI 7: the headers that we are built with may be older. */
struct ruleset {
    uint64_t handled_files, handled_ports, scoped;
};
#define SCOPE_ABSTRACT_UNIX_SOCKET 1U
#define SCOPE_SIGNAL 2U
#define LOG_SAME_EXEC_OFF 1U
#define LOG_SUBDOMAINS_OFF 4U
#define FILES_OF_ABI_2 ((UINT64_C(1) << 14) - 1)
#define TRUNCATE_FILE (UINT64_C(1) << 14)
#define CONTROL_DEVICE (UINT64_C(1) << 15)
#define ALL_PORTS 3U

static long version(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static int make_ruleset(long abi, uint64_t files, uint64_t ports)
{
    const struct ruleset wanted = {
        .handled_files = files,
        .handled_ports = abi >= ABI_PORTS ? ports : 0,
        .scoped = abi >= ABI_SCOPES ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0,
    };
    /* Older kernels take the longer structure if what they don't know is zero. */
    return (int)syscall(SYS_landlock_create_ruleset, &wanted, sizeof(wanted), 0);
}

static int enter(int ruleset, long abi, struct guest_error *err)
{
    const unsigned flags = abi >= ABI_LOG ? LOG_SAME_EXEC_OFF | LOG_SUBDOMAINS_OFF : 0;
    return syscall(SYS_landlock_restrict_self, ruleset, flags) < 0 ? report(err, "enter Landlock") : 0;
}

static int allow(int ruleset, int place, uint64_t access)
{
    const struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = place};
    return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

static int allow_moves(int ruleset)
{
    _cleanup_fd_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return allow(ruleset, root, LANDLOCK_ACCESS_FS_REFER);
}

int landlock_restrict(struct guest_error *err)
{
    const long abi = version();
    if (abi < ABI_REFER)
        return 0;
    _cleanup_fd_ int ruleset = make_ruleset(
        abi, LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_REFER, 0);
    if (ruleset < 0 || allow_moves(ruleset) < 0)
        return report(err, "make Landlock rules");
    return enter(ruleset, abi, err);
}

/* --- files --- */

bool landlock_shuts_files(void)
{
    return version() >= ABI_REFER;
}

static uint64_t all_files(long abi)
{
    return FILES_OF_ABI_2 | (abi >= ABI_TRUNCATE ? TRUNCATE_FILE : 0) |
           (abi >= ABI_DEVICES ? CONTROL_DEVICE : 0);
}

/* A rule for what is no folder may say only what can be done with a file. */
static int allow_place(int ruleset, const struct landlock_place *place, uint64_t all)
{
    static const uint64_t uses[] = {
        [LANDLOCK_READ] = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
        [LANDLOCK_RUN] =
            LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE,
        [LANDLOCK_USE] = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE_FILE,
        [LANDLOCK_OWN] = ~(uint64_t)(LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK),
    };
    struct stat st;
    uint64_t access = uses[place->use] & all;
    _cleanup_fd_ int fd = open(place->path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == EACCES ? 0 : -1;
    if (fstat(fd, &st) < 0)
        return -1;
    if (!S_ISDIR(st.st_mode))
        access &= ~(uint64_t)LANDLOCK_ACCESS_FS_READ_DIR;
    return allow(ruleset, fd, access);
}

int landlock_shut_files(const struct landlock_place *places, unsigned count, struct guest_error *err)
{
    const long abi = version();
    const uint64_t all = all_files(abi);
    _cleanup_fd_ int ruleset = make_ruleset(abi, all, ALL_PORTS);
    if (ruleset < 0)
        return report(err, "make Landlock rules");
    for (unsigned i = 0; i < count; i++)
        if (allow_place(ruleset, &places[i], all) < 0)
            return report_at(err, "allow", places[i].path);
    return enter(ruleset, abi, err);
}
