/* make-filter OUTPUT: writes the system call filter of computers as a C header, for each architecture that
 * the guest is built for. Runs on the building machine; libseccomp serves as the table of system call
 * numbers.
 *
 * make-filter --table OUTPUT: writes what the filter is made from, an outcome for each number, for the test
 * that holds the filter to it.
 *
 * An allow-list. What isn't named gets ENOSYS, as on a kernel that hasn't got it: programs fall back. What is
 * refused on purpose gets EPERM. A few depend on their arguments; of those only the low 32 bits are looked
 * at, as the kernel does.
 *
 * Missing though harmless to their caller are: asynchronous I/O (io_setup and so on), since all users of the
 * machine share one count of its requests; cachestat, which tells of files what others read;
 * modify_ldt and remap_file_pages, which nothing of today calls.
 *
 * The program is a binary search over ranges of numbers with the same outcome: about a hundred leaves, so
 * that loading, which each computer pays once, is short. Every leaf ends the program. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define NUMBERS 512 /* of system calls; those above get ENOSYS */
#define PROGRAM_MAX 1024
#define X32_BIT 0x40000000U
#define SOCKET_TYPE_MASK 0xfU       /* the rest are flags */
#define NAMESPACE_FLAGS 0x7E020000U /* CLONE_NEW* of clone(2) */
#define O_NOTIFICATION_PIPE O_EXCL
#define QUERY_PERSONALITY 0xffffffffU

enum outcome {
    MISSING,
    ALLOW,
    REFUSE,
    CLONE,
    CLONE3,
    SOCKET,
    SOCKETPAIR,
    IOCTL,
    PERSONALITY,
    PRLIMIT,
    PIPE2,
    MKNOD,
    MKNODAT
};

static const char *const allowed[] = {
    /* files */
    "access", "chdir", "chmod", "chown", "chroot", "close", "close_range", "copy_file_range", "creat", "dup",
    "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat",
    "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr", "flistxattr", "flock", "fremovexattr",
    "fsetxattr", "fstat", "fstatfs", "fsync", "ftruncate", "futimesat", "getcwd", "getdents", "getdents64",
    "getxattr", "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "lchown",
    "lgetxattr", "link", "linkat", "listxattr", "llistxattr", "lremovexattr", "lseek", "lsetxattr", "lstat",
    "mkdir", "mkdirat", "newfstatat", "open", "openat", "openat2", "readahead", "readlink", "readlinkat",
    "removexattr", "rename", "renameat", "renameat2", "rmdir", "setxattr", "stat", "statfs", "statx",
    "symlink", "symlinkat", "sync", "sync_file_range", "syncfs", "truncate", "umask", "unlink", "unlinkat",
    "utime", "utimensat", "utimes",
    /* reading and writing */
    "pipe", "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readv", "sendfile",
    "splice", "tee", "write", "writev",
    /* waiting */
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd",
    "eventfd2", "poll", "ppoll", "pselect6", "select",
    /* processes */
    "alarm", "arch_prctl", "capget", "capset", "execve", "execveat", "exit", "exit_group", "fork",
    "get_robust_list", "getegid", "geteuid", "getgid", "getgroups", "getpgid", "getpgrp", "getpid", "getppid",
    "getpriority", "getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "gettid", "getuid",
    "ioprio_get", "ioprio_set", "kill", "landlock_add_rule", "landlock_create_ruleset",
    "landlock_restrict_self", "pause", "pidfd_open", "pidfd_send_signal", "prctl", "process_mrelease",
    "process_vm_readv", "process_vm_writev", "ptrace", "restart_syscall", "rseq", "seccomp",
    "set_robust_list", "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups", "setpgid",
    "setpriority", "setregid", "setresgid", "setresuid", "setreuid", "setrlimit", "setsid", "setuid",
    "tgkill", "times", "tkill", "vfork", "wait4", "waitid",
    /* signals */
    "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend",
    "rt_sigtimedwait", "rt_tgsigqueueinfo", "sigaltstack", "signalfd", "signalfd4",
    /* memory */
    "brk", "get_mempolicy", "madvise", "membarrier", "memfd_create", "mincore", "mlock", "mlock2", "mlockall",
    "mmap", "mprotect", "mremap", "msync", "munlock", "munlockall", "munmap", "pkey_alloc", "pkey_free",
    "pkey_mprotect",
    /* scheduling and time */
    "clock_getres", "clock_gettime", "clock_nanosleep", "futex", "futex_waitv", "getcpu", "getitimer",
    "gettimeofday", "nanosleep", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
    "sched_getattr", "sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity",
    "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield", "setitimer", "time",
    "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create",
    "timerfd_gettime", "timerfd_settime",
    /* sockets and System V */
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen",
    "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl",
    "msgget", "msgrcv", "msgsnd", "recvfrom", "recvmmsg", "recvmsg", "semctl", "semget", "semop",
    "semtimedop", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shmat", "shmctl", "shmdt", "shmget",
    "shutdown",
    /* machine */
    "getrandom", "sysinfo", "uname"};

