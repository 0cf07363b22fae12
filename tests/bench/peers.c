/* Our server beside the two Python programs that it replaces: the same calls, in alternation. */
#include <stdio.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/mem.h"
#include "bench.h"
#include "measure.h"

#define PEER_RUNS 10 /* a computer of theirs takes seconds to end */
#define PEER_CALLS 5 /* warm ones for each run */
#define END_SECONDS 60.0
#define PYTHON_NAME "mcp-sandbox-computer-vm-for-ai"

/* What they use unless PEER_ARGS say something else. */
static const char *const docker_info_argv[] = {"docker", "info", NULL};

struct program {
    const char *title, *tool;
    const char *path;
    const char *const *args; /* NULL-terminated */
    struct series start, first, warm;
};

/* What pip installs as a program is a script that begins with its interpreter. */
static bool is_script(const char *path)
{
    char begin[2] = "";
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && access(path, X_OK) == 0 && read(fd, begin, sizeof begin) == sizeof begin &&
           memcmp(begin, "#!", sizeof begin) == 0;
}

const char *peer_python(void)
{
    static char *found;
    const char *named = getenv("PEER_PYTHON_V"), *path = getenv("PATH");
    if (named && *named)
        return named;
    while (!found && path && *path) {
        const size_t n = strcspn(path, ":");
        _cleanup_(cleanup_free) char *one = xasprintf("%.*s/" PYTHON_NAME, (int)n, path);
        if (is_script(one))
            found = xstrdup(one);
        path += path[n] ? n + 1 : n;
    }
    return found;
}

static const char **split(char *text)
{
    const char **words = xcalloc(16, sizeof *words);
    size_t n = 0;
    for (char *word = strtok(text, " "); word && n + 1 < 14; word = strtok(NULL, " "))
        words[n++] = word;
    return words;
}

static void measure(struct program *p)
{
    struct subject s;
    subject_start(&s, p->path, p->args);
    series_add(&p->start, s.initialize_ms);
    series_add(&p->first, subject_call(&s, p->tool, "{\"command\":\"true\"}", true));
    for (int i = 0; i < PEER_CALLS; i++)
        series_add(&p->warm, subject_call(&s, p->tool, "{\"command\":\"true\"}", false));
    (void)subject_end(&s, END_SECONDS);
}

void compare_peers(struct bench *b)
{
    const char *extra = getenv("PEER_ARGS");
    _cleanup_(cleanup_free) char *text = xstrdup(extra ? extra : "");
    _cleanup_(cleanup_free) const char **peer_args = split(text);
    const char *own_args[] = {"--backend", "native", "--state-dir", b->state_dir, NULL};
    struct program programs[] = {
        {.title = "ours", .tool = "terminal_execute", .path = b->server, .args = own_args},
        {.title = "Python, computers", .tool = "terminal_execute", .args = peer_args},
        {.title = "Python, Kilntainers", .tool = "sandbox_exec", .args = peer_args},
    };
    size_t present = 1;
    programs[1].path = peer_python();
    programs[2].path = getenv("PEER_PYTHON_K");
    for (size_t i = 1; i < ARRAY_LEN(programs); i++)
        present += programs[i].path != NULL;
    if (present == 1)
        return;
    _cleanup_(cleanup_free) char *why_not = extra ? NULL : program_why_not(docker_info_argv);
    if (why_not) {
        printf("\nno comparison with the Python programs over stdio: %s\n", why_not);
        return;
    }
    for (int run = 0; run < PEER_RUNS; run++)
        for (size_t i = 0; i < ARRAY_LEN(programs); i++)
            if (programs[i].path)
                measure(&programs[i]);
    printf("\n%-22s %14s %14s %14s\n", "median ms", "initialize", "first call", "warm call");
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        struct program *p = &programs[i];
        if (p->path)
            printf("%-22s %14.1f %14.1f %14.1f\n", p->title, series_median(&p->start),
                   series_median(&p->first), series_median(&p->warm));
        series_done(&p->start);
        series_done(&p->first);
        series_done(&p->warm);
    }
}
