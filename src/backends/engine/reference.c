/* Image references, read from the right: what follows '@' is the digest, what follows a ':' after the last
 * slash is the tag, and the rest is the name. Its first component is a registry if it looks like a host (it
 * has a dot or a colon, or is "localhost"), as docker(1) decides it. */
#include "backends/engine/reference.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

#define HUB_OLD "index.docker.io"
#define HUB_OFFICIAL "library/" /* before a path of one component */
#define ID_DIGITS 64            /* of an image's id */

#define LOWER_DIGITS "abcdefghijklmnopqrstuvwxyz0123456789"
#define ALPHANUMERIC LOWER_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define LOWER_HEX "0123456789abcdef"

static const struct digest_form {
    const char *prefix;
    size_t digits;
} digest_forms[] = {{"sha256:", 64}, {"sha384:", 96}, {"sha512:", 128}};

/* A piece of the text. */
struct span {
    const char *at;
    size_t len;
};

static int invalid(struct error *err, const char *text, const char *why)
{
    return error_set(err, ERR_INVALID, "image '%.200s': %s", text, why);
}

static bool all_of(struct span s, const char *set)
{
    for (size_t i = 0; i < s.len; i++)
        if (!strchr(set, s.at[i]))
            return false;
    return s.len > 0;
}

static bool has_upper(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (isupper((unsigned char)s.at[i]))
            return true;
    return false;
}

/* Cuts the part before `c` off the front; without one, all of it. */
static struct span next_part(struct span *rest, char c)
{
    const char *end = memchr(rest->at, c, rest->len);
    struct span part = {rest->at, end ? (size_t)(end - rest->at) : rest->len};
    size_t used = end ? part.len + 1 : part.len;
    rest->at += used;
    rest->len -= used;
    return part;
}

/* [a-z0-9]+ with separators between: one of '.', '_', "__", or any number of '-'. */
static bool component_is_good(struct span c)
{
    size_t i = 0;
    for (;;) {
        size_t word = i;
        while (i < c.len && strchr(LOWER_DIGITS, c.at[i]))
            i++;
        if (i == word)
            return false;
        if (i == c.len)
            return true;
        char separator = c.at[i];
        size_t from = i;
        while (i < c.len && c.at[i] == separator)
            i++;
        size_t most = separator == '-' ? c.len : separator == '_' ? 2 : separator == '.' ? 1 : 0;
        if (i - from > most)
            return false;
    }
}

static int parse_path(const char *text, struct span path, bool official, struct reference *r,
                      struct error *err)
{
    if (path.len == 0)
        return invalid(err, text,
                       "it names no repository; it looks like debian:bookworm-slim or "
                       "HOST:PORT/team/name:tag");
    if (has_upper(path))
        return invalid(err, text, "names of repositories are in lower case");
    size_t prefix = official ? strlen(HUB_OFFICIAL) : 0;
    if (prefix + path.len >= sizeof(r->path))
        return invalid(err, text, "the name is too long; at most 255 bytes");
    /* Not by next_part() to the end: a slash at the end is an empty component, too. */
    for (struct span rest = path;;) {
        const char *slash = memchr(rest.at, '/', rest.len);
        if (!component_is_good(next_part(&rest, '/')))
            return invalid(err, text,
                           "between slashes a name has lower-case letters and digits, with single "
                           "'.', '_', '__' or '-' between them");
        if (!slash)
            break;
    }
    snprintf(r->path, sizeof(r->path), "%s%.*s", official ? HUB_OFFICIAL : "", (int)path.len, path.at);
    return 0;
}

/* A host name or address, [IPv6], each with a port or without. */
static bool host_is_good(struct span host)
{
    if (host.len > 0 && host.at[0] == '[') {
        const char *end = memchr(host.at, ']', host.len);
        if (!end ||
            !all_of((struct span){host.at + 1, (size_t)(end - host.at) - 1}, "0123456789abcdefABCDEF:"))
            return false;
        size_t used = (size_t)(end - host.at) + 1;
        struct span port = {host.at + used, host.len - used};
        return port.len == 0 ||
               (port.at[0] == ':' && all_of((struct span){port.at + 1, port.len - 1}, "0123456789"));
    }
    const char *colon = memchr(host.at, ':', host.len);
    struct span name = next_part(&host, ':');
    if (colon && !all_of(host, "0123456789"))
        return false;
    do {
        const char *dot = memchr(name.at, '.', name.len);
        struct span label = next_part(&name, '.');
        if (!all_of(label, ALPHANUMERIC "-") || label.at[0] == '-' || label.at[label.len - 1] == '-')
            return false;
        if (dot && name.len == 0)
            return false;
    } while (name.len > 0);
    return true;
}

