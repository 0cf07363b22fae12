/* Each file is asked in turn; in each, first the helper that it names for the registry, then the one it names
 * for all, then what it holds itself. Keys are hosts, URLs as old clients wrote them, or (Podman) a host with
 * the beginning of a path; the longest that fits wins.
 *
 * Whatever holds a secret is overwritten before it is freed. For that, buffers get all their room at once:
 * one that grows leaves copies behind. */
#include "backends/engine/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/engine/contexts.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/program.h"
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

static void auth_done(struct auth *a)
{
    secret_free(a->user);
    secret_free(a->password);
    secret_free(a->identity_token);
    secret_free(a->registry_token);
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

static int run_helper(const char *name, const char *server, const struct wait *wait, struct buf *answer,
                      int *ret_code, struct error *err)
{
    if (!*name || strchr(name, '/'))
        return error_set(err, ERR_INVALID, "'%.100s' is no name of a credential helper", name);
    _cleanup_(cleanup_free) char *program = xasprintf("docker-credential-%s", name);
    _cleanup_(cleanup_free) char *path = spawn_find(program);
    if (!path)
        return error_set(err, ERR_UNAVAILABLE, "the credential helper %s is not in PATH", program);
    const char *const argv[] = {path, "get", NULL};
    const struct wait bounded = wait_at_most(wait, clock_now() + HELPER_SECONDS * NSEC_PER_SEC);
    if (program_ask(argv, server, &bounded, answer, ret_code, err) == 0)
        return 0;
    if (err->code == ERR_TIMEOUT && wait_check(wait, NULL) == 0)
        return error_set(err, ERR_TIMEOUT, "%s gave no answer in %d s", program, HELPER_SECONDS);
    return -1;
}

/* 1: there are some; 0: the helper has none; -1: it doesn't work. What it said is in no error, since it may
 * be anything. */
static int ask_helper(const char *name, const char *server, const struct wait *wait, struct auth *ret,
                      struct error *err)
{
    int code = -1;
    struct error why = ERROR_INIT;
    _cleanup_(buf_wipe) struct buf answer = BUF_INIT(SECRET_MAX);
    if (run_helper(name, server, wait, &answer, &code, &why) < 0)
        return error_set(err, why.code, "%s", why.msg);
    if (code != 0 && strstr(buf_str(&answer), "credentials not found"))
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
    _cleanup_(buf_wipe) struct buf plain = BUF_INIT(SECRET_MAX);
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
    _cleanup_(buf_wipe) struct buf text = BUF_INIT(LIMIT_CONFIG_FILE_BYTES);
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
    _cleanup_(buf_wipe) struct buf json = BUF_INIT(SECRET_MAX);
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
        buf_wipe(&value);
        return -1;
    }
    buf_move(ret, &value);
    return 0;
}
