/* The escape suite: hostile code inside a computer of the real server, and a look from outside at what it
 * reached.
 *
 *   escape SERVER PROBER [PATTERN [OPTION ...]]
 *
 * Each row of attempts.c runs in one computer; after each, that computer must still work. Meanwhile this
 * program is the host to be attacked: it holds a secret file, a process, and listeners, all of which must be
 * untouched at the end, and nothing of the computers may be left. Before, a computer that outlives its server
 * is left behind as badly as can be, and taken up by the next one. With SANDBOX_TEST_WEAK in the environment
 * computers may be weak, and weak_attempts.c has what is tried. PATTERN: only rows whose group or command
 * has it; OPTIONs are the server's, e.g. --rootfs DIR. Exit status 77: skipped. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempts.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/str.h"
#include "bystander.h"
#include "client/host.h"
#include "client/mcp_client.h"

#define SKIPPED 77
#define SECRET_TEXT "the host's secret"
#define ATTEMPT_SECONDS 20.0
#define REMOVAL_SECONDS 30.0
#define OPTIONS_MAX 16
#define AGAIN_MAX 1000
#define NOBODY 65534
#define IDS_OF_HOST 65536U /* below: users of the host */

enum listener { LISTEN_ABSTRACT, LISTEN_PATH, LISTEN_TCP, LISTENERS };

/* Of computers: where in it the prober is, how to see that it is shut in at all, what the other computer has,
 * and what must be left of that. */
static const struct kind {
    const char *prober, *isolated, *prepare, *intact;
    const struct attempt *attempts;
    const size_t *count;
} kinds[] = {
    {
        .prober = "/root/p",
        .isolated = "test ! -e $SECRET && test $(ls -d /proc/[0-9]* | wc -l) -lt 8 && echo isolated",
        .prepare =
            "mkdir /root/victim /tmp/victim && echo victim >/dev/shm/victim && ipcmk -M 4096 >/dev/null &&"
            " (exec -a victim-sleep sleep 100000 >/dev/null 2>&1 &) &&"
            " (/root/p listen victim 7777 /root/reached >/dev/null 2>&1 &)",
        .intact =
            "test ! -e /root/reached && test -d /root/victim && test -e /dev/shm/victim &&"
            " cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q '[v]ictim-sleep 1.*listen victim\\|listen "
            "victim.*[v]ictim-sleep 1'"
            " && hostname",
        .attempts = attempts,
        .count = &attempt_count,
    },
    {
        .prober = "./p",
        .isolated = "cat $SECRET 2>/dev/null || echo isolated",
        .prepare =
            "echo victim >victim && (exec -a victim-sleep sleep 100000 >/dev/null 2>&1 & echo $! >pid)",
        .intact = "test $(cat victim) = victim && kill -0 $(cat pid) && grep -q '^State:.S' /proc/$(cat "
                  "pid)/status",
        .attempts = weak_attempts,
        .count = &weak_attempt_count,
    },
};

/* The host as the attacker would like to reach it. */
struct world {
    char folder[32];  /* what is of the host; the rest lies in it */
    char states[128]; /* state folders: in there too, or at home */
    char *secret_dir, *secret, *state, *socket;
    char abstract[48];
    int listeners[LISTENERS];
    int port;
    pid_t canary;
    int canary_pidfd;
    struct host *host;
    struct bystander *bystander;
    const char *server_path;
    char *const *options; /* of the server, ended by NULL */
    bool toolbox, weak;
    const struct kind *kind;
    struct mcp *server;
    size_t tries, escapes, faults;
};

static void fault(struct world *w, const char *fmt, ...) _printf_(2, 3);
static void fault(struct world *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    w->faults++;
    printf("FAULT  ");
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
    fflush(stdout);
}

static int listen_unix(const char *name, bool abstract)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path + abstract, sizeof a.sun_path - abstract, "%s", name);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 8) < 0)
        return fd_close(fd);
    return fd;
}