static const char *const refused[] = {"_sysctl",
                                      "acct",
                                      "add_key",
                                      "adjtimex",
                                      "bpf",
                                      "clock_adjtime",
                                      "clock_settime",
                                      "create_module",
                                      "delete_module",
                                      "fanotify_init",
                                      "fanotify_mark",
                                      "finit_module",
                                      "fsconfig",
                                      "fsmount",
                                      "fsopen",
                                      "fspick",
                                      "get_kernel_syms",
                                      "init_module",
                                      "io_uring_enter",
                                      "io_uring_register",
                                      "io_uring_setup",
                                      "ioperm",
                                      "iopl",
                                      "kcmp",
                                      "kexec_file_load",
                                      "kexec_load",
                                      "keyctl",
                                      "lookup_dcookie",
                                      "mbind",
                                      "memfd_secret",
                                      "migrate_pages",
                                      "mount",
                                      "mount_setattr",
                                      "move_mount",
                                      "move_pages",
                                      "name_to_handle_at",
                                      "nfsservctl",
                                      "open_by_handle_at",
                                      "open_tree",
                                      "perf_event_open",
                                      "pidfd_getfd",
                                      "pivot_root",
                                      "process_madvise",
                                      "query_module",
                                      "quotactl",
                                      "quotactl_fd",
                                      "reboot",
                                      "request_key",
                                      "set_mempolicy",
                                      "set_mempolicy_home_node",
                                      "setdomainname",
                                      "sethostname",
                                      "setns",
                                      "settimeofday",
                                      "swapoff",
                                      "swapon",
                                      "sysfs",
                                      "syslog",
                                      "umount2",
                                      "unshare",
                                      "uselib",
                                      "userfaultfd",
                                      "ustat",
                                      "vhangup",
                                      "vmsplice"};

/* Newer than the library's table; from 424 on all architectures share their numbers. */
static const struct {
    unsigned first, last;
    enum outcome outcome;
} numbered[] = {
    {449, 449, ALLOW},  /* futex_waitv */
    {450, 450, REFUSE}, /* set_mempolicy_home_node */
    {452, 452, ALLOW},  /* fchmodat2 */
    {457, 461, REFUSE}, /* statmount, listmount, lsm_get_self_attr, lsm_set_self_attr, lsm_list_modules */
    {462, 466, ALLOW},  /* mseal, setxattrat, getxattrat, listxattrat, removexattrat */
    {467, 467, REFUSE}, /* open_tree_attr */
};

static const struct {
    const char *name;
    enum outcome outcome;
} conditional[] = {
    {"clone", CLONE}, {"clone3", CLONE3},           {"socket", SOCKET},     {"socketpair", SOCKETPAIR},
    {"ioctl", IOCTL}, {"personality", PERSONALITY}, {"prlimit64", PRLIMIT}, {"pipe2", PIPE2},
    {"mknod", MKNOD}, {"mknodat", MKNODAT},
};

static const struct {
    const char *macro;
    uint32_t library, audit;
} architectures[] = {
    {"__x86_64__", SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64},
    {"__aarch64__", SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64},
};

struct program {
    struct sock_filter code[PROGRAM_MAX];
    unsigned length;
    unsigned token[4]; /* where the comparisons with clone3's token are */
};

struct range {
    unsigned first;
    enum outcome outcome;
};

/* --- instructions --- */

