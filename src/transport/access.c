/* Names of hosts, origins and tokens.
 *
 * Host: a loopback name, the address that we listen on, or one that --allowed-host names; any port, since it
 * is the name that an attacker's DNS controls. A listener for other machines that demands a token takes every
 * Host if none was named: a web page doesn't know the token. Origin: none, the same as Host, or listed. */
#include "transport/access.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/host.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/slug.h"
#include "base/str.h"

#define LOCAL "local"
#define TOKEN_FILE_BYTES (1 * MIB)
#define TOKENS_MAX 4096
#define TOKEN_MIN_BYTES 8
#define PEERS 256 /* addresses whose failures are remembered */
#define PEER_SIZE 64
#define DELAY_MIN_MS 250
#define FORGET_SECONDS 60

struct token {
    char principal[LIMIT_PRINCIPAL_BYTES + 1];
    uint8_t digest[SHA256_SIZE];
};

struct tokens {
    struct token *items;
    size_t count;
};

/* An address that sent wrong tokens. */
struct offender {
    char peer[PEER_SIZE];
    unsigned failures;
    int64_t last;
};

struct access {
    char *host;    /* NULL: none */
    bool is_local; /* no other machine gets here */
    char *token_file;
    bool has_local, has_watcher;
    struct token local, watcher;
    struct tokens tokens;
    char **hosts, **origins;
    struct offender offenders[PEERS];
};

/* -- Tokens. */

static bool parse_digest(const char *hex, uint8_t ret[SHA256_SIZE])
{
    if (strlen(hex) != SHA256_SIZE * 2)
        return false;
    for (size_t i = 0; i < SHA256_SIZE; i++) {
        if (!isxdigit((unsigned char)hex[2 * i]) || !isxdigit((unsigned char)hex[2 * i + 1]))
            return false;
        const char byte[] = {hex[2 * i], hex[2 * i + 1], '\0'};
        ret[i] = (uint8_t)strtoul(byte, NULL, 16);
    }
    return true;
}

/* A line without its end; `name` and `secret` are cut out of it. NULL, or what is wrong. */
static const char *parse_token_line(char *line, struct token *ret)
{
    char *secret = line + strcspn(line, " \t");
    if (*secret)
        *secret++ = '\0';
    secret += strspn(secret, " \t");
    struct error err = ERROR_INIT;
    if (slug_check(line, &err) < 0)
        return "the name of a principal is 1 to 63 of a-z, 0-9 and '-'";
    if (strcmp(line, LOCAL) == 0)
        return "the name local is reserved";
    if (strpbrk(secret, " \t"))
        return "a token has no blanks";
    snprintf(ret->principal, sizeof(ret->principal), "%s", line);
    if (str_has_prefix(secret, "sha256:"))
        return parse_digest(secret + strlen("sha256:"), ret->digest) ? NULL : "sha256: needs 64 hex digits";
    if (strlen(secret) < TOKEN_MIN_BYTES)
        return "a token has 8 characters at least";
    sha256(secret, strlen(secret), ret->digest);
    return NULL;
}

static void tokens_done(struct tokens *t)
{
    free(t->items);
    *t = (struct tokens){0};
}

static bool holds(const struct tokens *t, const struct token *token)
{
    for (size_t i = 0; i < t->count; i++)
        if (memcmp(t->items[i].digest, token->digest, SHA256_SIZE) == 0)
            return true;
    return false;
}

static int tokens_add(struct tokens *t, const char *path, unsigned number, char *line, struct error *err)
{
    struct token token = {0};
    const char *wrong = parse_token_line(line, &token);
    if (!wrong && holds(t, &token))
        wrong = "this token is there already";
    if (!wrong && t->count == TOKENS_MAX)
        wrong = "there are too many tokens";
    if (wrong)
        return error_set(err, ERR_INVALID, "%s, line %u: %s; lines are NAME TOKEN or NAME sha256:HEX", path,
                         number, wrong);
    t->items = xrealloc_array(t->items, t->count + 1, sizeof(*t->items));
    t->items[t->count++] = token;
    return 0;
}

