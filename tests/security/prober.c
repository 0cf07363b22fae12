/* The hostile program of the escape suite: runs inside a computer as its root, makes one attempt, and prints
 * what came of it as "NAME: value" or "NAME: ENAME". Static, so that it runs in any root file system. What an
 * attempt may answer is the business of attempts.c.
 *
 *   prober call NAME|NUMBER [ARG ...]   a raw system call. ARG: a number, @N (N zero bytes), or text
 *   prober ask NAME|NUMBER [ARG ...]    what the filter says of that call, without making it
 *   prober table                        the same for every number, held to what the filter was made from
 *   prober sweep FIRST LAST VALUE       every number in turn, each in a child that is killed if it blocks;
 *                                       VALUE for all six arguments, @ for a zeroed page, or ~SEED for a
 *                                       random choice of what such arguments are
 *
 * Asking works by a filter of our own on top, which hands every call to us, its supervisor. The kernel takes
 * the stricter answer of the two, so we hear only of calls that the computer's filter lets through, and they
 * end here. */
#include "prober.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "filter_table.h"

#define SWEEP_WAIT_MS 100
#define X32_BIT 0x40000000L
#define LET_THROUGH 999 /* no errno of the kernel */

/* clang-format off */
#define NUMBER(name) {#name, SYS_##name}
#define ERROR(e) {e, #e}
static const struct {
    const char *name;
    long number;
} numbers[] = {
    NUMBER(acct), NUMBER(add_key), NUMBER(adjtimex), NUMBER(bpf), NUMBER(chroot),
    NUMBER(clock_adjtime), NUMBER(clock_settime), NUMBER(clone), NUMBER(delete_module),
    NUMBER(fanotify_init), NUMBER(finit_module), NUMBER(fsconfig), NUMBER(fsmount), NUMBER(fsopen),
    NUMBER(fspick), NUMBER(init_module), NUMBER(io_uring_enter), NUMBER(io_uring_register),
    NUMBER(io_uring_setup), NUMBER(kcmp), NUMBER(kexec_file_load), NUMBER(kexec_load),
    NUMBER(keyctl), NUMBER(kill), NUMBER(lookup_dcookie), NUMBER(mbind), NUMBER(migrate_pages), NUMBER(mknodat),
    NUMBER(mount), NUMBER(mount_setattr), NUMBER(move_mount), NUMBER(move_pages),
    NUMBER(name_to_handle_at), NUMBER(nfsservctl), NUMBER(open_by_handle_at), NUMBER(open_tree),
    NUMBER(perf_event_open), NUMBER(personality), NUMBER(pidfd_getfd), NUMBER(pidfd_open), NUMBER(pipe2), NUMBER(prlimit64),
    NUMBER(pivot_root), NUMBER(process_madvise), NUMBER(process_vm_readv),
    NUMBER(process_vm_writev), NUMBER(ptrace), NUMBER(quotactl), NUMBER(reboot),
    NUMBER(request_key), NUMBER(sethostname), NUMBER(set_mempolicy), NUMBER(setdomainname),
    NUMBER(setns), NUMBER(setxattr), NUMBER(settimeofday), NUMBER(setpriority), NUMBER(socket), NUMBER(socketpair), NUMBER(swapoff),
    NUMBER(swapon), NUMBER(syslog), NUMBER(umount2), NUMBER(unshare), NUMBER(userfaultfd),
    NUMBER(vhangup), NUMBER(vmsplice),
#ifdef __x86_64__
    NUMBER(ioperm), NUMBER(iopl), NUMBER(modify_ldt), NUMBER(sysfs), NUMBER(uselib), NUMBER(ustat),
#endif
};

static const struct {
    int number;
    const char *name;
} errors[] = {
    ERROR(EPERM), ERROR(ENOENT), ERROR(ESRCH), ERROR(EINTR), ERROR(EIO), ERROR(ENXIO), ERROR(EBADF),
    ERROR(EAGAIN), ERROR(ENOMEM), ERROR(EACCES), ERROR(EFAULT), ERROR(EBUSY), ERROR(EEXIST),
    ERROR(EXDEV), ERROR(ENODEV), ERROR(ENOTDIR), ERROR(EISDIR), ERROR(EINVAL), ERROR(ENFILE),
    ERROR(EMFILE), ERROR(ENOTTY), ERROR(ETXTBSY), ERROR(EFBIG), ERROR(ENOSPC), ERROR(EROFS),
    ERROR(EMLINK), ERROR(ELOOP), ERROR(ENOSYS), ERROR(ENOTUNIQ), ERROR(EOPNOTSUPP),
    ERROR(EAFNOSUPPORT), ERROR(EPROTONOSUPPORT), ERROR(ECONNREFUSED), ERROR(ENETUNREACH),
    ERROR(ETIMEDOUT), ERROR(EHOSTUNREACH), ERROR(ESOCKTNOSUPPORT), ERROR(EUSERS), ERROR(ENOTCONN),
};
/* clang-format on */

