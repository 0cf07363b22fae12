/* A tour for people: the real server over stdio, as an AI agent's client would drive it, from nothing to
 * nothing left. Each step says what was asked, what came back, and how long it took; the exit status is 0
 * only if every step did what it should.
 *
 *   demo SERVER */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "client/host.h"
#include "client/mcp_client.h"

#define STEP_SECONDS 60
#define SHOWN_LINES 6
#define SHOWN_COLUMNS 96

struct demo {
    char folder[PATH_MAX]; /* holds the rest; removed at the end */
    char *state, *secret;
    struct host *host;
    struct mcp *server;
    int failed;
};

enum expectation { EXPECT_TIMED_OUT = 1 << 0, EXPECT_TRUNCATED = 1 << 1, EXPECT_CREATED = 1 << 2 };

/* One call of the tool. */
struct step {
    const char *title;
    const char *command;
    const char *stdin_text;
    const char *want; /* extended regular expression over stdout */
    int exit_code;
    unsigned expect;
    double timeout; /* 0: the server's */
};

static const struct step work[] = {
    {.title = "The first call makes a computer",
     .command = "echo \"hello from $(uname -s) as $(whoami), host name $(hostname)\"",
     .want = "^hello from Linux as root",
     .expect = EXPECT_CREATED},
    {.title = "A pipeline",
     .command = "seq 1 100 | awk '{s += $1} END {print \"sum\", s}' | tr a-z A-Z",
     .want = "^SUM 5050\n$"},
    {.title = "A script, written by stdin",
     .command = "cat > fib.sh && chmod +x fib.sh && ./fib.sh 10",
     .stdin_text = "#!/bin/bash\na=0 b=1\nfor ((i = 0; i < $1; i++)); do printf '%d ' $a; ((c = a + b, a = "
                   "b, b = c)); done\necho\n",
     .want = "^0 1 1 2 3 5 8 13 21 34 \n$"},
    {.title = "A write ...",
     .command = "date +%Y > /root/year && echo \"written by pid $$\"",
     .want = "^written"},
    {.title = "... that a second call reads", .command = "cat /root/year", .want = "^20[0-9][0-9]\n$"},
    {.title = "A failing command is a result, not an error",
     .command = "ls /nowhere",
     .want = "^$",
     .exit_code = 2},
    {.title = "A timeout, with what was printed until then",
     .command = "for i in 1 2 3; do echo \"line $i\"; done; sleep 60",
     .timeout = 0.5,
     .want = "^line 1\nline 2\nline 3\n",
     .exit_code = 124,
     .expect = EXPECT_TIMED_OUT},
    {.title = "A flood is cut; the full output is in the computer",
     .command = "seq 1 1000000",
     .want = "^1\n2\n3\n.*999999\n1000000\n$",
     .expect = EXPECT_TRUNCATED},
};

/* %s is a file of the host that any of its users could read. */
static const struct step hiding[] = {
    {.title = "A file of the host", .command = "cat %s", .want = "^$", .exit_code = 1},
    {.title = "The host's accounts", .command = "cat /etc/shadow", .want = "^$", .exit_code = 1},
    {.title = "The host's processes", .command = "ls -d /proc/[0-9]* | wc -l", .want = "^[1-6]\n$"},
    {.title = "The host's network", .command = "tail -n +3 /proc/net/dev | cut -d: -f1", .want = "^ *lo\n$"},
    {.title = "The host's programs are for reading",
     .command = "touch /usr/bin/mine",
     .want = "^$",
     .exit_code = 1},
    {.title = "Root inside is nobody outside",
     .command = "mount -t tmpfs none /mnt",
     .want = "^$",
     .exit_code = 32},
};

static void print_lines(const char *mark, const char *text)
{
    int lines = 0;
    for (const char *p = text; *p && lines < SHOWN_LINES; lines++) {
        size_t n = strcspn(p, "\n");
        printf("      %s %.*s%s\n", mark, n > SHOWN_COLUMNS ? SHOWN_COLUMNS : (int)n, p,
               n > SHOWN_COLUMNS ? " ..." : "");
        p += n + (p[n] == '\n');
    }
    if (lines == SHOWN_LINES)
        printf("      %s ...\n", mark);
}