static int tokens_read(const char *path, struct tokens *ret, struct error *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(TOKEN_FILE_BYTES);
    _cleanup_(tokens_done) struct tokens tokens = {0};
    if (file_read(AT_FDCWD, path, &text, err) < 0)
        return error_prefix(err, "Can't read the tokens of --auth-token-file");
    if (text.len > 0 && strlen(text.data) != text.len)
        return error_set(err, ERR_INVALID, "%s is no text: it has a NUL", path);
    unsigned number = 0;
    char *rest = text.data;
    for (char *line; (line = strsep(&rest, "\n"));) {
        number++;
        line += strspn(line, " \t");
        line[strcspn(line, "\r")] = '\0';
        size_t n = strlen(line);
        while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'))
            line[--n] = '\0';
        if (n > 0 && *line != '#' && tokens_add(&tokens, path, number, line, err) < 0)
            return -1;
    }
    explicit_bzero(text.data, text.len);
    if (tokens.count == 0)
        return error_set(err, ERR_INVALID, "%s has no token: nobody could get in; lines are NAME TOKEN",
                         path);
    *ret = tokens;
    tokens = (struct tokens){0};
    return 0;
}

static int read_watcher(struct access *a, const char *path, struct error *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(4 * KIB);
    if (file_read(AT_FDCWD, path, &text, err) < 0)
        return error_prefix(err, "Can't read the token of --metrics-token-file");
    _cleanup_(cleanup_free) char *token = str_trim(buf_str(&text));
    explicit_bzero(text.data, text.len);
    if (strlen(token) < TOKEN_MIN_BYTES || strpbrk(token, " \t\r\n"))
        return error_set(err, ERR_INVALID, "%s must hold one token, of 8 characters at least", path);
    sha256(token, strlen(token), a->watcher.digest);
    explicit_bzero(token, strlen(token));
    a->has_watcher = true;
    return 0;
}

int access_reload(struct access *a, struct error *err)
{
    struct tokens fresh;
    if (!a->token_file)
        return 0;
    if (tokens_read(a->token_file, &fresh, err) < 0)
        return -1;
    tokens_done(&a->tokens);
    a->tokens = fresh;
    return 0;
}

bool access_needs_token(const struct access *a)
{
    return a->has_local || a->token_file;
}

/* The credentials of `Bearer TOKEN` (RFC 6750, section 2.1), the scheme in any case; NULL: another scheme. */
static const char *bearer(const char *authorization)
{
    const size_t n = strlen("bearer");
    if (!authorization || strncasecmp(authorization, "bearer", n) != 0 || authorization[n] != ' ')
        return NULL;
    return authorization + n + strspn(authorization + n, " ");
}

/* In the same time whatever they are. */
static bool digests_match(const uint8_t a[SHA256_SIZE], const uint8_t b[SHA256_SIZE])
{
    unsigned differs = 0;
    for (size_t i = 0; i < SHA256_SIZE; i++)
        differs |= (unsigned)(a[i] ^ b[i]);
    return differs == 0;
}

/* All are looked at, whichever it is. */
static const char *find_principal(const struct access *a, const char *secret)
{
    uint8_t digest[SHA256_SIZE];
    const char *found = NULL;
    sha256(secret, strlen(secret), digest);
    for (size_t i = 0; i <= a->tokens.count; i++) {
        const struct token *t = i < a->tokens.count ? &a->tokens.items[i] : &a->local;
        if (digests_match(t->digest, digest) && (t != &a->local || a->has_local))
            found = t->principal;
    }
    return found;
}

const char *access_identify(const struct access *a, const struct access_request *r, const char **ret_why)
{
    if (r->unix_socket) {
        if (r->peer_uid == 0 || r->peer_uid == geteuid())
            return LOCAL;
        *ret_why = "this socket is for its owner";
        return NULL;
    }
    if (!access_needs_token(a))
        return LOCAL;
    const char *secret = bearer(r->authorization);
    const char *principal = secret ? find_principal(a, secret) : NULL;
    *ret_why = secret ? "the token is not known" : "a token is needed: Authorization: Bearer TOKEN";
    return principal;
}

bool access_may_watch(const struct access *a, const struct access_request *r)
{
    uint8_t digest[SHA256_SIZE];
    const char *secret = bearer(r->authorization);
    if (!a->has_watcher)
        return r->is_loopback && !access_needs_token(a);
    if (!secret)
        return false;
    sha256(secret, strlen(secret), digest);
    return digests_match(a->watcher.digest, digest);
}

/* -- Hosts and origins. */

/* ":PORT", or nothing. */
static bool is_port(const char *rest)
{
    return *rest == '\0' ||
           (*rest == ':' && strlen(rest) <= 6 && strspn(rest + 1, "0123456789") == strlen(rest + 1));
}

