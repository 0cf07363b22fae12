/* See profile.h. */
#include "backends/modal/profile.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"
#include "base/toml.h"

#define FILE_NAME ".modal.toml"
#define DEFAULT_PROFILE "default"
#define BARE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
#define BARE_VALUE BARE "+.:"
#define WORD_MAX (4 * KIB)

/* The tables are read one after the other, and what the one that is wanted has is kept. */
struct reading {
    struct toml words;
    const char *wanted; /* NULL: the active one, else the default */
    struct modal_profile now, chosen;
    bool active, found;
    struct buf table; /* the name of the one being read */
};

static const struct {
    const char *name;
    size_t offset;
} texts[] = {
    {"token_id", offsetof(struct modal_profile, token_id)},
    {"token_secret", offsetof(struct modal_profile, token_secret)},
    {"environment", offsetof(struct modal_profile, environment)},
    {"server_url", offsetof(struct modal_profile, server_url)},
    {"image_builder_version", offsetof(struct modal_profile, builder_version)},
};

static char **member(struct modal_profile *p, size_t i)
{
    return (char **)(void *)((char *)p + texts[i].offset);
}

void modal_profile_done(struct modal_profile *p)
{
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        char **text = member(p, i);
        if (*text)
            explicit_bzero(*text, strlen(*text));
        free(*text);
        *text = NULL;
    }
    p->sandbox_v2 = -1;
}

/* --- the file --- */

/* A bare word, or a text in quotes. */
static int read_name(struct toml *r, struct buf *to)
{
    buf_clear(to);
    const int quoted = toml_text(r, to);
    if (quoted != 0)
        return quoted < 0 ? -1 : 0;
    const size_t n = toml_span(r, BARE);
    if (n == 0)
        return toml_fail(r, "expected a [table], or NAME = VALUE");
    if (buf_append(to, r->p, n) < 0)
        return toml_fail(r, "a name is too long");
    r->p += n;
    return 0;
}

static int end_line(struct toml *r)
{
    toml_skip_blanks(r);
    if (toml_peek(r) >= 0 && !toml_take(r, '\n'))
        return toml_fail(r, "something follows on this line that isn't understood");
    return 0;
}

/* The table before it is complete. */
static void end_table(struct reading *r)
{
    const char *name = buf_str(&r->table);
    const bool by_name = r->wanted ? strcmp(name, r->wanted) == 0 : strcmp(name, DEFAULT_PROFILE) == 0;
    const bool take = by_name ? r->wanted || !r->found : r->active && !r->wanted;
    if (r->table.len > 0 && take) {
        modal_profile_done(&r->chosen);
        r->chosen = r->now;
        r->now = (struct modal_profile){0};
        r->found = true;
    }
    modal_profile_done(&r->now);
    r->active = false;
}

static int read_table(struct reading *r)
{
    end_table(r);
    toml_skip_blanks(&r->words);
    if (read_name(&r->words, &r->table) < 0)
        return -1;
    toml_skip_blanks(&r->words);
    if (!toml_take(&r->words, ']'))
        return toml_fail(&r->words, "the name of a table lacks its ]");
    return end_line(&r->words);
}

static int read_value(struct toml *r, const char *name, struct buf *to, bool *ret_text)
{
    const int text = toml_text(r, to);
    *ret_text = text > 0;
    if (text != 0)
        return text < 0 ? -1 : 0;
    const size_t n = toml_span(r, BARE_VALUE);
    if (n == 0 || buf_append(to, r->p, n) < 0)
        return toml_fail(r, "%.60s must be a text in quotes, a number, true or false", name);
    r->p += n;
    return 0;
}

static int set(struct reading *r, const char *name, const char *value, bool is_text)
{
    bool truth = false;
    const bool is_truth = str_parse_bool(value, &truth);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (strcmp(name, texts[i].name) == 0) {
            char **text = member(&r->now, i);
            if (*text)
                return toml_fail(&r->words, "%s is given twice", name);
            if (!is_text)
                return toml_fail(&r->words, "%s must be in quotes", name);
            *text = *value ? xstrdup(value) : NULL;
        }
    if (strcmp(name, "active") != 0 && strcmp(name, "sandbox_v2") != 0)
        return 0;
    if (!is_truth)
        return toml_fail(&r->words, "%s must be true or false", name);
    if (name[0] == 'a')
        r->active = truth;
    else
        r->now.sandbox_v2 = truth;
    return 0;
}

static int read_entry(struct reading *r)
{
    bool is_text;
    _cleanup_(buf_done) struct buf name = BUF_INIT(WORD_MAX), value = BUF_INIT(WORD_MAX);
    if (read_name(&r->words, &name) < 0)
        return -1;
    toml_skip_blanks(&r->words);
    if (!toml_take(&r->words, '='))
        return toml_fail(&r->words, "a name lacks its = and a value");
    toml_skip_blanks(&r->words);
    if (read_value(&r->words, buf_str(&name), &value, &is_text) < 0 ||
        set(r, buf_str(&name), buf_str(&value), is_text) < 0)
        return -1;
    return end_line(&r->words);
}

static int read_all(struct reading *r)
{
    for (;;) {
        toml_skip_lines(&r->words);
        if (toml_peek(&r->words) < 0)
            break;
        if ((toml_take(&r->words, '[') ? read_table(r) : read_entry(r)) < 0)
            return -1;
    }
    end_table(r);
    return 0;
}

int modal_profile_parse(const char *file, const char *text, size_t n, const char *name,
                        struct modal_profile *ret, struct error *err)
{
    struct reading r = {
        .wanted = name, .now = {.sandbox_v2 = -1}, .chosen = {.sandbox_v2 = -1}, .table = BUF_INIT(WORD_MAX)};
    int failed = toml_begin(&r.words, file, text, n, err);
    if (failed == 0)
        failed = read_all(&r);
    if (failed == 0 && name && !r.found)
        failed = error_set(err, ERR_INVALID, "%s has no profile [%.80s] (MODAL_PROFILE)", file, name);
    modal_profile_done(&r.now);
    buf_done(&r.table);
    if (failed < 0)
        modal_profile_done(&r.chosen);
    else
        *ret = r.chosen;
    return failed;
}

int modal_profile_read(const char *path, const char *name, struct modal_profile *ret, struct error *err)
{
    const char *home = getenv("HOME");
    _cleanup_(cleanup_free) char *usual = home && *home ? path_join(home, FILE_NAME) : NULL;
    _cleanup_(buf_done) struct buf text = BUF_INIT(LIMIT_CONFIG_FILE_BYTES);
    struct error why = ERROR_INIT;
    path = path ? path : usual;
    if (path && file_read(AT_FDCWD, path, &text, &why) < 0 && why.code != ERR_NOT_FOUND)
        return error_set(err, ERR_INVALID, "read Modal's profiles: %s", why.msg);
    const int failed =
        modal_profile_parse(path ? path : "~/" FILE_NAME, buf_str(&text), text.len, name, ret, err);
    if (text.data)
        explicit_bzero(text.data, text.len);
    return failed;
}