static void print_title(bool ok, const char *title, int64_t ns)
{
    bool color = isatty(STDOUT_FILENO);
    const char *mark = ok ? "ok" : "FAILED";
    printf("  %s%-6s%s %-54s %9.1f ms\n", color ? (ok ? "\033[32m" : "\033[31m") : "", mark,
           color ? "\033[0m" : "", title, (double)ns / NSEC_PER_MSEC);
}

static bool finish(struct demo *d, bool ok, const char *title, int64_t ns)
{
    d->failed += !ok;
    print_title(ok, title, ns);
    return ok;
}

/* start + initialize, and what the server says about itself. */
static bool introduce(struct demo *d, const char *path)
{
    struct error err = ERROR_INIT;
    const char *argv[] = {path, "--backend", "native", "--state-dir", d->state, NULL};
    int64_t start = clock_now();
    d->server = mcp_start(argv, environ, &err);
    json_t *hello = d->server ? mcp_initialize(d->server, 10, &err) : NULL;
    bool ok = finish(d, hello != NULL, "Start the server, initialize", clock_now() - start);
    const char *version = "", *protocol = "";
    if (hello && json_unpack(hello, "{s:s, s:{s:s}}", "protocolVersion", &protocol, "serverInfo", "version",
                             &version) == 0)
        printf("      > version %s, protocol %s\n", version, protocol);
    json_decref(hello);
    if (!ok)
        printf("      %s\n%s", err.msg, d->server ? mcp_log(d->server) : "");
    return ok;
}

static void list_tools(struct demo *d)
{
    struct error err = ERROR_INIT;
    int64_t start = clock_now();
    json_t *list = mcp_call(d->server, "tools/list", NULL, 10, &err);
    const json_t *tools = json_object_get(list, "tools");
    finish(d, json_array_size(tools) > 0, "List the tools", clock_now() - start);
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(tools, i), "name"));
        const char *text = json_string_value(json_object_get(json_array_get(tools, i), "description"));
        printf("      > %s: %.*s ...\n", name ? name : "?", 72, text ? text : "");
    }
    json_decref(list);
}

static bool output_matches(const char *text, const char *pattern)
{
    regex_t re;
    if (regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    bool found = regexec(&re, text, 0, NULL, 0) == 0;
    regfree(&re);
    return found;
}

static bool as_expected(const struct step *s, const struct mcp_tool_result *r)
{
    bool timed_out = json_is_true(json_object_get(r->data, "timed_out"));
    bool truncated = json_object_get(r->data, "truncated") != NULL;
    bool created = json_is_true(json_object_get(r->data, "created"));
    return !r->is_error && r->exit_code == s->exit_code && output_matches(r->out, s->want) &&
           timed_out == ((s->expect & EXPECT_TIMED_OUT) != 0) &&
           truncated == ((s->expect & EXPECT_TRUNCATED) != 0) &&
           created == ((s->expect & EXPECT_CREATED) != 0);
}

/* The members of the result that say something: everything but what was printed. */
static void print_facts(const struct mcp_tool_result *r)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT(4 * KIB);
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)r->data, name, value) {
        if (strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0 ||
            strcmp(name, "exec_duration_ms") == 0)
            continue;
        _cleanup_(cleanup_free) char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        if (buf_printf(&line, "%s%s %s", line.len ? ", " : "", name, text) < 0)
            break;
    }
    printf("      = %s\n", buf_str(&line));
}