static bool looks_like_host(struct span s)
{
    return memchr(s.at, '.', s.len) || memchr(s.at, ':', s.len) ||
           (s.len == strlen("localhost") && memcmp(s.at, "localhost", s.len) == 0);
}

static int parse_name(const char *text, struct span name, struct reference *r, struct error *err)
{
    struct span path = name, host = {REFERENCE_HUB, strlen(REFERENCE_HUB)};
    if (memchr(name.at, '/', name.len)) {
        struct span rest = name, first = next_part(&rest, '/');
        if (looks_like_host(first)) {
            host = first;
            path = rest;
        }
    }
    if (!host_is_good(host))
        return invalid(err, text,
                       "the part before the first slash is no registry; it looks like "
                       "registry.example or HOST:PORT");
    if (host.len >= sizeof(r->registry))
        return invalid(err, text, "the registry's name is too long; at most 255 bytes");
    snprintf(r->registry, sizeof(r->registry), "%.*s", (int)host.len, host.at);
    if (strcmp(r->registry, HUB_OLD) == 0)
        strcpy(r->registry, REFERENCE_HUB);
    bool official = strcmp(r->registry, REFERENCE_HUB) == 0 && !memchr(path.at, '/', path.len);
    return parse_path(text, path, official, r, err);
}

static int parse_digest(const char *text, const char *digest, struct reference *r, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(digest_forms); i++) {
        const struct digest_form *form = &digest_forms[i];
        if (!str_has_prefix(digest, form->prefix))
            continue;
        const char *hex = digest + strlen(form->prefix);
        if (strlen(hex) != form->digits || !all_of((struct span){hex, form->digits}, LOWER_HEX))
            break;
        snprintf(r->digest, sizeof(r->digest), "%s", digest);
        return 0;
    }
    return invalid(err, text,
                   "what follows '@' is no digest; it looks like sha256: and 64 digits of "
                   "lower-case hexadecimal");
}

static int parse_tag(const char *text, struct span tag, struct reference *r, struct error *err)
{
    if (tag.len >= sizeof(r->tag))
        return invalid(err, text, "the tag is too long; at most 128 bytes");
    if (!all_of(tag, ALPHANUMERIC "_.-") || strchr(".-", tag.at[0]))
        return invalid(err, text,
                       "a tag has letters, digits, '_', '.' and '-', and starts with none of the "
                       "latter two");
    snprintf(r->tag, sizeof(r->tag), "%.*s", (int)tag.len, tag.at);
    return 0;
}

int reference_parse(const char *text, struct reference *ret, struct error *err)
{
    struct reference r = {0};
    size_t len = strlen(text);
    if (len == 0)
        return error_set(err, ERR_INVALID, "the image's name is empty");
    if (len >= sizeof(r.text))
        return invalid(err, text, "it is too long; at most 511 bytes");
    if (len == ID_DIGITS && all_of((struct span){text, len}, LOWER_HEX))
        return invalid(err, text,
                       "64 hexadecimal digits are an image's id; put sha256: before it, or use "
                       "a name");
    memcpy(r.text, text, len);

    const char *at = strchr(text, '@');
    struct span name = {text, at ? (size_t)(at - text) : len};
    const char *last = text;
    for (const char *p = text; p < text + name.len; p++)
        if (*p == '/')
            last = p + 1;
    const char *colon = memchr(last, ':', (size_t)(name.at + name.len - last));
    struct span tag = {"latest", at ? 0 : strlen("latest")};
    if (colon) {
        tag = (struct span){colon + 1, (size_t)(name.at + name.len - colon) - 1};
        name.len = (size_t)(colon - text);
    }
    r.name_len = name.len;
    if ((at && parse_digest(text, at + 1, &r, err) < 0) ||
        ((colon || tag.len > 0) && parse_tag(text, tag, &r, err) < 0) || parse_name(text, name, &r, err) < 0)
        return -1;
    *ret = r;
    return 0;
}
