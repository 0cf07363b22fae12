/* Each verb is a process of its own, which ends soon; what lasts are files, in PLACE/jobs/ID:
 *
 *   in    the input, piece by piece; gone once the job has it open
 *   more  a pipe: what it is told later, that is, to end
 *   out   all that it says. It is locked (flock) as long as the job lives, however it ends; its end is
 * awaited by waiting for the lock. Where it is, the job was begun: it never is again
 *
 * The folder's own lock orders who keeps, begins and ends. The job itself is `serve` in a session of its own,
 * child of nobody: the end of the exec that began it is nothing to it. */
#include "guest/job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/environment.h"
#include "guest/job_text.h"
#include "guest/job_wire.h"
#include "guest/memory.h"
#include "guest/place.h"
#include "guest/report.h"
#include "guest/serve.h"
#include "guest/sweep.h"
#include "guest/sys.h"
#include "guest/tail.h"

#define JOBS "jobs"
#define IN "in"
#define MORE "more"
#define OUT "out"
#define ORDER_WAIT_MS 5000 /* for the folder: others have it for moments only */
#define KEPT_S 600         /* after its last word, whether or not anybody has heard it */

struct job {
    const char *id;
    int place, jobs, folder; /* descriptors; -1: not there */
    uint64_t offset;         /* that was asked for */
    uint64_t input_size;
    int64_t wait_ms;
    bool ends; /* after the wait */
    char **done;
};

/* --- locks --- */

static void on_alarm(int signal)
{
    (void)signal;
}