int say(const char *name, long value)
{
    const char *error = NULL;
    for (size_t i = 0; value == -1 && i < ARRAY_LEN(errors); i++)
        if (errors[i].number == errno)
            error = errors[i].name;
    if (value != -1)
        printf("%s: %ld\n", name, value);
    else if (error)
        printf("%s: %s\n", name, error);
    else
        printf("%s: errno %d\n", name, errno);
    fflush(stdout);
    return value == -1;
}

static long argument(const char *text)
{
    char *end;
    if (text[0] == '@')
        return (long)calloc(1, strtoul(text + 1, NULL, 0));
    errno = 0;
    unsigned long value = strtoul(text, &end, 0);
    return *text != '\0' && *end == '\0' ? (long)value : (long)text;
}

struct question {
    long number, a[6];
    int answer; /* the filter's errno, or LET_THROUGH */
};

/* False: no such call. */
static bool read_question(int argc, char **argv, struct question *ret)
{
    if (argc < 1 || argc > 7)
        return false;
    char *end;
    *ret = (struct question){.number = strtol(argv[0], &end, 0)};
    if (*end) {
        size_t i = 0;
        while (i < ARRAY_LEN(numbers) && strcmp(numbers[i].name, argv[0]))
            i++;
        if (i == ARRAY_LEN(numbers))
            return false;
        ret->number = numbers[i].number;
    }
    for (int i = 1; i < argc; i++)
        ret->a[i - 1] = argument(argv[i]);
    return true;
}

static int call(int argc, char **argv)
{
    struct question q;
    if (!read_question(argc, argv, &q))
        return 2;
    return say(argv[0], syscall(q.number, q.a[0], q.a[1], q.a[2], q.a[3], q.a[4], q.a[5]));
}

/* --- asking the filter --- */

struct asking {
    volatile int listener; /* the asker's and ours: the descriptors are shared. -2: none could be had */
    volatile bool done;
    struct question questions[];
};

static void ask_all(struct asking *asking, size_t count)
{
    struct sock_filter notify[] = {{.code = BPF_RET | BPF_K, .k = SECCOMP_RET_USER_NOTIF}};
    const struct sock_fprog program = {.len = 1, .filter = notify};
    long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    asking->listener = listener < 0 ? -2 : (int)listener;
    for (size_t i = 0; listener >= 0 && i < count; i++) {
        struct question *q = &asking->questions[i];
        q->answer = syscall(q->number, q->a[0], q->a[1], q->a[2], q->a[3], q->a[4], q->a[5]) < 0 ? errno : 0;
    }
    asking->done = true;
    for (;;)
        (void)getppid(); /* until we are killed */
}

static bool answer_all(struct asking *asking)
{
    while (asking->listener == -1)
        (void)poll(NULL, 0, 1);
    const int listener = asking->listener;
    while (listener >= 0 && !asking->done) {
        struct seccomp_notif heard = {0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &heard) < 0)
            return false;
        struct seccomp_notif_resp answer = {.id = heard.id, .error = -LET_THROUGH};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) < 0)
            return false;
    }
    return listener >= 0;
}

static struct asking *make_asking(size_t count)
{
    struct asking *asking = mmap(NULL, sizeof(*asking) + count * sizeof(asking->questions[0]),
                                 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (asking == MAP_FAILED)
        return NULL;
    asking->listener = -1;
    return asking;
}

static bool ask_filter(struct asking *asking, size_t count)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        ask_all(asking, count);
    bool answered = pid > 0 && answer_all(asking);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return answered;
}

static int ask(int argc, char **argv)
{
    struct asking *asking = make_asking(1);
    if (!asking || !read_question(argc, argv, &asking->questions[0]))
        return 2;
    if (!ask_filter(asking, 1))
        return say("ask", -1);
    errno = asking->questions[0].answer;
    if (errno != LET_THROUGH)
        return say(argv[0], -1);
    printf("%s: let through\n", argv[0]);
    return 0;
}

/* The kernel's own way back from probes that the host sets: no filter ever sees them, and who calls them
 * otherwise is ended. */
static bool is_beyond_filters(long number)
{
#ifdef __x86_64__
    return number == 335 || number == 336; /* uretprobe, uprobe */
#else
    return false;
#endif
}

