/* Everything of a command is complete before it exists: input that a pipe can hold is in it, and the script
 * is written and sealed. */
#include "guest/start.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest/exec.h"
#include "guest/init.h"
#include "guest/memory.h"
#include "guest/oom.h"
#include "guest/reaper.h"
#include "guest/sys.h"

#define ENVIRONMENT_MAX 2048 /* of our own that is passed on */

/* The command's ends; closed here once it has them. */
struct far {
    int in, out[2], script;
};

static void far_close(struct far *far)
{
    far->in = sys_close(far->in);
    far->out[0] = sys_close(far->out[0]);
    far->out[1] = sys_close(far->out[1]);
    far->script = sys_close(far->script);
}

void pipes_close(struct pipes *pipes)
{
    pipes->in = sys_close(pipes->in);
    pipes->out[0] = sys_close(pipes->out[0]);
    pipes->out[1] = sys_close(pipes->out[1]);
}

void pipes_write_input(struct pipes *pipes)
{
    ssize_t n = pipes->input_left > 0 ? write(pipes->in, pipes->input, pipes->input_left) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    /* A command that reads no further (EPIPE) is no error. */
    pipes->input_left = n < 0 ? 0 : pipes->input_left - (size_t)n;
    pipes->input += n < 0 ? 0 : n;
    if (pipes->input_left == 0)
        pipes->in = sys_close(pipes->in);
}

/* `near` is 0 where we read. */
static int make_pipe(unsigned near, int *ret_near, int *ret_far)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    *ret_near = ends[near];
    *ret_far = ends[1 - near];
    return fcntl(*ret_near, F_SETFL, O_NONBLOCK);
}

/* Where there are no memfds, a file without a name does, which only the command itself can change. */
static int make_script(const char *bytes, size_t size)
{
    int fd = memfd_create("script", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    for (size_t done = 0; fd >= 0 && done < size;) {
        ssize_t n = write(fd, bytes + done, size - done);
        if (n <= 0)
            return sys_close(fd);
        done += (size_t)n;
    }
    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return sys_close(fd);
    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    return fd;
}

static int make_ends(const struct request_run *run, struct pipes *pipes, struct far *far)
{
    for (unsigned i = 0; i < 2; i++)
        if (make_pipe(0, &pipes->out[i], &far->out[i]) < 0)
            return -1;
    if (run->script && (far->script = make_script(run->script, run->script_size)) < 0)
        return -1;
    if (!run->input)
        return 0;
    if (make_pipe(1, &pipes->in, &far->in) < 0)
        return -1;
    pipes->input = run->input;
    pipes->input_left = run->input_size;
    pipes_write_input(pipes);
    return 0;
}

static bool has_name(char *const *entries, unsigned count, const char *entry)
{
    const size_t length = strcspn(entry, "=");
    for (unsigned i = 0; i < count; i++)
        if (strncmp(entries[i], entry, length) == 0 && entries[i][length] == '=')
            return true;
    return false;
}

/* From the last to the first, since the last of each name counts. */
static unsigned add_environment(char **merged, unsigned count, char *const *layer, unsigned most)
{
    unsigned n = 0;
    while (n < most && layer[n])
        n++;
    while (n-- > 0)
        if (!has_name(merged, count, layer[n]))
            merged[count++] = layer[n];
    return count;
}

/* Ours beneath what the request has. */
static char **merge_environment(char *const *given)
{
    static char *merged[REQUEST_ENVC_MAX + ENVIRONMENT_MAX + 1];
    unsigned count = add_environment(merged, 0, given, REQUEST_ENVC_MAX);
    count = add_environment(merged, count, environ, ENVIRONMENT_MAX);
    merged[count] = NULL;
    return merged;
}

pid_t start_command(uint32_t id, struct request_run *run, void *mapped, size_t mapped_size,
                    const struct rlimit *files, bool tied, struct pipes *ret)
{
    struct far far = {.in = -1, .out = {-1, -1}, .script = -1};
    struct pipes pipes = PIPES_NONE;
    pid_t pid = -1;
    if (make_ends(run, &pipes, &far) == 0) {
        struct request_exec request = run->exec;
        request.envp = merge_environment(run->exec.envp);
        request.cwd = run->exec.cwd[0] ? run->exec.cwd : ".";
        const struct launch launch = {.request = &request,
                                      .in = far.in,
                                      .out = far.out[0],
                                      .err = far.out[1],
                                      .scope = -1,
                                      .script = far.script,
                                      .files = *files,
                                      .tied = tied,
                                      .mapped = mapped,
                                      .mapped_size = mapped_size};
        memory_share(mapped, mapped_size, true);
        oom_raise_score();
        pid = reaper_start(FD_SYNC, &launch, id);
    }
    int saved = errno;
    oom_restore_score();
    memory_share(mapped, mapped_size, false);
    far_close(&far);
    if (pid < 0)
        pipes_close(&pipes);
    *ret = pipes;
    errno = saved;
    return pid;
}
