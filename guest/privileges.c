/* One filter per computer, loaded by init on itself and inherited by all that it starts: loading it per
 * command would cost about a tenth of a short command.
 *
 * clone3 can't be filtered by its flags, which lie in memory, so commands get ENOSYS and fall back to clone.
 * Init itself needs it, to have a command born in its cgroup (joining one later takes milliseconds). It bears
 * a token: 128 random bits in the two argument registers that clone3 ignores. Nothing inside can learn it:
 * init's memory and registers are closed (not dumpable), filters can't be read back without CAP_SYS_ADMIN on
 * the host, execve clears the registers. */
#include "guest/privileges.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "guest/filter.h"
#include "guest/landlock.h"
#include "guest/report.h"
#include "guest/sys.h"

#define BIT(n) (UINT64_C(1) << (n))

/* What Debian's packages, su and chroot need. Each counts only within the computer's own user namespace. */
static const uint64_t kept_capabilities =
    BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) | BIT(CAP_KILL) |
    BIT(CAP_SETGID) | BIT(CAP_SETUID) | BIT(CAP_SETPCAP) | BIT(CAP_SYS_CHROOT) | BIT(CAP_SETFCAP);

static uint64_t token[2];

const uint64_t *privileges_token(void)
{
    return token;
}

static int limit_file_size(uint64_t bytes)
{
    struct rlimit size;
    if (getrlimit(RLIMIT_FSIZE, &size) < 0)
        return -1;
    size.rlim_max = size.rlim_max < bytes ? size.rlim_max : bytes;
    size.rlim_cur = size.rlim_max;
    return setrlimit(RLIMIT_FSIZE, &size);
}

int privileges_limit(uint32_t nofile, uint64_t file_bytes, unsigned *ret_nofile, struct guest_error *err)
{
    /* Whoever starts the server may have been given a priority over others. */
    static const int forbidden[] = {RLIMIT_CORE, RLIMIT_RTPRIO, RLIMIT_NICE};
    const struct rlimit none = {0, 0};
    struct rlimit files;
    for (unsigned i = 0; i < ARRAY_LEN(forbidden); i++)
        if (setrlimit(forbidden[i], &none) < 0)
            return report(err, "set limits");
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return report(err, "set limits");
    if (file_bytes > 0 && limit_file_size(file_bytes) < 0)
        return report(err, "limit files");
    *ret_nofile = files.rlim_max < nofile ? (unsigned)files.rlim_max : nofile;
    /* Init holds descriptors of each running command, so it is not bound by theirs. */
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        return report(err, "set limits");
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return report(err, "close /proc/1");
    umask(022);
    return 0;
}

static int drop_capabilities(struct guest_error *err)
{
    for (unsigned i = 0; i < 64; i++) {
        if (kept_capabilities & BIT(i))
            continue;
        if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) == 0)
            continue;
        if (errno == EINVAL) /* beyond this kernel's last one */
            break;
        return report(err, "drop capabilities");
    }
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const uint32_t low = (uint32_t)kept_capabilities, high = (uint32_t)(kept_capabilities >> 32);
    const struct __user_cap_data_struct data[2] = {
        {.effective = low, .permitted = low},
        {.effective = high, .permitted = high},
    };
    if (syscall(SYS_capset, &header, data) < 0)
        return report(err, "set capabilities");
    return 0;
}

/* Where the bounding set can't be changed, no_new_privs is as good: nothing can be gained by an execve. */
int privileges_give_up(unsigned capability, struct guest_error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1 && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 &&
        prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return report(err, "limit capabilities");
    if (syscall(SYS_capget, &header, data) < 0)
        return report(err, "get capabilities");
    struct __user_cap_data_struct *half = &data[capability / 32];
    const uint32_t others = ~(uint32_t)BIT(capability % 32);
    half->effective &= others;
    half->permitted &= others;
    half->inheritable &= others; /* and with it the ambient one */
    if (syscall(SYS_capset, &header, data) < 0)
        return report(err, "set capabilities");
    return 0;
}

int privileges_load_filter(struct guest_error *err)
{
    if (getrandom(token, sizeof(token), 0) != sizeof(token))
        return report(err, "make token");
    for (unsigned i = 0; i < ARRAY_LEN(filter_token); i++)
        filter[filter_token[i]].k = (uint32_t)(token[i / 2] >> (i % 2 * 32));
    const struct sock_fprog program = {.len = ARRAY_LEN(filter), .filter = filter};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        return report(err, "load filter");
    return 0;
}

int privileges_drop(struct guest_error *err)
{
    if (drop_capabilities(err) < 0)
        return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return report(err, "set no_new_privs");
    if (landlock_restrict(err) < 0)
        return -1;
    return privileges_load_filter(err);
}
