/* Each file is asked in turn; in each, first the helper that it names for the registry, then the one it names
 * for all, then what it holds itself. Keys are hosts, URLs as old clients wrote them, or (Podman) a host with
 * the beginning of a path; the longest that fits wins.
 *
 * Whatever holds a secret is overwritten before it is freed. For that, buffers get all their room at once:
 * one that grows leaves copies behind. */
#include "backends/engine/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/engine/contexts.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/spawn.h"

#define HUB_URL "https://index.docker.io/v1/" /* what docker(1) calls it in files and to helpers */
#define TOKEN_USER "<token>"                  /* the secret is an identity token */
#define FILES_MAX 4
#define SECRET_MAX (64 * KIB)
#define HELPER_SECONDS 30 /* somebody may have to type a password */

struct auth {
    char *user, *password;
    char *identity_token, *registry_token;
};

static char *wipe(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
    return NULL;
}

static void auth_done(struct auth *a)
{
    wipe(a->user);
    wipe(a->password);
    wipe(a->identity_token);
    wipe(a->registry_token);
}

void credentials_done(struct buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->len);
    buf_done(b);
}

static void wipe_json(json_t *value)
{
    const char *key;
    json_t *member;
    size_t i;
    if (json_is_string(value) && json_string_length(value) > 0)
        explicit_bzero((char *)json_string_value(value), json_string_length(value));
    json_object_foreach (value, key, member)
        wipe_json(member);
    json_array_foreach (value, i, member)
        wipe_json(member);
}

static void json_done(json_t **value)
{
    wipe_json(*value);
    json_decref(*value);
}

/* Of nothing that is parsed here the parser's own words are told: they quote the text. */
static json_t *parse(const struct buf *text, const char *whose, struct error *err)
{
    json_t *value = json_parse(buf_str(text), text->len, NULL);
    if (json_is_object(value))
        return value;
    json_done(&value);
    error_set(err, ERR_INVALID, "%s is no JSON object", whose);
    return NULL;
}

/* ---- helpers ---- */

/* A helper that was started. */
struct helper {
    const char *name;
    pid_t pid;
    int pidfd;
    int out;
};

static int start_helper(struct helper *h, const char *server, struct error *err)
{
    if (!*h->name || strchr(h->name, '/'))
        return error_set(err, ERR_INVALID, "'%.100s' is no name of a credential helper", h->name);
    _cleanup_(cleanup_free) char *program = xasprintf("docker-credential-%s", h->name);
    _cleanup_(cleanup_free) char *path = spawn_find(program);
    if (!path)
        return error_set(err, ERR_UNAVAILABLE, "the credential helper %s is not in PATH", program);
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "make a pipe");
    _cleanup_fd_ int in_read = in[0], in_write = in[1];
    if (pipe2(out, O_CLOEXEC) < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "make a pipe");
    _cleanup_fd_ int out_read = out[0], out_write = out[1];
    /* It is far less than a pipe holds. */
    if (fd_write_all(in_write, server, strlen(server)) < 0 || fd_set_nonblocking(out_read, true) < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "ask %s", program);
    char get[] = "get";
    char *const argv[] = {program, get, NULL};
    const int fds[] = {in_read, out_write, -1};
    const struct spawn_request request = {
        .path = path, .argv = argv, .env = environ, .fds = fds, .fd_count = 3};
    if (spawn(&request, &h->pid, &h->pidfd, err) < 0)
        return -1;
    h->out = TAKE_FD(out_read);
    return 0;
}

static int read_answer(struct helper *h, const struct wait *wait, struct buf *answer, struct error *err)
{
    for (;;) {
        ssize_t n = read(h->out, answer->data + answer->len, answer->max - answer->len);
        if (n == 0)
            return 0;
        if (n > 0)
            answer->len += (size_t)n;
        else if (errno == EAGAIN && wait_fd(h->out, POLLIN, wait, NULL, err) < 0)
            return -1;
        else if (errno != EAGAIN && errno != EINTR)
            return error_errno(err, ERR_UNAVAILABLE, errno, "read the answer of a credential helper");
        if (answer->len == answer->max)
            return error_set(err, ERR_LIMIT, "docker-credential-%s answers more than %lu bytes", h->name,
                             SECRET_MAX);
    }
}

