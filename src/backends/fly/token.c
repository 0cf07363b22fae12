/* See token.h. There are two kinds: macaroons, and those of a user. The Machines API takes macaroons if there
 * are any, else those of the user; GraphQL takes all at once. Whoever has macaroons says so by the scheme. */
#include "backends/fly/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"

#define TOKEN_BYTES_MAX (16 * KIB) /* a header has to hold it */
#define LOGIN_BYTES_MAX (256 * KIB)
#define LOGIN_FILE "config.yml"
#define LOGIN_KEY "access_token:"

void fly_token_done(struct fly_token *t)
{
    t->machines = secret_free(t->machines);
    t->graphql = secret_free(t->graphql);
    t->pieces = secret_free(t->pieces);
}

static bool is_macaroon(const char *piece)
{
    return str_has_prefix(piece, "fm1r_") || str_has_prefix(piece, "fm1a_") || str_has_prefix(piece, "fm2_");
}

/* It becomes a part of a header: RFC 9110 11.2, token68. */
static bool is_piece(const char *text)
{
    return !text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=")];
}

/* Behind its schemes, of which people paste more than one. */
static const char *skip_schemes(const char *text)
{
    static const char *const schemes[] = {"Bearer", "FlyV1"};
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        const size_t n = strlen(schemes[i]);
        text += strspn(text, " \t");
        if (strncasecmp(text, schemes[i], n) == 0 && text[n] == ' ') {
            text += n;
            i = (size_t)-1; /* from the first again */
        }
    }
    return text;
}

static int append(struct buf *list, const char *piece)
{
    return (list->len > 0 && buf_append_byte(list, ',') < 0) || buf_append_str(list, piece) < 0 ? -1 : 0;
}

/* Into lists by their kind. -1: there is something that is no token. */
static int sort(char *text, struct buf *macaroons, struct buf *others)
{
    char *rest = text;
    for (char *one; (one = strsep(&rest, ","));) {
        _cleanup_(cleanup_secret_free) char *piece = str_trim(one);
        if (!*piece)
            continue;
        if (!is_piece(piece) || append(is_macaroon(piece) ? macaroons : others, piece) < 0)
            return -1;
    }
    return macaroons->len + others->len > 0 ? 0 : -1;
}

int fly_token_parse(const char *what, const char *text, struct fly_token *ret, struct error *err)
{
    _cleanup_(buf_wipe) struct buf macaroons = BUF_INIT(TOKEN_BYTES_MAX), others = BUF_INIT(TOKEN_BYTES_MAX);
    _cleanup_(cleanup_secret_free) char *copy = xstrdup(skip_schemes(text));
    if (buf_reserve(&macaroons, TOKEN_BYTES_MAX) < 0 || buf_reserve(&others, TOKEN_BYTES_MAX) < 0)
        return error_set(err, ERR_LIMIT, "no memory for a token");
    if (sort(copy, &macaroons, &others) < 0)
        return error_set(err, ERR_INVALID,
                         "%s is no token of Fly: it is empty, too long, or has characters that none has",
                         what);
    const char *of_fly = buf_str(&macaroons), *of_user = buf_str(&others);
    const char *comma = *of_fly && *of_user ? "," : "";
    const char *scheme = *of_fly ? "FlyV1" : "Bearer";
    *ret = (struct fly_token){
        .machines = xasprintf("%s %s", scheme, *of_fly ? of_fly : of_user),
        .graphql = xasprintf("%s %s%s%s", scheme, of_fly, comma, of_user),
        .pieces = xasprintf("%s%s%s", of_fly, comma, of_user),
    };
    return 0;
}

/* --- the login --- */

static char *folder_or_default(const char *folder)
{
    const char *home = getenv("HOME");
    return folder ? xstrdup(folder) : home && *home ? path_join(home, ".fly") : NULL;
}

/* The value of a line of the key, without its quotes; NULL: it is another line. */
static char *value_of(const char *line, size_t n)
{
    if (n < strlen(LOGIN_KEY) || strncmp(line, LOGIN_KEY, strlen(LOGIN_KEY)) != 0)
        return NULL;
    _cleanup_(cleanup_secret_free) char *raw = xstrndup(line + strlen(LOGIN_KEY), n - strlen(LOGIN_KEY));
    char *value = str_trim(raw);
    const size_t len = strlen(value);
    if (len >= 2 && (value[0] == '"' || value[0] == '\'') && value[len - 1] == value[0]) {
        memmove(value, value + 1, len - 2);
        value[len - 2] = '\0';
    }
    return value;
}

/* flyctl writes the file itself: a flat mapping, the token on one line. */
static char *find_value(const char *text)
{
    for (const char *line = text; *line;) {
        const size_t n = strcspn(line, "\n");
        char *value = value_of(line, n);
        if (value)
            return value;
        line += n + (line[n] == '\n');
    }
    return NULL;
}

int fly_token_of_login(const char *folder, struct fly_token *ret, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_free) char *place = folder_or_default(folder);
    _cleanup_(cleanup_free) char *path = place ? path_join(place, LOGIN_FILE) : NULL;
    _cleanup_(buf_wipe) struct buf text = BUF_INIT(LOGIN_BYTES_MAX);
    if (!path)
        return 0;
    if (buf_reserve(&text, LOGIN_BYTES_MAX) < 0)
        return error_set(err, ERR_LIMIT, "no memory for %s", path);
    if (file_read(AT_FDCWD, path, &text, &why) < 0) {
        const bool absent = why.sys == ENOENT || why.sys == ENOTDIR;
        return absent ? 0 : error_set(err, why.code, "the login of Fly can't be read: %s", why.msg);
    }
    _cleanup_(cleanup_secret_free) char *value = find_value(buf_str(&text));
    if (!value || !*value || strcmp(value, "null") == 0 || strcmp(value, "~") == 0)
        return 0;
    _cleanup_(cleanup_free) char *what = xasprintf("access_token in %s", path);
    return fly_token_parse(what, value, ret, err) < 0 ? -1 : 1;
}
