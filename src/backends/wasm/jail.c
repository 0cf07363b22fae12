/* Landlock says which files, the filter which system calls: those that the engine makes for all of WASI, in
 * as few forms as it needs. There is no way to a socket, another program, another process or, while a guest
 * runs, to memory that can be executed: who looks for one is ended. All other calls aren't there. */
#include "backends/wasm/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0 /* no engine: none of its processes gets so far */
#endif

/* --- files --- */

/* Newer than the headers of Debian 12. */
#define ACCESS_TRUNCATE (1ULL << 14)
#define ACCESS_IOCTL_DEV (1ULL << 15)

/* All rights that a kernel of that version knows of. */
static uint64_t known_rights(long abi)
{
    uint64_t rights = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
    if (abi >= 2)
        rights |= LANDLOCK_ACCESS_FS_REFER;
    if (abi >= 3)
        rights |= ACCESS_TRUNCATE;
    if (abi >= 5)
        rights |= ACCESS_IOCTL_DEV;
    return rights;
}

/* 0 or less: there is no Landlock. */
static long landlock_version(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

bool jail_has_landlock(void)
{
    return landlock_version() > 0;
}

static int confine_files(int root, struct error *err)
{
    long abi = landlock_version();
    if (abi < 1)
        return 0;
    const uint64_t rights = known_rights(abi);
    const struct landlock_ruleset_attr attr = {.handled_access_fs = rights};
    _cleanup_fd_ int rules =
        (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs), 0);
    if (rules < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make a set of Landlock rules");
    const struct landlock_path_beneath_attr beneath = {
        .allowed_access = rights & ~(uint64_t)LANDLOCK_ACCESS_FS_EXECUTE, .parent_fd = root};
    if ((root >= 0 && syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) < 0) ||
        syscall(SYS_landlock_restrict_self, rules, 0) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "confine the command to its folder");
    return 0;
}

/* --- system calls --- */

#define PROGRAM_MAX 320

struct program {
    struct sock_filter code[PROGRAM_MAX];
    unsigned short length;
};

#define ALLOW SECCOMP_RET_ALLOW
#define KILL SECCOMP_RET_KILL_PROCESS
#define MISSING (SECCOMP_RET_ERRNO | ENOSYS)

static void put(struct program *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
    if (p->length < PROGRAM_MAX)
        p->code[p->length++] = (struct sock_filter){code, yes, no, k};
}

static void put_load(struct program *p, size_t offset)
{
    put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void put_return(struct program *p, uint32_t action)
{
    put(p, BPF_RET | BPF_K, action, 0, 0);
}

/* With the call's number loaded, before and after. */
static void put_call(struct program *p, long number, uint32_t action)
{
    put(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1);
    put_return(p, action);
}

/* By the low half of an argument: equal to, or with bits of, `value`. */
static void put_call_by(struct program *p, long number, unsigned argument, uint16_t test, uint32_t value,
                        uint32_t if_so, uint32_t otherwise)
{
    put(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 4);
    put_load(p, offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t));
    put(p, (uint16_t)(BPF_JMP | test | BPF_K), value, 0, 1);
    put_return(p, if_so);
    put_return(p, otherwise);
}

static const int allowed[] = {
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_preadv,
    SYS_pwritev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_close,
    SYS_lseek,
    SYS_fcntl,
    SYS_openat2,
    SYS_statx,
    SYS_newfstatat,
    SYS_fstat,
    SYS_fstatfs,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_getdents64,
    SYS_mkdirat,
    SYS_unlinkat,
    SYS_renameat,
    SYS_renameat2,
    SYS_linkat,
    SYS_symlinkat,
    SYS_readlinkat,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fadvise64,
    SYS_utimensat,
    SYS_fsync,
    SYS_fdatasync,
    SYS_munmap,
    SYS_madvise,
    SYS_mremap,
    SYS_brk,
    SYS_futex,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_rt_sigprocmask,
    SYS_rt_sigaction,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_sched_getaffinity,
    SYS_sched_yield,
    SYS_getrandom,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_eventfd2,
    SYS_ppoll,
    SYS_gettid,
    SYS_getpid,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
#ifdef __x86_64__
    SYS_poll,
    SYS_epoll_wait,
#endif
};

/* What only somebody else in the engine's place would call. */
static const int hostile[] = {
    SYS_execve,
    SYS_execveat,
    SYS_socket,
    SYS_socketpair,
    SYS_kill,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    SYS_pidfd_getfd,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_bpf,
    SYS_io_uring_setup,
    SYS_userfaultfd,
    SYS_perf_event_open,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_open_by_handle_at,
    SYS_setuid,
    SYS_setgid,
    SYS_capset,
    SYS_memfd_create,
#ifdef __x86_64__
    SYS_fork,
    SYS_vfork,
#endif
};

static void write_program(struct program *p, enum jail kind)
{
    const uint32_t code = kind == JAIL_COMPILE ? ALLOW : KILL;
    put_load(p, offsetof(struct seccomp_data, arch));
    put(p, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    put_return(p, KILL);
    put_load(p, offsetof(struct seccomp_data, nr));
    put_call_by(p, SYS_mmap, 2, BPF_JSET, PROT_EXEC, code, ALLOW);
    put_call_by(p, SYS_mprotect, 2, BPF_JSET, PROT_EXEC, code, ALLOW);
    if (kind == JAIL_COMPILE)
        put_call(p, SYS_memfd_create, ALLOW);
    put_call_by(p, SYS_clone, 0, BPF_JSET, CLONE_THREAD, ALLOW, KILL);
    put_call(p, SYS_clone3, MISSING); /* the C library then takes clone, whose flags can be seen */
    put_call_by(p, SYS_openat, 0, BPF_JEQ, (uint32_t)AT_FDCWD, MISSING, ALLOW);
    put_call_by(p, SYS_prctl, 0, BPF_JEQ, PR_SET_NAME, ALLOW, MISSING);
    put_call_by(p, SYS_tgkill, 0, BPF_JEQ, (uint32_t)getpid(), ALLOW, KILL);
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
        put_call(p, allowed[i], ALLOW);
    for (size_t i = 0; i < ARRAY_LEN(hostile); i++)
        put_call(p, hostile[i], KILL);
    put_return(p, MISSING); /* another version of the engine may ask for something new, and do without */
}

static int confine_calls(enum jail kind, struct error *err)
{
    struct program p = {.length = 0};
    write_program(&p, kind);
    const struct sock_fprog filter = {p.length, p.code};
    if (p.length == PROGRAM_MAX || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "confine the command by a filter of system calls");
    return 0;
}

int jail_enter(enum jail kind, int root, struct error *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "give up new privileges");
    return confine_files(root, err) < 0 ? -1 : confine_calls(kind, err);
}

/* --- the rest --- */

int jail_drop_privileges(struct error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &header, none) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "give up capabilities");
    return 0;
}

/* The sixth figure of statm(5): pages of data and stack. */
uint64_t jail_memory_now(void)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(256);
    unsigned long pages = 0;
    if (file_read(AT_FDCWD, "/proc/self/statm", &text, NULL) < 0 ||
        sscanf(buf_str(&text), "%*u %*u %*u %*u %*u %lu", &pages) != 1)
        return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

int jail_limit_memory(uint64_t bytes, struct error *err)
{
    if (setrlimit(RLIMIT_DATA, &(struct rlimit){bytes, bytes}) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "limit the memory");
    return 0;
}