/* What no name has: blanks, and what would make it part of a URL. */
static bool has_foreign(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] <= ' ' || strchr("/@\\?#", name[i]))
            return true;
    return false;
}

/* The name of "name:port" or "[v6]:port", without brackets, in lower case. False: it isn't one. */
static bool host_name(const char *host, char *ret, size_t size)
{
    const bool bracket = *host == '[';
    const char *name = host + bracket;
    size_t n = strcspn(name, bracket ? "]" : ":");
    if (n == 0 || n >= size || (bracket && !name[n]))
        return false;
    if (!is_port(name + n + bracket) || has_foreign(name, n))
        return false;
    for (size_t i = 0; i < n; i++)
        ret[i] = (char)tolower((unsigned char)name[i]);
    ret[n] = '\0';
    return true;
}

static bool is_any_address(const char *name)
{
    return strcmp(name, "0.0.0.0") == 0 || strcmp(name, "::") == 0 || strcmp(name, "*") == 0;
}

static bool is_listed(char *const *list, const char *value)
{
    for (; list && *list; list++)
        if (str_equal_nocase(*list, value) || strcmp(*list, "*") == 0)
            return true;
    return false;
}

static bool admits_host(const struct access *a, const char *host)
{
    char name[256];
    if (!host || !host_name(host, name, sizeof(name)))
        return false;
    if (host_is_loopback(name) || is_listed(a->hosts, name) || is_listed(a->hosts, host))
        return true;
    if (a->host && !is_any_address(a->host) && str_equal_nocase(a->host, name))
        return true;
    return !a->is_local && access_needs_token(a) && !a->hosts[0];
}

/* "http://name:port" of a page that we serve ourselves, as Host says. */
static bool is_same_origin(const char *origin, const char *host)
{
    const char *rest = strstr(origin, "://");
    return rest && host && str_equal_nocase(rest + 3, host);
}

bool access_is_listed_origin(const struct access *a, const char *origin)
{
    return is_listed(a->origins, origin);
}

bool access_admit(const struct access *a, const struct access_request *r, const char **ret_why)
{
    if (r->unix_socket)
        return true;
    *ret_why = "this Host is not served here; --allowed-host names others";
    if (!admits_host(a, r->host))
        return false;
    *ret_why = "pages of this Origin have no access; --allowed-origin names those that have";
    return !r->origin || is_same_origin(r->origin, r->host) || access_is_listed_origin(a, r->origin);
}

/* -- Refusals. */

int64_t access_refusal_delay(struct access *a, const char *peer)
{
    int64_t now = clock_now();
    struct offender *o = NULL, *oldest = &a->offenders[0];
    for (size_t i = 0; i < PEERS && !o; i++) {
        if (strcmp(a->offenders[i].peer, peer) == 0)
            o = &a->offenders[i];
        else if (a->offenders[i].last < oldest->last)
            oldest = &a->offenders[i];
    }
    if (!o || now - o->last > FORGET_SECONDS * NSEC_PER_SEC) {
        o = o ? o : oldest;
        *o = (struct offender){.last = now};
        snprintf(o->peer, sizeof(o->peer), "%s", peer);
    }
    o->last = now;
    int64_t ms = DELAY_MIN_MS << (o->failures < 8 ? o->failures : 8);
    o->failures++;
    return ms < ACCESS_DELAY_MAX_MS ? ms : ACCESS_DELAY_MAX_MS;
}

/* -- Beginning and end. */

struct access *access_new(const struct access_options *o, struct error *err)
{
    struct access *a = xcalloc(1, sizeof(*a));
    a->host = o->host ? xstrdup(o->host) : NULL;
    a->is_local = !o->host || host_is_loopback(o->host);
    a->token_file = o->token_file ? xstrdup(o->token_file) : NULL;
    a->hosts = strv_copy(o->allowed_hosts);
    a->origins = strv_copy(o->allowed_origins);
    snprintf(a->local.principal, sizeof(a->local.principal), LOCAL);
    if (o->token) {
        a->has_local = true;
        sha256(o->token, strlen(o->token), a->local.digest);
    }
    bool ok = access_reload(a, err) == 0 &&
              (!o->metrics_token_file || read_watcher(a, o->metrics_token_file, err) == 0);
    return ok ? a : access_free(a);
}

struct access *access_free(struct access *a)
{
    if (!a)
        return NULL;
    tokens_done(&a->tokens);
    strv_free(a->hosts);
    strv_free(a->origins);
    free(a->token_file);
    free(a->host);
    free(a);
    return NULL;
}