static int listen_tcp(int *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        return fd_close(fd);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static int start_canary(struct world *w, struct error *err)
{
    static const char *const argv[] = {"host-canary", "100000", NULL};
    struct spawn_request request = {.path = "/bin/sleep", .argv = (char *const *)argv};
    return spawn(&request, &w->canary, &w->canary_pidfd, err);
}

static int write_secret(struct world *w, struct error *err)
{
    if (dir_make(w->secret_dir, 0777, err) < 0)
        return -1;
    (void)chmod(w->secret_dir, 0777); /* as easy to reach as can be */
    if (file_replace(AT_FDCWD, w->secret, SECRET_TEXT, strlen(SECRET_TEXT), false, err) < 0)
        return -1;
    (void)chmod(w->secret, 0666);
    return 0;
}

static int world_make(struct world *w, struct error *err)
{
    (void)snprintf(w->folder, sizeof w->folder, "/tmp/escape-XXXXXX");
    if (!mkdtemp(w->folder))
        return error_errno(err, ERR_UNAVAILABLE, errno, "make a folder in /tmp");
    /* A user can't remove files of ids that are lent to him, which the kept computer leaves: at home they go
     * with the home. */
    const char *home = geteuid() == 0 ? NULL : getenv("HOME");
    (void)snprintf(w->states, sizeof w->states, "%s/states-XXXXXX", home ? home : w->folder);
    if (!mkdtemp(w->states) || chmod(w->states, 0755) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make a folder for states");
    (void)chmod(w->folder, 0755);
    w->secret_dir = path_join(w->folder, "host");
    w->secret = path_join(w->secret_dir, "secret");
    w->state = path_join(w->states, "state");
    w->socket = path_join(w->folder, "socket");
    (void)snprintf(w->abstract, sizeof w->abstract, "escape-suite-%d", (int)getpid());
    w->listeners[LISTEN_ABSTRACT] = listen_unix(w->abstract, true);
    w->listeners[LISTEN_PATH] = listen_unix(w->socket, false);
    w->listeners[LISTEN_TCP] = listen_tcp(&w->port);
    for (int i = 0; i < LISTENERS; i++)
        if (w->listeners[i] < 0)
            return error_set(err, ERR_UNAVAILABLE, "can't listen on the host");
    (void)chmod(w->socket, 0777);
    if (write_secret(w, err) < 0)
        return -1;
    w->host = host_remember();
    w->bystander = bystander_remember();
    return start_canary(w, err);
}

static void world_done(struct world *w)
{
    w->server = mcp_free(w->server);
    if (w->canary > 0) {
        (void)kill(w->canary, SIGKILL);
        (void)waitpid(w->canary, NULL, 0);
    }
    fd_close(w->canary_pidfd);
    for (int i = 0; i < LISTENERS; i++)
        fd_close(w->listeners[i]);
    if (w->states[0])
        (void)tree_remove(AT_FDCWD, w->states, NULL);
    if (w->folder[0])
        (void)tree_remove(AT_FDCWD, w->folder, NULL);
    free(w->secret_dir);
    free(w->secret);
    free(w->state);
    free(w->socket);
    w->host = host_free(w->host);
    w->bystander = bystander_free(w->bystander);
}

static int start_server(struct world *w, struct error *err)
{
    /* What a kept computer leaves is to be met by the next one: it doesn't run on meanwhile. */
    const char *argv[11 + OPTIONS_MAX] = {w->server_path, "--backend", "native",    "--state-dir", w->state,
                                          "--cpu",        "2",         "--on-exit", "stop"};
    size_t n = 9;
    if (w->weak)
        argv[n++] = "--allow-weak-isolation";
    for (size_t i = 0; i < OPTIONS_MAX && w->options[i]; i++)
        argv[n++] = w->options[i];
    (void)setenv("SERVER_TOKEN", "the server's secret", 1);
    w->server = mcp_start(argv, environ, err);
    if (!w->server)
        return -1;
    json_t *result = mcp_initialize(w->server, 10, err);
    json_decref(result);
    return result ? 0 : -1;
}

/* command: NULL if `extra` has args. */
static int run(struct world *w, const char *computer, const char *command, double timeout, json_t *extra,
               struct mcp_tool_result *ret, struct error *err)
{
    json_t *arguments =
        json_pack("{s:s*, s:s, s:f}", "command", command, "computer_id", computer, "timeout", timeout);
    json_object_update(arguments, extra);
    json_decref(extra);
    return mcp_tool(w->server, "terminal_execute", arguments, timeout + 10, ret, err);
}

/* The computer answers, and says the right thing. */
static bool works(struct world *w, const char *computer)
{
    struct error err = ERROR_INIT;
    struct mcp_tool_result r;
    if (run(w, computer, "echo works", 10, NULL, &r, &err) < 0) {
        fault(w, "%s: no answer: %s", computer, err.msg);
        return false;
    }
    bool ok = !r.is_error && strcmp(r.out, "works\n") == 0 && r.exit_code == 0;
    if (!ok)
        fault(w, "%s doesn't work any more: %s", computer, r.text);
    mcp_tool_result_done(&r);
    return ok;
}

static int put_prober(struct world *w, const char *computer, const struct buf *prober, struct error *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(8 * MIB);
    if (base64_append(&text, prober->data, prober->len) < 0)
        return error_set(err, ERR_LIMIT, "the prober is too big");
    struct mcp_tool_result r;
    _cleanup_(cleanup_free) char *put =
        xasprintf("cat >%s && chmod 755 %s", w->kind->prober, w->kind->prober);
    if (run(w, computer, put, 10, json_pack("{s:s}", "stdin_base64", buf_str(&text)), &r, err) < 0)
        return -1;
    int result = r.is_error || r.exit_code != 0
                     ? error_set(err, ERR_INTERNAL, "%s: put the prober: %s", computer, r.text)
                     : 0;
    mcp_tool_result_done(&r);
    return result;
}

static json_t *attack_environment(const struct world *w)
{
    char port[16], canary[16];
    (void)snprintf(port, sizeof port, "%d", w->port);
    (void)snprintf(canary, sizeof canary, "%d", (int)w->canary);
    return json_pack("{s:{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}}", "env", "P", w->kind->prober, "SECRET",
                     w->secret, "SECRET_DIR", w->secret_dir, "STATE", w->state, "SOCKET", w->socket,
                     "ABSTRACT", w->abstract, "PORT", port, "CANARY", canary);
}

/* No attempt is made by code that isn't shut in at all: it would hurt this machine. */
static int check_isolated(struct world *w, struct error *err)
{
    struct mcp_tool_result r;
    if (run(w, "attacker", w->kind->isolated, 10, attack_environment(w), &r, err) < 0)
        return -1;
    bool isolated = strcmp(r.out, "isolated\n") == 0;
    int result =
        isolated ? 0 : error_set(err, ERR_INTERNAL, "commands aren't isolated at all, stopped: %s", r.text);
    mcp_tool_result_done(&r);
    return result;
}

/* A second computer with everything that an attacker in the first would look for. */
static int prepare_victim(struct world *w, struct error *err)
{
    struct mcp_tool_result r;
    if (run(w, "victim", w->kind->prepare, 10, NULL, &r, err) < 0)
        return -1;
    int result =
        r.is_error || r.exit_code != 0 ? error_set(err, ERR_INTERNAL, "prepare the victim: %s", r.text) : 0;
    mcp_tool_result_done(&r);
    return result;
}

static bool matches(const char *text, const char *pattern)
{
    regex_t re;
    if (regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    bool found = regexec(&re, text, 0, NULL, 0) == 0;
    regfree(&re);
    return found;
}

static void print_start(const char *title, const char *text)
{
    printf("       %s: %.400s%s\n", title, text, strlen(text) > 400 ? "..." : "");
}

/* The row's own arguments, and the environment. */
static json_t *attempt_arguments(const struct world *w, const struct attempt *a)
{
    json_t *environment = attack_environment(w);
    if (!a->arguments)
        return environment;
    _cleanup_(cleanup_free) char *text = xstrdup(a->arguments);
    for (char *quote = text; (quote = strchr(quote, '\''));)
        *quote = '"';
    json_t *arguments = json_loads(text, 0, NULL);
    json_object_update(arguments, environment);
    json_decref(environment);
    return arguments;
}

static void attempt_once(struct world *w, const struct attempt *a)
{
    struct error err = ERROR_INIT;
    struct mcp_tool_result r;
    const char *name = a->command ? a->command : a->arguments;
    w->tries++;
    if (run(w, "attacker", a->command, a->timeout > 0 ? a->timeout : ATTEMPT_SECONDS, attempt_arguments(w, a),
            &r, &err) < 0) {
        fault(w, "%s: no answer: %s\n       %s", a->group, err.msg, name);
        return;
    }
    const bool not_run = r.is_error && a->arguments;
    _cleanup_(cleanup_free) char *said = not_run ? xasprintf("%s\nexit=none\n", r.text)
                                                 : xasprintf("%s%sexit=%d\n", r.out, r.err, r.exit_code);
    bool escaped = strstr(r.out, "ESCAPED") || strstr(said, SECRET_TEXT), refused = matches(said, a->want);
    if ((r.is_error && !not_run) || escaped || !refused) {
        w->escapes += escaped;
        fault(w, "%s: %s", a->group,
              escaped      ? "ESCAPED"
              : r.is_error ? "refused as a call"
                           : "not the refusal expected");
        print_start("command", name);
        print_start("expected", a->want);
        print_start("got", r.is_error ? r.text : said);
    }
    mcp_tool_result_done(&r);
    if (!works(w, "attacker"))
        print_start("after", name);
}

static bool is_there(struct world *w, const char *file)
{
    struct error err = ERROR_INIT;
    struct mcp_tool_result r;
    _cleanup_(cleanup_free) char *command = xasprintf("test -e %s", file);
    if (run(w, "attacker", command, 10, NULL, &r, &err) < 0)
        return true; /* no more tries: whoever looks at what came of it will tell */
    bool there = r.exit_code == 0;
    mcp_tool_result_done(&r);
    return there;
}

/* What takes luck gets more of it. */
static void attempt(struct world *w, const struct attempt *a)
{
    attempt_once(w, a);
    for (int more = 0; a->until && more < AGAIN_MAX && !is_there(w, a->until); more++)
        attempt_once(w, a);
}

static void check_host(struct world *w)
{
    static const char *const marks[] = {"/ESCAPED",     "/tmp/ESCAPED",     "/root/ESCAPED",
                                        "/dev/ESCAPED", "/usr/bin/ESCAPED", "/dev/shm/ESCAPED",
                                        "/up",          "/root/link",       "/root/root"};
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (faccessat(AT_FDCWD, marks[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            fault(w, "%s exists on the host", marks[i]), w->escapes++;
    struct pollfd waiting[LISTENERS];
    for (int i = 0; i < LISTENERS; i++)
        waiting[i] = (struct pollfd){.fd = w->listeners[i], .events = POLLIN};
    if (poll(waiting, LISTENERS, 0) != 0)
        fault(w, "a listener of the host was reached"), w->escapes++;
    char path[64], state[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)w->canary);
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, state, sizeof state - 1) <= 0 || !strstr(state, ") S "))
        fault(w, "the process on the host was hurt: %s", state), w->escapes++;
}

/* Sees all of it, and counts every change as an escape. */
static void check_bystander(struct world *w)
{
    _cleanup_(buf_done) struct buf told = BUF_INIT(MIB);
    size_t count = bystander_changes(w->bystander, &told) + bystander_lacks(&told);
    if (count > 0)
        fault(w, "the host was reached:\n%s", buf_str(&told)), w->escapes += count;
}

/* nftw(3) has no argument for its callback. */
static struct {
    size_t files, setuid, of_host, open;
} upper;

/* As root we look as another user would; a user has to believe in what the folders above say. */
static bool within_reach(const char *path)
{
    if (geteuid() != 0) {
        _cleanup_(cleanup_free) char *above = xstrdup(path);
        struct stat st = {.st_mode = S_IXOTH};
        for (char *end; (end = strrchr(above, '/')) && end > above && st.st_mode & (S_IXOTH | S_IXGRP);) {
            *end = '\0';
            if (stat(above, &st) < 0)
                return true;
        }
        return st.st_mode & (S_IXOTH | S_IXGRP);
    }
    int seen = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0 ||
              access(path, F_OK) == 0);
    return pid < 0 || waitpid(pid, &seen, 0) != pid || seen != 0;
}

static int look_at_upper(const char *path, const struct stat *st, int type, struct FTW *at)
{
    upper.files++;
    if (type != FTW_F || !(st->st_mode & (S_ISUID | S_ISGID)))
        return 0;
    upper.setuid++;
    upper.of_host += geteuid() == 0 && (st->st_uid < IDS_OF_HOST || st->st_gid < IDS_OF_HOST);
    upper.open += within_reach(path);
    return 0;
}

/* Programs that a computer has made setuid: on the host they belong to nobody, and nobody gets at them. */
static void check_setuid(struct world *w)
{
    upper.files = upper.setuid = upper.of_host = upper.open = 0;
    (void)nftw(w->state, look_at_upper, 32, FTW_PHYS);
    if (upper.of_host + upper.open > 0)
        fault(w, "%zu setuid files of a user of the host, %zu within reach", upper.of_host, upper.open),
            w->escapes += upper.of_host + upper.open;
    printf("%-14s %3zu setuid among %zu files, none within reach of users\n", "on the host", upper.setuid,
           upper.files);
}

/* After all was removed: no link led the remover out of the computers. */
static void check_secret(struct world *w)
{
    _cleanup_(buf_done) struct buf secret = BUF_INIT(4096);
    if (file_read(AT_FDCWD, w->secret, &secret, NULL) < 0 || strcmp(buf_str(&secret), SECRET_TEXT) != 0)
        fault(w, "the secret of the host was changed"), w->escapes++;
    struct stat st;
    if (unlink(w->secret) < 0 || rmdir(w->secret_dir) < 0 || stat(w->secret_dir, &st) == 0)
        fault(w, "something was put beside the secret of the host"), w->escapes++;
}

static void check_victim(struct world *w)
{
    struct error err = ERROR_INIT;
    struct mcp_tool_result r;
    if (run(w, "victim", w->kind->intact, 10, NULL, &r, &err) < 0) {
        fault(w, "the victim doesn't answer: %s", err.msg);
        return;
    }
    if (r.is_error || r.exit_code != 0)
        fault(w, "the other computer was reached or hurt: %s", r.text), w->escapes++;
    mcp_tool_result_done(&r);
}

/* The server's end. One that had no time to remove everything says so by its exit status, and the next one
 * does it. */
static void end_server(struct world *w)
{
    struct error err = ERROR_INIT;
    int status = 0;
    if (mcp_end(w->server, 10, &status, &err) < 0) {
        fault(w, "%s", err.msg);
        return;
    }
    if (status != 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || state_dir_computers(w->state) == 0))
        fault(w, "the server ended with status 0x%x: %s", (unsigned)status, mcp_log(w->server));
    w->server = mcp_free(w->server);
    if (status == 0)
        return;
    printf("%-14s by the next server\n", "removal");
    if (start_server(w, &err) < 0)
        fault(w, "start again: %s", err.msg);
    for (int64_t deadline = clock_deadline_after(REMOVAL_SECONDS);
         state_dir_computers(w->state) > 0 && clock_now() < deadline;)
        (void)poll(NULL, 0, 50);
    if (w->server && (mcp_end(w->server, 10, &status, &err) < 0 || status != 0))
        fault(w, "the next server: status 0x%x, %s", (unsigned)status, err.msg);
}

static void check_end(struct world *w)
{
    if (host_own(w->host, w->state) == 0)
        fault(w, "nothing is known of its computers");
    end_server(w);
    (void)kill(w->canary, SIGKILL);
    (void)waitpid(w->canary, NULL, 0);
    w->canary = 0;
    _cleanup_(buf_done) struct buf left = BUF_INIT(MIB);
    size_t things = host_leftovers(w->host, 5, &left), computers = state_dir_computers(w->state);
    if (things + computers > 0)
        fault(w, "left behind: %zu computers, %zu other things\n%s", computers, things, buf_str(&left));
}

/* What the first life leaves in place of the folders that the second, or the server, goes through by name. */
static const char *const leftovers[] = {
    "rm -rf /tmp /var/tmp /root /run /home; for n in /tmp /var/tmp /root /run /home; do ln -s $SECRET_DIR "
    "$n; done; echo left",
    "rm -rf /mnt /media /srv /opt; ln -s /proc/1/root /mnt; ln -s / /srv; mkfifo /opt; echo left",
    "for n in /state /base /lower /empty /upper /work /sys; do rm -rf $n; ln -s $SECRET_DIR $n; done; echo "
    "left",
    "rm -rf /proc /dev 2>/dev/null; mv /proc /p; ln -sfn $SECRET_DIR /proc; ln -sfn $SECRET_DIR /dev; "
    "echo left",
    "for f in /etc/passwd /etc/group /etc/hosts /etc/resolv.conf /etc/hostname; do ln -sfn $SECRET $f; done; "
    "echo left",
    "(setsid sh -c 'while :; do :; done' >/dev/null 2>&1 &) ; ln -s $SECRET_DIR /tmp/command-output; echo "
    "left",
};

/* A computer that is kept, in a state folder of its own. */
static int second_life(struct world *w, struct error *err)
{
    char *state = w->state;
    int status = 0, result = -1;
    struct mcp_tool_result r;
    w->state = path_join(w->states, "kept");
    if (start_server(w, err) < 0)
        goto out;
    for (size_t i = 0; i < ARRAY_LEN(leftovers); i++) {
        json_t *extra = attack_environment(w);
        json_object_set_new(extra, "temporary", json_false());
        w->tries++;
        if (run(w, "kept", leftovers[i], 10, extra, &r, err) < 0)
            goto out;
        if (strcmp(r.out, "left\n") != 0)
            fault(w, "first life: %s", r.text);
        mcp_tool_result_done(&r);
    }
    if (mcp_end(w->server, 10, &status, err) < 0)
        goto out;
    w->server = mcp_free(w->server);
    if (start_server(w, err) < 0)
        goto out;
    w->tries++;
    if (run(w, "kept",
            "cat $SECRET /proc/1/environ; ls -A $SECRET_DIR; head -c 2000000 /dev/zero | tr '\\0' x", 10,
            attack_environment(w), &r, err) < 0)
        goto out;
    if (r.is_error || strstr(r.out, SECRET_TEXT) || r.exit_code != 0)
        fault(w, "second life: %s", r.text);
    w->escapes += strstr(r.out, SECRET_TEXT) != NULL;
    mcp_tool_result_done(&r);
    (void)works(w, "kept");
    (void)host_own(w->host, w->state);
    result = mcp_end(w->server, 10, &status, err);
    w->server = mcp_free(w->server);
    printf("%-14s %3zu tries\n", "second life", ARRAY_LEN(leftovers) + 1);
out:
    free(w->state);
    w->state = state;
    return result;
}

static bool is_wanted(const struct world *w, const struct attempt *a, const char *pattern)
{
    if (a->toolbox && !w->toolbox)
        return false;
    return !pattern || strstr(a->group, pattern) || (a->command && strstr(a->command, pattern));
}

static void end_group(struct world *w, const char *group, size_t tries, int64_t took)
{
    (void)host_own(w->host, w->state);
    printf("%-14s %3zu tries %8.1f ms\n", group, tries, (double)took / NSEC_PER_MSEC);
    fflush(stdout);
}

static int attack(struct world *w, char **argv, struct error *err)
{
    _cleanup_(buf_done) struct buf prober = BUF_INIT(2 * MIB);
    if (world_make(w, err) < 0 || file_read(AT_FDCWD, argv[2], &prober, err) < 0 ||
        (!w->weak && second_life(w, err) < 0) || /* which takes a tree of its own apart */
        start_server(w, err) < 0 || check_isolated(w, err) < 0 ||
        put_prober(w, "attacker", &prober, err) < 0 || put_prober(w, "victim", &prober, err) < 0 ||
        prepare_victim(w, err) < 0)
        return -1;
    size_t before = w->tries;
    int64_t start = clock_now();
    const size_t count = *w->kind->count;
    for (size_t i = 0; i < count; i++) {
        const struct attempt *a = &w->kind->attempts[i];
        if (is_wanted(w, a, argv[3]))
            attempt(w, a);
        if (i + 1 < count && strcmp(a[1].group, a->group) == 0)
            continue;
        if (w->tries > before)
            end_group(w, a->group, w->tries - before, clock_now() - start);
        before = w->tries;
        start = clock_now();
    }
    check_victim(w);
    check_bystander(w);
    check_setuid(w);
    check_host(w);
    check_end(w);
    check_secret(w);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: escape SERVER PROBER [PATTERN [OPTION ...]]\n");
        return 2;
    }
    struct error err = ERROR_INIT;
    struct world w = {
        .listeners = {-1, -1, -1},
        .canary_pidfd = -1,
        .server_path = argv[1],
        .options = argc > 4 ? argv + 4 : argv + argc,
        .toolbox = true,
        .weak = getenv("SANDBOX_TEST_WEAK") != NULL,
    };
    w.kind = &kinds[w.weak];
    for (int i = 4; i < argc; i++)
        w.toolbox &= strcmp(argv[i], "--rootfs") != 0;
    if (attack(&w, argv, &err) < 0)
        fault(&w, "%s\n%s", err.msg, w.server ? mcp_log(w.server) : "");
    world_done(&w);
    printf("%zu tries, %zu faults, %zu escapes\n", w.tries, w.faults, w.escapes);
    return w.faults > 0 || w.escapes > 0;
}