static void run_step(struct demo *d, const struct step *s)
{
    _cleanup_(cleanup_free) char *hidden = strstr(s->command, "%s") ? xasprintf("cat %s", d->secret) : NULL;
    const char *command = hidden ? hidden : s->command;
    json_t *arguments = json_pack("{s:s, s:s*}", "command", command, "stdin", s->stdin_text);
    if (s->timeout > 0)
        json_object_set_new(arguments, "timeout", json_real(s->timeout));
    struct error err = ERROR_INIT;
    struct mcp_tool_result r = {.result = NULL};
    bool answered = mcp_tool(d->server, "terminal_execute", arguments, STEP_SECONDS, &r, &err) == 0;
    bool ok = finish(d, answered && as_expected(s, &r), s->title, r.took_ns);
    printf("      $ %s\n", command);
    if (!answered) {
        printf("      %s\n%s", err.msg, mcp_log(d->server));
        return;
    }
    print_lines(">", r.out);
    print_lines("!", r.err);
    (void)host_own(d->host, d->state);
    if (s->expect || !ok)
        print_facts(&r);
    if (!r.data)
        print_lines("?", r.text);
    mcp_tool_result_done(&r);
}

static void leave(struct demo *d)
{
    struct error err = ERROR_INIT;
    int status = -1;
    size_t known = host_own(d->host, d->state);
    int64_t start = clock_now();
    bool ended = mcp_end(d->server, 10, &status, &err) == 0 && status == 0;
    finish(d, ended, "End of input: the server and its computers end", clock_now() - start);
    if (!ended)
        printf("      %s (status 0x%x)\n%s", err.msg, (unsigned)status, mcp_log(d->server));
    d->server = mcp_free(d->server);
    _cleanup_(buf_done) struct buf left = BUF_INIT(MIB);
    start = clock_now();
    size_t things = host_leftovers(d->host, 2, &left), computers = state_dir_computers(d->state);
    finish(d, known > 0 && things + computers == 0, "Nothing is left behind", clock_now() - start);
    printf(
        "      > of %zu computers, some of them made ahead: %zu folders, %zu processes, mounts and control "
        "groups\n",
        known, computers, things);
    print_lines("!", buf_str(&left));
}

static int prepare(struct demo *d, struct error *err)
{
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(d->folder, sizeof d->folder, "%s/demo-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(d->folder))
        return error_errno(err, ERR_UNAVAILABLE, errno, "make a folder %s", d->folder);
    (void)chmod(d->folder, 0755);
    d->state = path_join(d->folder, "state");
    d->secret = path_join(d->folder, "host.txt");
    d->host = host_remember();
    if (file_replace(AT_FDCWD, d->secret, "of the host\n", 12, false, err) < 0)
        return -1;
    return chmod(d->secret, 0644) < 0 ? error_errno(err, ERR_UNAVAILABLE, errno, "chmod %s", d->secret) : 0;
}

static void tour(struct demo *d, const char *server)
{
    printf("An agent gets a computer: %s over stdio\n\n", path_basename(server));
    if (!introduce(d, server))
        return;
    list_tools(d);
    printf("\n");
    for (size_t i = 0; i < ARRAY_LEN(work); i++)
        run_step(d, &work[i]);
    printf("\nWhat the computer can't see or do\n\n");
    for (size_t i = 0; i < ARRAY_LEN(hiding); i++)
        run_step(d, &hiding[i]);
    printf("\nThe end\n\n");
    leave(d);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: demo SERVER\n");
        return 2;
    }
    struct error err = ERROR_INIT;
    struct demo d = {.state = NULL};
    int64_t start = clock_now();
    if (prepare(&d, &err) < 0)
        fprintf(stderr, "demo: %s\n", err.msg), d.failed++;
    else
        tour(&d, argv[1]);
    mcp_free(d.server);
    host_free(d.host);
    (void)tree_remove(AT_FDCWD, d.folder, NULL);
    free(d.state);
    free(d.secret);
    if (d.failed)
        printf("\n%d step(s) didn't do what they should\n", d.failed);
    else
        printf("\nAll as it should be, in %.1f s\n", (double)(clock_now() - start) / NSEC_PER_SEC);
    return d.failed ? 1 : 0;
}