/* The alarm rings again and again: once could be just before we begin to wait. */
static void ring_after(int64_t ms)
{
    const struct sigaction ring = {.sa_handler = on_alarm};
    const struct itimerval timer = {
        .it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000},
        .it_interval = {.tv_usec = ms > 0 ? 20000 : 0},
    };
    sigaction(SIGALRM, &ring, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* -1 with errno: EWOULDBLOCK, it is still held by another. */
static int lock(int fd, int operation, int64_t ms)
{
    if (flock(fd, operation | LOCK_NB) == 0)
        return 0;
    if (errno != EWOULDBLOCK || ms <= 0)
        return -1;
    const int64_t until = sys_clock_ns() + ms * NS_PER_MS;
    int failed = -1;
    ring_after(ms);
    errno = EINTR;
    while (failed < 0 && errno == EINTR && sys_clock_ns() < until)
        failed = flock(fd, operation);
    const int saved = errno;
    ring_after(0);
    errno = saved == EINTR ? EWOULDBLOCK : saved;
    return failed;
}

/* --- files --- */

static bool is_over(int out)
{
    return flock(out, LOCK_SH | LOCK_NB) == 0;
}

/* Never while it runs. `whole`: its name too, so that it could be begun again. */
static void forget(int jobs, const char *id, bool whole)
{
    struct guest_error unused;
    _cleanup_fd_ int folder = place_open_folder(jobs, id, false, &unused);
    _cleanup_fd_ int out = folder < 0 ? -1 : place_open_file(folder, OUT, O_WRONLY);
    if (folder < 0 || (out >= 0 && !is_over(out)))
        return;
    unlinkat(folder, IN, 0);
    unlinkat(folder, MORE, 0);
    if (!whole) {
        if (out >= 0 && ftruncate(out, 0) < 0)
            return; /* then later, by its age */
    } else if (unlinkat(folder, OUT, 0) == 0 || errno == ENOENT) {
        unlinkat(jobs, id, AT_REMOVEDIR);
    }
}

/* By the clock of the machine, which may have been set either way. */
static bool is_old(int jobs, const char *id)
{
    char path[NAME_MAX + sizeof("/" OUT)];
    struct stat s;
    snprintf(path, sizeof(path), "%s/" OUT, id);
    if (fstatat(jobs, path, &s, AT_SYMLINK_NOFOLLOW) < 0 && fstatat(jobs, id, &s, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    const int64_t age = time(NULL) - s.st_mtim.tv_sec;
    return age > KEPT_S || age < -KEPT_S;
}

/* Returns how many are left. */
static unsigned sweep(int jobs)
{
    unsigned count = 0;
    DIR *list = fdopendir(openat(jobs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (struct dirent *entry; list && (entry = readdir(list));) {
        if (entry->d_name[0] == '.')
            continue;
        if (is_old(jobs, entry->d_name))
            forget(jobs, entry->d_name, true);
        else
            count++;
    }
    if (list)
        closedir(list);
    return count;
}

/* make: also one that isn't there yet. -1: it isn't (ENOENT), or can't be. */
static int open_job(struct job *job, bool make, struct guest_error *err)
{
    job->jobs = place_open_folder(job->place, JOBS, true, err);
    if (job->jobs < 0)
        return -1;
    job->folder = place_open_folder(job->jobs, job->id, false, err);
    if (job->folder >= 0 || err->sys != ENOENT || !make)
        return job->folder;
    if (sweep(job->jobs) >= JOBS_MAX)
        return report_text(err, EAGAIN, "make the job", "there are too many");
    job->folder = place_open_folder(job->jobs, job->id, true, err);
    return job->folder;
}

/* Until our end, or LOCK_UN. */
static int order(const struct job *job, int operation, struct guest_error *err)
{
    return lock(job->folder, operation, ORDER_WAIT_MS) < 0 ? report(err, "lock the job") : 0;
}

/* --- beginning --- */

/* Where a piece before it is missing, or something else is behind it, it is refused. */
static int keep(const struct job *job, bool last, struct guest_error *err)
{
    struct stat s = {0};
    _cleanup_fd_ int in = place_open_file(job->folder, IN, O_WRONLY | O_CREAT);
    if (in < 0 || fstat(in, &s) < 0)
        return report(err, "keep the input");
    if ((uint64_t)s.st_size < job->offset)
        return report_text(err, EINVAL, "keep the input", "what comes before it is missing");
    char *bytes = job_read_input(job->input_size, err);
    if (!bytes)
        return -1;
    ssize_t written = job->input_size ? pwrite(in, bytes, job->input_size, (off_t)job->offset) : 0;
    if (written < 0 || (uint64_t)written < job->input_size)
        return report_text(err, written < 0 ? errno : ENOSPC, "keep the input", "");
    if (last && ftruncate(in, (off_t)(job->offset + job->input_size)) < 0)
        return report(err, "keep the input");
    return 0;
}

static _Noreturn void become(const struct job *job, int in, int out, int more)
{
    setsid();
    const pid_t pid = fork();
    if (pid != 0)
        _exit(pid < 0);
    environment_take(job->place);
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(more, STDERR_FILENO) < 0)
        _exit(1);
    _exit(serve_run(true, false));
}

/* What can fail comes first: once `out` is there, nobody tries again. */
static int begin(const struct job *job, struct guest_error *err)
{
    if (mkfifoat(job->folder, MORE, 0600) < 0 && errno != EEXIST)
        return report(err, "make the pipe");
    _cleanup_fd_ int more = openat(job->folder, MORE, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_fd_ int in = place_open_file(job->folder, IN, O_RDONLY);
    if (more < 0 || in < 0)
        return report(err, "open what it is told");
    _cleanup_fd_ int out = place_open_file(job->folder, OUT, O_WRONLY | O_CREAT | O_EXCL);
    if (out < 0)
        return report(err, "make its file");
    if (flock(out, LOCK_EX | LOCK_NB) < 0)
        return report(err, "lock its file");
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0)
        become(job, in, out, more);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    unlinkat(job->folder, status == 0 ? IN : OUT, 0);
    return status == 0 ? 0 : report_text(err, EAGAIN, "begin", "there can be no other process");
}

static bool was_begun(const struct job *job)
{
    return faccessat(job->folder, OUT, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* --- what it has said --- */

static void tell_to_end(const struct job *job)
{
    const struct serve_frame end = {.type = SERVE_KILL, .id = SERVE_ONCE_ID};
    struct stat s;
    _cleanup_fd_ int more = openat(job->folder, MORE, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (more >= 0 && fstat(more, &s) == 0 && S_ISFIFO(s.st_mode) && write(more, &end, sizeof(end)) < 0)
        return; /* it has just ended, or doesn't listen: its lock tells */
}

/* The lock first: what is there then is all of it. */
static int answer(const struct job *job, int out, struct guest_error *err)
{
    struct job_answer head = {.state = is_over(out) ? JOB_OVER : JOB_RUNNING, .offset = job->offset};
    struct stat s;
    if (fstat(out, &s) < 0)
        return report(err, "read what it says");
    head.total = (uint64_t)s.st_size;
    if (head.offset > head.total)
        return report_text(err, ERANGE, "read what it says", "it hasn't said so much");
    head.size = (uint32_t)min_size(head.total - head.offset, JOB_ANSWER_MAX);
    return job_print(&head, out, err);
}

static int hear(const struct job *job, struct guest_error *err)
{
    _cleanup_fd_ int out = place_open_file(job->folder, OUT, O_RDONLY);
    if (out < 0)
        return errno == ENOENT ? job_print(&(struct job_answer){.state = JOB_ABSENT}, -1, err)
                               : report(err, "open what it says");
    int failed = lock(out, LOCK_SH, job->wait_ms);
    if (failed < 0 && job->ends) {
        tell_to_end(job);
        lock(out, LOCK_SH, JOB_END_WAIT_MS);
    }
    return answer(job, out, err);
}

/* --- verbs --- */

static int put(struct job *job, struct guest_error *err)
{
    if (open_job(job, true, err) < 0 || order(job, LOCK_EX, err) < 0)
        return -1;
    if (!was_begun(job) && keep(job, false, err) < 0)
        return -1;
    return job_print(&(struct job_answer){.state = JOB_KEPT}, -1, err);
}

static int run(struct job *job, struct guest_error *err)
{
    if (open_job(job, true, err) < 0 || order(job, LOCK_EX, err) < 0)
        return -1;
    if (!was_begun(job) && (keep(job, true, err) < 0 || begin(job, err) < 0))
        return -1;
    for (; *job->done; job->done++)
        if (strcmp(*job->done, job->id) != 0)
            forget(job->jobs, *job->done, false);
    order(job, LOCK_UN, err);
    job->offset = 0;
    return hear(job, err);
}

/* In the folder's order: one that is just being begun isn't mistaken for one that has ended. */
static int read_on(struct job *job, struct guest_error *err)
{
    if (open_job(job, false, err) < 0 && err->sys == ENOENT)
        return job_print(&(struct job_answer){.state = JOB_ABSENT}, -1, err);
    if (job->folder < 0 || order(job, LOCK_SH, err) < 0 || order(job, LOCK_UN, err) < 0)
        return -1;
    return hear(job, err);
}

static int kill_job(struct job *job, struct guest_error *err)
{
    if (open_job(job, true, err) < 0 || order(job, LOCK_EX, err) < 0)
        return -1;
    _cleanup_fd_ int out = place_open_file(job->folder, OUT, O_WRONLY | O_CREAT);
    if (out < 0)
        return report(err, "end the job");
    unlinkat(job->folder, IN, 0);
    order(job, LOCK_UN, err);
    job->ends = true;
    return hear(job, err);
}

static int touch(struct job *job, struct guest_error *err)
{
    (void)job;
    return job_print(&(struct job_answer){.state = JOB_KEPT}, -1, err);
}

static int end_all(struct job *job, struct guest_error *err)
{
    return sweep_all(err) < 0 ? -1 : touch(job, err);
}

/* --- what is asked --- */

/* What an argument means; a verb has those of its own, in order. */
enum argument { NONE, ID, OFFSET, SIZE, WAIT, THEN, DONE };

static const struct verb {
    const char *name;
    int (*run)(struct job *job, struct guest_error *err);
    enum argument arguments[7];
} verbs[] = {
    {JOB_PUT, put, {ID, OFFSET, SIZE}},
    {JOB_RUN, run, {ID, OFFSET, SIZE, WAIT, THEN, DONE}},
    {JOB_READ, read_on, {ID, OFFSET, WAIT, THEN}},
    {JOB_KILL, kill_job, {ID, OFFSET}},
    {JOB_TOUCH, touch, {NONE}},
    {JOB_SWEEP, end_all, {NONE}},
};

static bool is_id(const char *text)
{
    const size_t n = strlen(text);
    return n > 0 && n <= JOB_ID_MAX && strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz") == n;
}

static bool parse_number(const char *text, uint64_t most, uint64_t *ret)
{
    const size_t n = strlen(text);
    if (n == 0 || n > 18 || strspn(text, "0123456789") != n)
        return false;
    *ret = strtoull(text, NULL, 10);
    return *ret <= most;
}

static bool take_argument(struct job *job, enum argument what, const char *text)
{
    uint64_t wait_ms;
    switch (what) {
    case ID:
        job->id = text;
        return is_id(text);
    case OFFSET:
        return parse_number(text, INT64_MAX, &job->offset);
    case SIZE:
        return parse_number(text, JOB_PIECE_MAX, &job->input_size) &&
               job->offset <= JOB_INPUT_MAX - job->input_size;
    case WAIT:
        if (!parse_number(text, JOB_WAIT_MAX_MS, &wait_ms))
            return false;
        job->wait_ms = (int64_t)wait_ms;
        return true;
    case THEN:
        job->ends = strcmp(text, JOB_END) == 0;
        return job->ends || strcmp(text, JOB_STAY) == 0;
    case NONE:
    case DONE:
    default:
        return false;
    }
}

static bool take_arguments(struct job *job, const struct verb *verb, char **argv)
{
    const enum argument *what = verb->arguments;
    for (; *what != NONE && *what != DONE; what++, argv++)
        if (!*argv || !take_argument(job, *what, *argv))
            return false;
    job->done = argv;
    if (*what == NONE)
        return !*argv;
    unsigned count = 0;
    for (; *argv; argv++)
        if (!is_id(*argv) || ++count > JOB_DONE_MAX)
            return false;
    return true;
}

static int obey(char **argv, struct guest_error *err)
{
    struct job job = {.place = -1, .jobs = -1, .folder = -1};
    const char *const program = argv[0], *const name = argv[2];
    for (unsigned i = 0; name && i < ARRAY_LEN(verbs); i++) {
        if (strcmp(name, verbs[i].name) != 0)
            continue;
        if (!take_arguments(&job, &verbs[i], argv + 3))
            break;
        job.place = place_open(program, err);
        if (job.place < 0)
            return -1;
        place_touch(job.place);
        return verbs[i].run(&job, err);
    }
    return report_text(err, EINVAL, "understand what is asked", "");
}

int job_run(char **argv)
{
    struct job_answer failed = {.state = JOB_FAILED};
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (obey(argv, &failed.error) == 0)
        return 0;
    return job_print(&failed, -1, &(struct guest_error){0}) < 0;
}