static void put(struct program *program, unsigned code, uint32_t k, unsigned jt, unsigned jf)
{
    assert(program->length < PROGRAM_MAX && jt < 256 && jf < 256);
    program->code[program->length++] =
        (struct sock_filter){.code = (uint16_t)code, .jt = (uint8_t)jt, .jf = (uint8_t)jf, .k = k};
}

static void put_load(struct program *program, size_t offset)
{
    put(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* Both machines are little-endian: the low half comes first. */
static void put_load_argument(struct program *program, unsigned index, bool high)
{
    put_load(program,
             offsetof(struct seccomp_data, args) + index * sizeof(uint64_t) + (high ? sizeof(uint32_t) : 0));
}

static void put_return(struct program *program, uint32_t action)
{
    put(program, BPF_RET | BPF_K, action, 0, 0);
}

static void put_error(struct program *program, uint32_t number)
{
    put_return(program, SECCOMP_RET_ERRNO | number);
}

/* If the accumulator is `value`, the program ends with `action`; else it goes on. */
static void put_case(struct program *program, uint32_t value, uint32_t action)
{
    put(program, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    put_return(program, action);
}

/* --- outcomes --- */

static void put_clone(struct program *program)
{
    put_load_argument(program, 0, false);
    put(program, BPF_JMP | BPF_JSET | BPF_K, NAMESPACE_FLAGS, 0, 1);
    put_error(program, EPERM);
    put_return(program, SECCOMP_RET_ALLOW);
}

/* The guest fills the token in: guest/privileges.c. */
static void put_clone3(struct program *program)
{
    for (unsigned i = 0; i < ARRAY_LEN(program->token); i++) {
        put_load_argument(program, 4 + i / 2, i % 2);
        program->token[i] = program->length;
        put(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
        put_error(program, ENOSYS);
    }
    put_return(program, SECCOMP_RET_ALLOW);
}

/* The type and the protocol of a socket of the internet. Others than these have the host load modules: SCTP,
 * DCCP, multipath TCP, and so on. The kernel refuses raw sockets by itself. */
static void put_internet_socket(struct program *program)
{
    static const uint32_t protocols[] = {IPPROTO_IP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6};
    put_load_argument(program, 1, false);
    put(program, BPF_ALU | BPF_AND | BPF_K, SOCKET_TYPE_MASK, 0, 0);
    put(program, BPF_JMP | BPF_JGT | BPF_K, SOCK_RAW, 0, 1);
    put_error(program, ESOCKTNOSUPPORT);
    put_load_argument(program, 2, false);
    for (size_t i = 0; i < ARRAY_LEN(protocols); i++)
        put_case(program, protocols[i], SECCOMP_RET_ALLOW);
    put_error(program, EPROTONOSUPPORT);
}

static void put_socket(struct program *program)
{
    put_load_argument(program, 0, false);
    put_case(program, AF_UNIX, SECCOMP_RET_ALLOW);
    put(program, BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 4);
    put_load_argument(program, 2, false);
    put_case(program, NETLINK_ROUTE, SECCOMP_RET_ALLOW);
    put_error(program, EAFNOSUPPORT);
    put(program, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 2, 0);
    put(program, BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 1, 0);
    put_error(program, EAFNOSUPPORT);
    put_internet_socket(program);
}

static void put_socketpair(struct program *program)
{
    put_load_argument(program, 0, false);
    put_case(program, AF_UNIX, SECCOMP_RET_ALLOW);
    put_error(program, EAFNOSUPPORT);
}

static void put_ioctl(struct program *program)
{
    put_load_argument(program, 1, false);
    put_case(program, TIOCSTI, SECCOMP_RET_ERRNO | EPERM);
    put_case(program, TIOCLINUX, SECCOMP_RET_ERRNO | EPERM);
    put_case(program, TIOCSETD, SECCOMP_RET_ERRNO | EPERM); /* the host would load line disciplines */
    put_return(program, SECCOMP_RET_ALLOW);
}

static void put_personality(struct program *program)
{
    static const uint32_t harmless[] = {0, 0x40000 /* ADDR_NO_RANDOMIZE */, 8 /* PER_LINUX32 */,
                                        QUERY_PERSONALITY};
    put_load_argument(program, 0, false);
    for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
        put_case(program, harmless[i], SECCOMP_RET_ALLOW);
    put_error(program, EPERM);
}

/* No pipes that the kernel itself writes into (its watch queues), as where it is built without them. */
static void put_pipe2(struct program *program)
{
    put_load_argument(program, 1, false);
    put(program, BPF_JMP | BPF_JSET | BPF_K, O_NOTIFICATION_PIPE, 0, 1);
    put_error(program, ENOPKG);
    put_return(program, SECCOMP_RET_ALLOW);
}

/* Not of init: it bears the same ids, so the kernel would let anybody inside end it by its limits. */
static void put_prlimit(struct program *program)
{
    put_load_argument(program, 0, false);
    put_case(program, 1, SECCOMP_RET_ERRNO | EPERM);
    put_return(program, SECCOMP_RET_ALLOW);
}

/* No device nodes. Without capabilities the kernel refuses all but overlay's whiteouts, and where it is older
 * it doesn't ask Landlock about these. */
static void put_mknod(struct program *program, unsigned mode)
{
    put_load_argument(program, mode, false);
    put(program, BPF_ALU | BPF_AND | BPF_K, S_IFMT, 0, 0);
    put_case(program, S_IFCHR, SECCOMP_RET_ERRNO | EPERM);
    put_case(program, S_IFBLK, SECCOMP_RET_ERRNO | EPERM);
    put_return(program, SECCOMP_RET_ALLOW);
}

static void put_outcome(struct program *program, enum outcome outcome)
{
    switch (outcome) {
    case MISSING:
        put_error(program, ENOSYS);
        return;
    case ALLOW:
        put_return(program, SECCOMP_RET_ALLOW);
        return;
    case REFUSE:
        put_error(program, EPERM);
        return;
    case CLONE:
        put_clone(program);
        return;
    case CLONE3:
        put_clone3(program);
        return;
    case SOCKET:
        put_socket(program);
        return;
    case SOCKETPAIR:
        put_socketpair(program);
        return;
    case IOCTL:
        put_ioctl(program);
        return;
    case PERSONALITY:
        put_personality(program);
        return;
    case PRLIMIT:
        put_prlimit(program);
        return;
    case PIPE2:
        put_pipe2(program);
        return;
    case MKNOD:
        put_mknod(program, 1);
        return;
    case MKNODAT:
        put_mknod(program, 2);
        return;
    default:
        abort();
    }
}

/* --- search --- */

/* The lower half follows its comparison, the upper half the lower; a jump over more than a byte's worth goes
 * in two steps. */
static void put_search(struct program *program, const struct range *ranges, unsigned count)
{
    if (count == 1) {
        put_outcome(program, ranges[0].outcome);
        return;
    }
    unsigned half = count / 2;
    unsigned comparison = program->length;
    put(program, BPF_JMP | BPF_JGE | BPF_K, ranges[half].first, 0, 1);
    put(program, BPF_JMP | BPF_JA, 0, 0, 0);
    put_search(program, ranges, half);
    program->code[comparison + 1].k = program->length - comparison - 2;
    put_search(program, ranges + half, count - half);
}

static unsigned find_ranges(const enum outcome outcomes[NUMBERS], struct range ranges[NUMBERS + 1])
{
    unsigned count = 0;
    for (unsigned i = 0; i < NUMBERS; i++)
        if (i == 0 || outcomes[i] != outcomes[i - 1])
            ranges[count++] = (struct range){i, outcomes[i]};
    if (ranges[count - 1].outcome != MISSING)
        ranges[count++] = (struct range){NUMBERS, MISSING};
    return count;
}

/* Names that an architecture hasn't got resolve to negative numbers. */
static void set_outcome(enum outcome outcomes[NUMBERS], uint32_t architecture, const char *name,
                        enum outcome outcome)
{
    int number = seccomp_syscall_resolve_name_arch(architecture, name);
    if (number == __NR_SCMP_ERROR)
        fprintf(stderr, "make-filter: the library doesn't know %s: it is refused\n", name);
    assert(number < NUMBERS);
    if (number >= 0)
        outcomes[number] = outcome;
}

static void find_outcomes(enum outcome outcomes[NUMBERS], uint32_t library)
{
    memset(outcomes, 0, NUMBERS * sizeof(*outcomes)); /* MISSING */
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
        set_outcome(outcomes, library, allowed[i], ALLOW);
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        set_outcome(outcomes, library, refused[i], REFUSE);
    for (size_t i = 0; i < ARRAY_LEN(conditional); i++)
        set_outcome(outcomes, library, conditional[i].name, conditional[i].outcome);
    for (size_t i = 0; i < ARRAY_LEN(numbered); i++)
        for (unsigned number = numbered[i].first; number <= numbered[i].last; number++)
            outcomes[number] = numbered[i].outcome;
}

static void make_program(struct program *program, uint32_t library, uint32_t audit)
{
    enum outcome outcomes[NUMBERS];
    find_outcomes(outcomes, library);
    struct range ranges[NUMBERS + 1];
    unsigned count = find_ranges(outcomes, ranges);
    put_load(program, offsetof(struct seccomp_data, arch));
    put(program, BPF_JMP | BPF_JEQ | BPF_K, audit, 1, 0);
    put_return(program, SECCOMP_RET_KILL_PROCESS);
    put_load(program, offsetof(struct seccomp_data, nr));
    if (audit == AUDIT_ARCH_X86_64) {
        put(program, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
        put_error(program, ENOSYS);
    }
    put_search(program, ranges, count);
}

static void print_program(FILE *out, const char *macro, const struct program *program)
{
    fprintf(out, "#if defined(%s)\nstatic struct sock_filter filter[] = {\n", macro);
    for (unsigned i = 0; i < program->length; i++) {
        const struct sock_filter *code = &program->code[i];
        fprintf(out, "    {0x%02x, %u, %u, 0x%08x},\n", code->code, code->jt, code->jf, code->k);
    }
    fprintf(out, "};\n/* Where clone3's token goes: the halves of its two words, the low one first. */\n");
    fprintf(out, "static const unsigned short filter_token[] = {%u, %u, %u, %u};\n#endif\n",
            program->token[0], program->token[1], program->token[2], program->token[3]);
}

static void print_filter(FILE *out)
{
    fprintf(out, "#include <linux/filter.h>\n\n");
    for (size_t i = 0; i < ARRAY_LEN(architectures); i++) {
        static struct program program;
        memset(&program, 0, sizeof(program));
        make_program(&program, architectures[i].library, architectures[i].audit);
        print_program(out, architectures[i].macro, &program);
    }
}

/* A letter for each number: missing, allowed, refused, or conditional. */
static char outcome_letter(enum outcome outcome)
{
    switch (outcome) {
    case MISSING:
        return 'm';
    case ALLOW:
        return 'a';
    case REFUSE:
        return 'r';
    case CLONE:
    case CLONE3:
    case SOCKET:
    case SOCKETPAIR:
    case IOCTL:
    case PERSONALITY:
    case PRLIMIT:
    case PIPE2:
    case MKNOD:
    case MKNODAT:
    default:
        return 'c';
    }
}

static void print_table(FILE *out)
{
    for (size_t i = 0; i < ARRAY_LEN(architectures); i++) {
        enum outcome outcomes[NUMBERS];
        find_outcomes(outcomes, architectures[i].library);
        fprintf(out, "#if defined(%s)\nstatic const char filter_table[] = \"", architectures[i].macro);
        for (unsigned number = 0; number < NUMBERS; number++)
            fputc(outcome_letter(outcomes[number]), out);
        fprintf(out, "\";\n#endif\n");
    }
}

int main(int argc, char **argv)
{
    const bool table = argc == 3 && strcmp(argv[1], "--table") == 0;
    if (argc != 2 && !table) {
        fprintf(stderr, "usage: make-filter [--table] OUTPUT\n");
        return 2;
    }
    const char *path = argv[argc - 1];
    FILE *out = fopen(path, "w");
    if (!out) {
        perror(path);
        return 1;
    }
    fprintf(out, "/* Made by tools/make-filter.c. */\n#pragma once\n\n");
    if (table)
        print_table(out);
    else
        print_filter(out);
    return fclose(out) ? 1 : 0;
}