/* Ends it with its children, if it hasn't ended by itself. ret_code: its exit code, or -1. */
static void end_helper(struct helper *h, bool answered, const struct wait *wait, int *ret_code)
{
    siginfo_t info = {0};
    if (!answered || wait_fd(h->pidfd, POLLIN, wait, NULL, NULL) < 0)
        kill(-h->pid, SIGKILL);
    while (waitid(P_PIDFD, (id_t)h->pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
    *ret_code = info.si_code == CLD_EXITED ? info.si_status : -1;
    fd_close(h->pidfd);
    fd_close(h->out);
}

static int run_helper(const char *name, const char *server, const struct wait *wait, struct buf *answer,
                      int *ret_code, struct error *err)
{
    struct helper h = {.name = name};
    struct wait bounded = wait_at_most(wait, clock_now() + HELPER_SECONDS * NSEC_PER_SEC);
    if (start_helper(&h, server, err) < 0)
        return -1;
    int r = read_answer(&h, &bounded, answer, err);
    end_helper(&h, r == 0, &bounded, ret_code);
    if (r < 0 && err->code == ERR_TIMEOUT && wait_check(wait, NULL) == 0)
        return error_set(err, ERR_TIMEOUT, "docker-credential-%s gave no answer in %d s", name,
                         HELPER_SECONDS);
    return r;
}

/* 1: there are some; 0: the helper has none; -1: it doesn't work. What it said is in no error, since it may
 * be anything. */
static int ask_helper(const char *name, const char *server, const struct wait *wait, struct auth *ret,
                      struct error *err)
{
    int code = -1;
    struct error why = ERROR_INIT;
    _cleanup_(credentials_done) struct buf answer = BUF_INIT(SECRET_MAX);
    if (buf_reserve(&answer, SECRET_MAX) < 0)
        return error_set(err, ERR_LIMIT, "no memory for an answer of docker-credential-%s", name);
    if (run_helper(name, server, wait, &answer, &code, &why) < 0)
        return error_set(err, why.code, "%s", why.msg);
    answer.data[answer.len] = '\0';
    if (code != 0 && strstr(answer.data, "credentials not found"))
        return 0;
    if (code != 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "docker-credential-%s failed (exit code %d); to see why: echo %s | "
                         "docker-credential-%s get",
                         name, code, server, name);
    _cleanup_(cleanup_free) char *whose = xasprintf("the answer of docker-credential-%s", name);
    _cleanup_(json_done) json_t *body = parse(&answer, whose, err);
    if (!body)
        return -1;
    const char *user = json_get_string(body, "Username"), *secret = json_get_string(body, "Secret");
    if (!user || !secret)
        return error_set(err, ERR_INVALID, "%s has no Username and Secret", whose);
    if (strcmp(user, TOKEN_USER) == 0) {
        ret->identity_token = xstrdup(secret);
    } else {
        ret->user = xstrdup(user);
        ret->password = xstrdup(secret);
    }
    return 1;
}

/* ---- files ---- */

/* How much of the image's name a key stands for, 0: it is another's. Keys with a scheme are hosts, whatever
 * path follows. */
static size_t key_fits(const char *key, const struct reference *r)
{
    const char *scheme = strstr(key, "://");
    const char *host = scheme ? scheme + 3 : key;
    size_t len = scheme ? strcspn(host, "/") : strlen(host);
    while (len > 0 && host[len - 1] == '/')
        len--;
    const char *hub_names[] = {"index.docker.io", "index.docker.io/v1", "registry-1.docker.io"};
    for (size_t i = 0; i < ARRAY_LEN(hub_names); i++)
        if (len == strlen(hub_names[i]) && memcmp(host, hub_names[i], len) == 0)
            return strcmp(r->registry, REFERENCE_HUB) == 0 ? strlen(REFERENCE_HUB) : 0;
    _cleanup_(cleanup_free) char *name = xasprintf("%s/%s/", r->registry, r->path);
    bool fits = len >= strlen(r->registry) && len < strlen(name) && memcmp(name, host, len) == 0;
    return fits && name[len] == '/' ? len : 0;
}

/* The value of the key that stands for most of the image's name, or NULL. */
static json_t *best_entry(const json_t *config, const char *member, const struct reference *r)
{
    const char *key;
    json_t *value, *best = NULL;
    size_t most = 0;
    json_object_foreach (json_get_object(config, member), key, value) {
        size_t fits = key_fits(key, r);
        /* docker(1) leaves an empty object where a helper has what belongs there. */
        if (fits > most && (json_is_string(value) || json_object_size(value) > 0)) {
            most = fits;
            best = value;
        }
    }
    return best;
}

/* "user:password" in base64. */
static int split_auth(const char *text, struct auth *ret)
{
    _cleanup_(credentials_done) struct buf plain = BUF_INIT(SECRET_MAX);
    if (base64_decode(text, strlen(text), &plain, NULL) < 0)
        return -1;
    while (plain.len > 0 && plain.data[plain.len - 1] == '\0') /* docker(1) takes them for padding */
        plain.len--;
    char *colon = plain.len > 0 ? memchr(plain.data, ':', plain.len) : NULL;
    if (!colon || memchr(plain.data, '\0', plain.len))
        return -1;
    ret->user = xstrndup(plain.data, (size_t)(colon - plain.data));
    ret->password = xstrndup(colon + 1, plain.len - (size_t)(colon + 1 - plain.data));
    return 0;
}

/* 1: the entry has credentials, 0: it has none. */
static int read_entry(const json_t *entry, const char *path, const char *registry, struct auth *ret,
                      struct error *err)
{
    const char *auth = json_get_string(entry, "auth");
    const char *user = json_get_string(entry, "username"), *password = json_get_string(entry, "password");
    const char *identity = json_get_string(entry, "identitytoken");
    const char *token = json_get_string(entry, "registrytoken");
    if (auth && *auth && split_auth(auth, ret) < 0)
        return error_set(err, ERR_INVALID, "%s: \"auth\" of %s is not user:password in base64; log in again",
                         path, registry);
    if (!ret->user && user && password) {
        ret->user = xstrdup(user);
        ret->password = xstrdup(password);
    }
    ret->identity_token = identity && *identity ? xstrdup(identity) : NULL;
    ret->registry_token = token && *token ? xstrdup(token) : NULL;
    return ret->user || ret->identity_token || ret->registry_token;
}

/* A file of credentials that may be there. */
struct source {
    char *path;
    enum engine_kind kind;
};

static const char *server_name(const struct reference *r, enum engine_kind kind)
{
    return kind == ENGINE_DOCKER && strcmp(r->registry, REFERENCE_HUB) == 0 ? HUB_URL : r->registry;
}

/* 1, 0, -1 as above. */
static int ask_source(const struct source *s, const struct reference *r, const struct wait *wait,
                      struct auth *ret, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(credentials_done) struct buf text = BUF_INIT(LIMIT_CONFIG_FILE_BYTES);
    if (buf_reserve(&text, LIMIT_CONFIG_FILE_BYTES) < 0)
        return error_set(err, ERR_LIMIT, "no memory for %s", s->path);
    if (file_read(AT_FDCWD, s->path, &text, &why) < 0) {
        bool absent = why.sys == ENOENT || why.sys == ENOTDIR;
        return absent ? 0 : error_set(err, why.code, "%s", why.msg);
    }
    _cleanup_(json_done) json_t *config = parse(&text, s->path, err);
    if (!config)
        return -1;
    const char *helper = json_string_value(best_entry(config, "credHelpers", r));
    if (!helper)
        helper = json_get_string(config, "credsStore");
    int found = helper && *helper ? ask_helper(helper, server_name(r, s->kind), wait, ret, err) : 0;
    if (found < 0)
        error_prefix(err, "%s", s->path);
    return found ? found : read_entry(best_entry(config, "auths", r), s->path, r->registry, ret, err);
}

/* "$VARIABLE/rest", or NULL if it isn't set. */
static char *beneath(const char *variable, const char *rest)
{
    const char *value = getenv(variable);
    return value && *value ? xasprintf("%s%s", value, rest) : NULL;
}

static size_t list_podman(struct source *list)
{
    size_t n = 0;
    char *only = beneath("REGISTRY_AUTH_FILE", "");
    if (only) {
        list[n++] = (struct source){only, ENGINE_PODMAN};
        return n;
    }
    char *run = beneath("XDG_RUNTIME_DIR", "/containers/auth.json");
    char *config = beneath("XDG_CONFIG_HOME", "/containers/auth.json");
    if (!run)
        run = xasprintf("/run/containers/%u/auth.json", (unsigned)getuid());
    if (!config)
        config = beneath("HOME", "/.config/containers/auth.json");
    list[n++] = (struct source){run, ENGINE_PODMAN};
    if (config)
        list[n++] = (struct source){config, ENGINE_PODMAN};
    return n;
}

static size_t list_docker(struct source *list)
{
    _cleanup_(cleanup_free) char *folder = contexts_folder();
    if (folder)
        list[0] = (struct source){path_join(folder, "config.json"), ENGINE_DOCKER};
    return folder != NULL;
}

/* ---- the answer ---- */

static int encode(const struct auth *a, const char *server, struct buf *ret, struct error *err)
{
    const struct {
        const char *name, *value;
    } members[] = {{"username", a->user},
                   {"password", a->password},
                   {"identitytoken", a->identity_token},
                   {"registrytoken", a->registry_token},
                   {"serveraddress", server}};
    struct json_writer w;
    _cleanup_(credentials_done) struct buf json = BUF_INIT(SECRET_MAX);
    if (buf_reserve(&json, SECRET_MAX) < 0)
        return error_set(err, ERR_LIMIT, "no memory for credentials");
    jw_init(&w, &json);
    jw_begin_object(&w);
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        if (members[i].value) {
            jw_key(&w, members[i].name);
            jw_string(&w, members[i].value);
        }
    jw_end_object(&w);
    if (w.failed || base64_append(ret, json.data, json.len) < 0)
        return error_set(err, ERR_LIMIT, "the credentials for %s are too long", server);
    for (size_t i = 0; i < ret->len; i++)
        ret->data[i] = (char)(ret->data[i] == '+' ? '-' : ret->data[i] == '/' ? '_' : ret->data[i]);
    return 0;
}

int credentials_find(enum engine_kind kind, const struct reference *r, const struct wait *wait,
                     struct buf *ret, struct error *err)
{
    struct source sources[FILES_MAX] = {0};
    _cleanup_(auth_done) struct auth auth = {0};
    size_t n = kind == ENGINE_DOCKER ? list_docker(sources) : list_podman(sources);
    n += kind == ENGINE_DOCKER ? list_podman(sources + n) : list_docker(sources + n);
    int found = 0;
    for (size_t i = 0; i < n && found == 0; i++)
        found = ask_source(&sources[i], r, wait, &auth, err);
    for (size_t i = 0; i < n; i++)
        free(sources[i].path);
    if (found < 0)
        return error_prefix(err, "look for credentials for %s", r->registry);
    struct buf value = BUF_INIT(SECRET_MAX * 2);
    if (found > 0 && encode(&auth, server_name(r, ENGINE_DOCKER), &value, err) < 0) {
        credentials_done(&value);
        return -1;
    }
    buf_move(ret, &value);
    return 0;
}
