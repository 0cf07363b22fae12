/* What Landlock adds to namespaces and the filter, and costs a computer some ten microseconds:
 *
 *   - mounts can't be changed from within a domain that handles files at all, whatever a hole in the filter
 *     or in the user namespace may give;
 *   - no device nodes are made, overlay's whiteouts among them, which the kernel allows without capabilities;
 *   - no signal to a process, no connection to an abstract socket, no tracing outside of the domain, which is
 *     this computer and nothing else, even if it shared a pid or a network namespace;
 *   - code inside can't fill the host's audit log with refusals of domains of its own.
 *
 * What the computer sees of files is the mount namespace's business: rules for paths would double it, and be
 * looked up at every open. Those handled here are looked up only when a node is made, or a file changes its
 * folder; that there are any costs about one part in a hundred where files are opened and made all the time.
 */
#include "guest/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>

#include "guest/report.h"
#include "guest/sys.h"

/* The first that lets files be moved between folders; before it, none that handles files does. */
#define ABI_REFER 2
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

static int allow_moves(int ruleset)
{
    _cleanup_fd_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct landlock_path_beneath_attr everywhere = {
        .allowed_access = LANDLOCK_ACCESS_FS_REFER,
        .parent_fd = root,
    };
    return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &everywhere, 0);
}

int landlock_restrict(struct guest_error *err)
{
    const long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < ABI_REFER)
        return 0;
    const struct ruleset wanted = {
        .handled_files =
            LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_REFER,
        .scoped = abi >= ABI_SCOPES ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0,
    };
    /* Older kernels take the longer structure if what they don't know is zero. */
    _cleanup_fd_ int ruleset = (int)syscall(SYS_landlock_create_ruleset, &wanted, sizeof(wanted), 0);
    if (ruleset < 0 || allow_moves(ruleset) < 0)
        return report(err, "make Landlock rules");
    const unsigned flags = abi >= ABI_LOG ? LOG_SAME_EXEC_OFF | LOG_SUBDOMAINS_OFF : 0;
    if (syscall(SYS_landlock_restrict_self, ruleset, flags) < 0)
        return report(err, "enter Landlock");
    return 0;
}