/* Where the computer has but one id, changing owners or users seems to work: a filter of its own says so. */
static bool is_faked(long number)
{
    static const long faked[] = {
#ifdef SYS_chown
        SYS_chown,    SYS_lchown,
#endif
        SYS_fchown,   SYS_fchownat, SYS_setgroups, SYS_setuid,    SYS_setgid,
        SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid,
    };
    static long ids = -1;
    FILE *map = ids < 0 ? fopen("/proc/self/uid_map", "re") : NULL;
    if (map && (fscanf(map, "%*d %*d %ld", &ids) != 1 || fclose(map) != 0))
        return false;
    for (size_t i = 0; ids == 1 && i < ARRAY_LEN(faked); i++)
        if (faked[i] == number)
            return true;
    return false;
}

/* Beyond the table and by x32, all must be missing: whatever a newer kernel brings. */
static int table(int argc, char **argv)
{
    const long known = (long)sizeof(filter_table) - 1, beyond = 600;
    long differ = 0, passed = 0, count = 0;
    struct asking *asking = make_asking(2 * (size_t)beyond);
    if (!asking)
        return say("map", -1);
    for (long i = 0; i < beyond; i++) {
        if (!is_beyond_filters(i))
            asking->questions[count++].number = i;
#ifdef __x86_64__
        asking->questions[count++].number = X32_BIT + i;
#endif
    }
    if (!ask_filter(asking, (size_t)count))
        return say("ask", -1);
    for (long i = 0; i < count; i++) {
        const struct question *q = &asking->questions[i];
        const char outcome = q->number < known ? filter_table[q->number] : 'm';
        const int allowed = is_faked(q->number) ? 0 : LET_THROUGH;
        const int expected = outcome == 'a' ? allowed : outcome == 'r' ? EPERM : ENOSYS;
        passed += q->answer == LET_THROUGH;
        if (outcome == 'c' || q->answer == expected)
            continue;
        differ++;
        printf("%#lx: %d instead of %d\n", q->number, q->answer, expected);
    }
    printf("table: %ld numbers, %ld let through, %ld differ\n", count, passed, differ);
    return differ != 0;
}

/* --- calling every number --- */

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* What arguments are: numbers, descriptors of every kind, names, structures, and what looks like them. */
static long random_argument(uint64_t *state, char *page)
{
    static const long plain[] = {0, -1, 1, 2, 4095, 4096, 0x7fffffff, 0x80000000, -100, 0x541c};
    const uint64_t pick = random_next(state), more = random_next(state);
    switch (pick % 6) {
    case 0:
        return plain[more % ARRAY_LEN(plain)];
    case 1:
        return (long)(more % 12);
    case 2:
        return (long)page;
    case 3:
        return (long)strcpy(page + 8192, "/tmp/swept/file");
    case 4:
        for (size_t i = 0; i < 4096; i += sizeof(uint64_t))
            memcpy(page + 4096 + i, &(uint64_t){random_next(state) & random_next(state)}, sizeof(uint64_t));
        return (long)page + 4096;
    default:
        return (long)(1UL << more % 64);
    }
}

static void open_descriptors(void)
{
    (void)mkdir("/tmp/swept", 0700);
    (void)chdir("/tmp/swept");
    (void)open("/tmp/swept", O_RDONLY | O_DIRECTORY);
    (void)open("file", O_RDWR | O_CREAT, 0600);
    (void)open("/usr/bin/env", O_RDONLY);
    (void)open("/dev/ptmx", O_RDWR | O_NOCTTY);
    (void)socket(AF_UNIX, SOCK_DGRAM, 0);
    (void)socket(AF_INET, SOCK_STREAM, 0);
    (void)syscall(SYS_epoll_create1, 0);
    (void)syscall(SYS_memfd_create, "swept", 2);
    (void)syscall(SYS_pidfd_open, getpid(), 0);
}

/* Those would end the sweep itself, though nothing else. */
static bool ends_others(long number)
{
    return number == SYS_kill || number == SYS_tkill || number == SYS_tgkill || number == SYS_ptrace ||
           number == SYS_rt_sigqueueinfo || number == SYS_rt_tgsigqueueinfo ||
           number == SYS_pidfd_send_signal || number == SYS_setpriority || number == SYS_prlimit64;
}

/* In a child of its own: whatever the call does to its caller, the sweep goes on. */
static void sweep_one(long number, const char *value, char *page)
{
    long a[6];
    signal(SIGALRM, SIG_DFL);
    close(0);
    if (value[0] == '~') {
        uint64_t state = 0x9e3779b97f4a7c15U * (strtoul(value + 1, NULL, 0) * 1024 + (uint64_t)number + 1);
        open_descriptors();
        if (ends_others(number) && (setuid(10000) < 0 || getuid() == 0))
            _exit(1);
        for (int i = 0; i < 6; i++)
            a[i] = random_argument(&state, page);
    } else {
        for (int i = 0; i < 6; i++)
            a[i] = value[0] == '@' ? (long)page : atol(value);
    }
    (void)syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    _exit(0); /* also of the children that fork, vfork and clone make */
}

