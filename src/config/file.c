/* The config file: a small part of TOML, lines of `name = value` under the names of the flags.
 *
 *     timeout = 30              # numbers and true or false as they are
 *     shell = "/bin/zsh"        # texts in quotes, with \" \\ \b \t \n \f \r \uXXXX \UXXXXXXXX
 *     rootfs = '/srv/root'      # or in apostrophes, where \ is nothing special
 *     allowed-host = ["a", "b"] # lists may go on over several lines
 *
 * There are no tables. Names are known ones and come once. Every error says FILE:LINE. */
#include "config/state.h"

#include <string.h>

#include "base/limits.h"
#include "base/toml.h"

struct reader {
    struct config *config;
    struct toml words;
};

#define FAIL(r, ...) toml_fail(&(r)->words, __VA_ARGS__)

static bool is_text(const struct option_row *row)
{
    return row->type == OPTION_STRING || row->type == OPTION_PATH || row->type == OPTION_ENUM ||
           row->type == OPTION_LIST;
}

/* A number or a truth value. */
static int read_bare(struct toml *r, const struct option_row *row, struct buf *to)
{
    size_t n = toml_span(r, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._/:");
    bool number = n > 0 && toml_span(r, "0123456789+-.eE") >= n;
    bool truth = (n == 4 && memcmp(r->p, "true", 4) == 0) || (n == 5 && memcmp(r->p, "false", 5) == 0);
    if (n == 0)
        return toml_fail(r, "%s has no value", row->name);
    if (is_text(row) || !(number || truth)) {
        return toml_fail(r, "the value of %s must be in quotes: %s = \"%.*s\"", row->name, row->name,
                         (int)(n < 60 ? n : 60), r->p);
    }
    int status = buf_append(to, r->p, n);
    r->p += n;
    return status;
}

static int read_scalar(struct reader *r, const struct option_row *row)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(LIMIT_CONFIG_FILE_BYTES);
    const struct toml *words = &r->words;
    int status = toml_text(&r->words, &text);
    if (status == 0)
        status = read_bare(&r->words, row, &text);
    const struct origin origin = {SOURCE_FILE, words->name, words->line};
    return status < 0 ? -1 : config_set(r->config, row, buf_str(&text), &origin, words->err);
}

static int read_list(struct reader *r, const struct option_row *row)
{
    if (row->type != OPTION_LIST)
        return FAIL(r, "%s takes one value, not a list", row->name);
    for (;;) {
        toml_skip_lines(&r->words);
        if (toml_take(&r->words, ']'))
            return 0;
        if (read_scalar(r, row) < 0)
            return -1;
        toml_skip_lines(&r->words);
        if (!toml_take(&r->words, ',') && toml_peek(&r->words) != ']')
            return FAIL(r, "the list %s lacks a comma or its closing ]", row->name);
    }
}

static int key_unknown(struct reader *r, const char *name)
{
    const struct option_row *row = option_find(name);
    if (row != NULL)
        return FAIL(r, "%s can only be given on the command line: --%s", name, name);
    const char *near = option_near_miss(name, false);
    if (near != NULL)
        return FAIL(r, "unknown option %s; did you mean %s?", name, near);
    return FAIL(r, "unknown option %s; --help lists all", name);
}

static int read_key(struct reader *r, const struct option_row **ret)
{
    if (toml_peek(&r->words) == '[')
        return FAIL(r, "[sections] are not used; write name = value under the name of a flag");
    char name[64];
    size_t n = toml_span(&r->words, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    if (n == 0 || n >= sizeof(name))
        return FAIL(r, "expected the name of an option");
    memcpy(name, r->words.p, n);
    name[n] = '\0';
    r->words.p += n;
    const struct option_row *row = option_find(name);
    if (row == NULL || (row->traits & OPTION_FLAG_ONLY))
        return key_unknown(r, name);
    const struct origin *before = config_origin(r->config, row);
    if (before->source == SOURCE_FILE)
        return FAIL(r, "%s is given twice; first in line %d", name, before->line);
    *ret = row;
    return 0;
}

static int read_entry(struct reader *r)
{
    const struct option_row *row = NULL;
    if (read_key(r, &row) < 0)
        return -1;
    toml_skip_blanks(&r->words);
    if (!toml_take(&r->words, '='))
        return FAIL(r, "%s lacks its = and a value", row->name);
    toml_skip_blanks(&r->words);
    if ((toml_take(&r->words, '[') ? read_list(r, row) : read_scalar(r, row)) < 0)
        return -1;
    toml_skip_blanks(&r->words);
    if (toml_peek(&r->words) >= 0 && !toml_take(&r->words, '\n'))
        return FAIL(r, "something follows the value of %s", row->name);
    return 0;
}

int config_file_apply(struct config *c, const char *name, const char *bytes, size_t n, struct error *err)
{
    struct reader r = {.config = c};
    if (toml_begin(&r.words, name, bytes, n, err) < 0)
        return -1;
    for (;;) {
        toml_skip_lines(&r.words);
        if (toml_peek(&r.words) < 0)
            return 0;
        if (read_entry(&r) < 0)
            return -1;
    }
}