static int sweep(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    long first = strtol(argv[0], NULL, 0), last = strtol(argv[1], NULL, 0);
    char *page = calloc(1, 65536);
    long ran = 0, died = 0, killed = 0;
    for (long number = first; number <= last; number++) {
        pid_t pid = fork();
        if (pid == 0)
            sweep_one(number, argv[2], page);
        int pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1, status = 0;
        struct pollfd wait = {.fd = pidfd, .events = POLLIN};
        if (pidfd < 0)
            return say("sweep", -1);
        if (poll(&wait, 1, SWEEP_WAIT_MS) == 0) {
            kill(pid, SIGKILL);
            killed++;
        }
        close(pidfd);
        waitpid(pid, &status, 0);
        ran++;
        died += WIFSIGNALED(status);
    }
    printf("sweep: %ld numbers, %ld ended by a signal, %ld of them blocked\n", ran, died, killed);
    return 0;
}

static int clone3_flags(int argc, char **argv)
{
    uint64_t args[11] = {argc > 0 ? strtoull(argv[0], NULL, 0) : 0, [4] = SIGCHLD};
    return say("clone3", syscall(SYS_clone3, args, sizeof args));
}

static int unix_address(struct sockaddr_un *a, const char *name, socklen_t *len)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t abstract = name[0] == '/' ? 0 : 1;
    snprintf(a->sun_path + abstract, sizeof a->sun_path - abstract, "%s", name);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name));
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static int tcp_address(struct sockaddr_in *a, const char *address, const char *port)
{
    *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    unsigned b[4] = {0};
    (void)sscanf(address, "%u.%u.%u.%u", b, b + 1, b + 2, b + 3);
    a->sin_addr.s_addr = htonl(b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3]);
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* connect-unix PATH-OR-ABSTRACT-NAME */
static int connect_unix(int argc, char **argv)
{
    struct sockaddr_un a;
    socklen_t len;
    int fd = unix_address(&a, argc > 0 ? argv[0] : "", &len);
    return say("connect", connect(fd, (struct sockaddr *)&a, len));
}

/* connect-tcp ADDRESS PORT */
static int connect_tcp(int argc, char **argv)
{
    struct sockaddr_in a;
    if (argc != 2)
        return 2;
    int fd = tcp_address(&a, argv[0], argv[1]);
    return say("connect", connect(fd, (struct sockaddr *)&a, sizeof a));
}

/* listen ABSTRACT-NAME PORT FILE: the victim. Makes FILE when anybody connects. */
static int victim(int argc, char **argv)
{
    struct sockaddr_un u;
    struct sockaddr_in t;
    socklen_t len;
    if (argc != 3)
        return 2;
    int fds[] = {unix_address(&u, argv[0], &len), tcp_address(&t, "0.0.0.0", argv[1])};
    if (bind(fds[0], (struct sockaddr *)&u, len) < 0 || listen(fds[0], 1) < 0 ||
        bind(fds[1], (struct sockaddr *)&t, sizeof t) < 0 || listen(fds[1], 1) < 0)
        return say("listen", -1);
    struct pollfd wait[] = {{.fd = fds[0], .events = POLLIN}, {.fd = fds[1], .events = POLLIN}};
    (void)poll(wait, 2, -1);
    return open(argv[2], O_CREAT | O_WRONLY, 0600) < 0;
}

/* Every system call by the 32-bit entry, which has other numbers: each is the end of its caller. */
static int compat_calls(int argc, char **argv)
{
#ifdef __x86_64__
    long last = argc > 0 ? atol(argv[0]) : 0, lived = 0;
    for (long number = 0; number <= last; number++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) {
            long result = number;
            __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
            _exit(0);
        }
        lived += pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status);
    }
    return say("compat", lived);
#else
    return say("compat", 0);
#endif
}

/* open FILE MODE, with MODE one of r w: for files whose reading through a shell would tell less. */
static int open_file(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    return say("open", open(argv[0], (argv[1][0] == 'w' ? O_WRONLY : O_RDONLY) | O_CLOEXEC | O_NONBLOCK));
}

static const struct mode modes[] = {
    {"call", call},
    {"ask", ask},
    {"table", table},
    {"sweep", sweep},
    {"clone3", clone3_flags},
    {"connect-unix", connect_unix},
    {"connect-tcp", connect_tcp},
    {"listen", victim},
    {"compat", compat_calls},
    {"open", open_file},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(modes); i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run(argc - 2, argv + 2);
    for (size_t i = 0; argc > 1 && i < trick_count; i++)
        if (strcmp(argv[1], tricks[i].name) == 0)
            return tricks[i].run(argc - 2, argv + 2);
    fprintf(stderr, "prober: no such attempt\n");
    return 2;
}
