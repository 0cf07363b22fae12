/* Values of run flags that stand alone: numbers, sizes, words, lists, NAME=VALUE. What they take is what the
 * docker CLI takes: its opts/ and cli/command/container/opts.go, and go-units for sizes and limits. */
#include "backends/engine/run_parse.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/engine/run_flags.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"

/* ---- the body as a tree ---- */

json_t *run_place(json_t *root, const char *path, const char **ret_member)
{
    const char *dot;
    for (; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        _cleanup_(cleanup_free) char *step = xstrndup(path, (size_t)(dot - path));
        json_t *next = json_object_get(root, step);
        if (!json_is_object(next)) {
            json_object_set_new(root, step, json_object());
            next = json_object_get(root, step);
        }
        root = next;
    }
    *ret_member = path;
    return root;
}

void run_put(json_t *root, const char *path, json_t *value)
{
    const char *member;
    json_t *object = run_place(root, path, &member);
    json_object_set_new(object, member, value);
}

json_t *run_get(const json_t *root, const char *path)
{
    const char *dot;
    for (; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        _cleanup_(cleanup_free) char *step = xstrndup(path, (size_t)(dot - path));
        root = json_object_get(root, step);
    }
    return json_object_get(root, path);
}

static json_t *array_at(json_t *root, const char *path)
{
    const char *member;
    json_t *object = run_place(root, path, &member);
    if (!json_is_array(json_object_get(object, member)))
        json_object_set_new(object, member, json_array());
    return json_object_get(object, member);
}

void run_append(json_t *root, const char *path, json_t *value)
{
    json_array_append_new(array_at(root, path), value);
}

void run_append_keyed(json_t *root, const char *path, const char *key, json_t *value)
{
    json_t *array = array_at(root, path);
    size_t i;
    json_t *element;
    json_array_foreach (array, i, element) {
        if (json_equal(json_object_get(element, key), json_object_get(value, key))) {
            json_array_set_new(array, i, value);
            return;
        }
    }
    json_array_append_new(array, value);
}

/* ---- text ---- */

bool run_cut(const char *text, char **ret_name, const char **ret_value)
{
    const char *equals = strchr(text, '=');
    *ret_name = equals ? xstrndup(text, (size_t)(equals - text)) : xstrdup(text);
    *ret_value = equals ? equals + 1 : "";
    return equals != NULL;
}

bool run_put_pair(json_t *root, const char *place, const char *pair)
{
    _cleanup_(cleanup_free) char *name = NULL;
    const char *value, *member;
    run_cut(pair, &name, &value);
    json_object_set_new(run_place(root, place, &member), name, json_string(value));
    return *name != '\0';
}

bool run_parse_bool(const char *text, bool *ret)
{
    static const char *const words[2][6] = {{"0", "f", "F", "false", "FALSE", "False"},
                                            {"1", "t", "T", "true", "TRUE", "True"}};
    for (int value = 0; value < 2; value++)
        for (size_t i = 0; i < ARRAY_LEN(words[value]); i++)
            if (strcmp(text, words[value][i]) == 0) {
                *ret = value;
                return true;
            }
    return false;
}

char *run_absolute(const char *path)
{
    _cleanup_(cleanup_free) char *here = *path == '.' ? getcwd(NULL, 0) : NULL;
    if (!here)
        return xstrdup(path);
    while (path[0] == '.' && (path[1] == '/' || !path[1]))
        path += path[1] ? 2 : 1;
    return *path ? path_join(here, path) : xstrdup(here);
}

/* The length of the quoted field at `text`, which begins with a quote; its content goes to `field`. 0: no
 * end.
 */
static size_t quoted_field(const char *text, char *field)
{
    for (size_t i = 1; text[i]; i++) {
        if (text[i] == '"' && text[++i] != '"') {
            *field = '\0';
            return i;
        }
        *field++ = text[i];
    }
    return 0;
}

json_t *run_csv(const char *text, struct error *err)
{
    json_t *fields = json_array();
    _cleanup_(cleanup_free) char *field = xmalloc(strlen(text) + 1);
    for (;; text++) {
        size_t n = strcspn(text, ",");
        bool sound = true;
        if (*text == '"') {
            n = quoted_field(text, field);
            sound = n > 0 && (text[n] == ',' || !text[n]);
        } else {
            memcpy(field, text, n);
            field[n] = '\0';
            sound = !strchr(field, '"');
        }
        if (!sound) {
            error_set(err, ERR_INVALID,
                      "a quote is out of place: quote a whole field, and double the quotes in it");
            json_decref(fields);
            return NULL;
        }
        json_array_append_new(fields, json_string(field));
        text += n;
        if (!*text)
            return fields;
    }
}

/* ---- numbers ---- */

/* As go-units reads sizes: unlike those of our own options, with "p", and one blank before the unit. */
int run_flags_bytes(const char *text, int64_t *ret)
{
    static const char units[] = "kmgtp";

    size_t n = strlen(text);
    while (n > 0 && !strchr("0123456789. ", text[n - 1]))
        n--;
    const char *suffix = text + n;
    n -= n > 0 && text[n - 1] == ' ';
    _cleanup_(cleanup_free) char *number = xstrndup(text, n);
    double size;
    if (!str_parse_double(number, &size) || size < 0)
        return -1;

    const char *unit = *suffix ? strchr(units, tolower((unsigned char)*suffix)) : NULL;
    for (; unit && unit >= units; unit--)
        size *= 1024;
    if (*suffix && strchr(units, tolower((unsigned char)*suffix)))
        suffix++;
    else if (*suffix && !str_equal_nocase(suffix, "b"))
        return -1;
    if ((*suffix && !str_equal_nocase(suffix, "b") && !str_equal_nocase(suffix, "ib")) || size >= 0x1p63)
        return -1;
    *ret = (int64_t)size;
    return 0;
}

int run_flags_nano_cpus(const char *text, int64_t *ret)
{
    enum { PLACES = 9 };
    size_t whole = strspn(text, "0123456789");
    const char *fraction = text + whole + (text[whole] == '.');
    size_t places = strspn(fraction, "0123456789");
    if (whole + places == 0 || fraction[places])
        return -1;
    while (places > PLACES && fraction[places - 1] == '0')
        places--;
    if (places > PLACES || whole > PLACES)
        return -1;

    int64_t nano = 0;
    for (size_t i = 0; i < whole; i++)
        nano = nano * 10 + (text[i] - '0');
    for (size_t i = 0; i < PLACES; i++)
        nano = nano * 10 + (i < places ? fraction[i] - '0' : 0);
    *ret = nano;
    return 0;
}

static int out_of_range(const struct run_flag *f, struct error *err)
{
    char besides[32] = "", range[64];
    if (f->also < f->least)
        snprintf(besides, sizeof(besides), "%" PRId64 ", or ", f->also);
    if (f->most == INT64_MAX)
        snprintf(range, sizeof(range), "%" PRId64 " and more", f->least);
    else
        snprintf(range, sizeof(range), "%" PRId64 " to %" PRId64, f->least, f->most);
    return error_set(err, ERR_INVALID, "out of range; it takes %s%s", besides, range);
}

int run_integer(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    int64_t number;
    if (!str_parse_i64(value, &number))
        return error_set(err, ERR_INVALID, "not a whole number");
    if (!run_in_range(f, number))
        return out_of_range(f, err);
    run_put(r->body, f->place, json_integer(number));
    return 0;
}

int run_bytes(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    int64_t bytes;
    if (f->also < 0 && strcmp(value, "-1") == 0)
        bytes = -1;
    else if (run_flags_bytes(value, &bytes) < 0)
        return error_set(err, ERR_INVALID,
                         "not a size; it takes bytes, or a number with k, m, g or t, such as 512m%s",
                         f->also < 0 ? ", or -1 for no limit" : "");
    if (!run_in_range(f, bytes))
        return out_of_range(f, err);
    run_put(r->body, f->place, json_integer(bytes));
    return 0;
}

int run_cpus(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    int64_t nano;
    if (run_flags_nano_cpus(value, &nano) < 0)
        return error_set(
            err, ERR_INVALID,
            "not a number of CPUs; it takes a decimal number of at most nine places, such as 1.5");
    run_put(r->body, f->place, json_integer(nano));
    return 0;
}

/* A number and its unit, as in Go's durations; the length read, 0: neither. */
static size_t duration_part(const char *text, double *ret_ns)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1},  {"us", 1e3}, {"\302\265s", 1e3}, {"ms", 1e6},
                 {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};

    size_t digits = strspn(text, "0123456789.");
    _cleanup_(cleanup_free) char *number = xstrndup(text, digits);
    double value;
    if (!str_parse_double(number, &value))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (str_has_prefix(text + digits, units[i].unit)) {
            *ret_ns += value * units[i].ns;
            return digits + strlen(units[i].unit);
        }
    return 0;
}

int run_duration(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    double ns = 0;
    size_t n = 1;
    for (const char *p = value; *p && n > 0 && strcmp(value, "0") != 0; p += n)
        n = duration_part(p, &ns);
    if (n == 0 || !*value || ns > (double)f->most)
        return error_set(err, ERR_INVALID,
                         "not a duration; it takes numbers with ms, s, m or h, such as 1m30s");
    if (ns > 0 && ns < NSEC_PER_MSEC)
        return error_set(err, ERR_INVALID, "shorter than engines take; it takes 1ms at least");
    run_put(r->body, f->place, json_integer((json_int_t)ns));
    return 0;
}

/* ---- words ---- */

int run_switch(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    bool on = false; /* the CLI's words were checked when the flag was read */
    run_parse_bool(value, &on);
    run_put(r->body, f->place, json_boolean(on));
    return 0;
}

int run_string(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    run_put(r->body, f->place, json_string(value));
    return 0;
}

int run_word(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    for (const char *word = f->words; *word;) {
        size_t n = strcspn(word, "|");
        bool open = word[n - 1] == '*';
        size_t fixed = n - open;
        if (strncmp(value, word, fixed) == 0 && open == (value[fixed] != '\0'))
            return run_string(r, f, value, err);
        word += n + (word[n] == '|');
    }
    return error_set(err, ERR_INVALID, "it takes one of %s", f->words);
}

int run_path(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    if (!path_is_absolute(value))
        return error_set(err, ERR_INVALID, "not an absolute path");
    return run_string(r, f, value, err);
}

/* "0-3,5" */
int run_set(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    if (!*value || value[strspn(value, "0123456789,-")])
        return error_set(err, ERR_INVALID, "not a list of numbers; it takes such as 0-3 or 0,2");
    return run_string(r, f, value, err);
}

int run_list(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    if (!*value)
        return error_set(err, ERR_INVALID, "it takes a value");
    run_append(r->body, f->place, json_string(value));
    return 0;
}

int run_pair(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    _cleanup_(cleanup_free) char *name = NULL;
    const char *rest;
    if (!run_cut(value, &name, &rest) || !*name)
        return error_set(err, ERR_INVALID, "it takes NAME=VALUE");
    const char *member;
    json_t *map = run_place(r->body, f->place, &member);
    if (!json_is_object(json_object_get(map, member)))
        json_object_set_new(map, member, json_object());
    json_object_set_new(json_object_get(map, member), name, json_string(rest));
    return 0;
}

int run_sysctl(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    /* Those that the kernel keeps per namespace; others would be the engine's machine's. */
    static const char *const allowed[] = {
        "kernel.msgmax=", "kernel.msgmnb=", "kernel.msgmni=",          "kernel.sem=", "kernel.shmall=",
        "kernel.shmmax=", "kernel.shmmni=", "kernel.shm_rmid_forced=", "net.",        "fs.mqueue."};
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
        if (str_has_prefix(value, allowed[i]))
            return run_pair(r, f, value, err);
    return error_set(err, ERR_INVALID,
                     "not a setting of a container's own; it takes NAME=VALUE of net.*, fs.mqueue.*, "
                     "kernel.msg*, kernel.shm* and kernel.sem");
}

/* ---- with parts ---- */

int run_restart(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    static const char *const names[] = {"no", "always", "unless-stopped", "on-failure"};

    const char *colon = strchr(value, ':');
    _cleanup_(cleanup_free) char *name = xstrndup(value, strcspn(value, ":"));
    int64_t count = 0;
    bool known = !*value;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        known = known || strcmp(name, names[i]) == 0;
    bool counted = strcmp(name, "on-failure") == 0;
    if (!known || (colon && (!counted || !str_parse_i64(colon + 1, &count) || count < 0)))
        return error_set(err, ERR_INVALID,
                         "it takes no, always, unless-stopped, on-failure or on-failure:COUNT");
    run_put(r->body, f->place,
            json_pack("{s:s, s:I}", "Name", *name ? name : "no", "MaximumRetryCount", (json_int_t)count));
    return 0;
}

int run_ulimit(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    static const char names[] =
        " core cpu data fsize locks memlock msgqueue nice nofile nproc rss rtprio rttime "
        "sigpending stack ";

    _cleanup_(cleanup_free) char *name = NULL;
    const char *limits;
    if (!run_cut(value, &name, &limits))
        return error_set(err, ERR_INVALID, "it takes NAME=SOFT or NAME=SOFT:HARD, such as nofile=1024:4096");
    _cleanup_(cleanup_free) char *word = xasprintf(" %s ", name);
    if (strlen(name) == 0 || !strstr(names, word))
        return error_set(err, ERR_INVALID, "no such limit; there are%s", names);

    const char *colon = strchr(limits, ':');
    _cleanup_(cleanup_free) char *soft_text = xstrndup(limits, strcspn(limits, ":"));
    int64_t soft, hard;
    if (!str_parse_i64(soft_text, &soft) || !str_parse_i64(colon ? colon + 1 : soft_text, &hard) ||
        soft < -1 || hard < -1)
        return error_set(err, ERR_INVALID,
                         "it takes whole numbers, -1 for no limit: NAME=SOFT or NAME=SOFT:HARD");
    if (hard != -1 && (soft == -1 || soft > hard))
        return error_set(err, ERR_INVALID, "the soft limit is above the hard one");
    run_append_keyed(
        r->body, f->place, "Name",
        json_pack("{s:s, s:I, s:I}", "Name", name, "Soft", (json_int_t)soft, "Hard", (json_int_t)hard));
    return 0;
}

/* NAME or NAME:ALIAS */
int run_link(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    const char *colon = strchr(value, ':');
    if (colon == value || (colon && (!colon[1] || strchr(colon + 1, ':'))))
        return error_set(err, ERR_INVALID, "it takes CONTAINER or CONTAINER:ALIAS");
    return run_list(r, f, value, err);
}

int run_capability(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    size_t n = strlen(value);
    if (n == 0 || strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_") != n)
        return error_set(err, ERR_INVALID, "it takes the name of a capability, such as NET_RAW, or ALL");
    return 0;
}

/* OS[/ARCHITECTURE[/VARIANT]], or an architecture alone. */
int run_platform(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    size_t n = strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789_.-/");
    if (n == 0 || value[n] || value[0] == '/' || value[n - 1] == '/')
        return error_set(err, ERR_INVALID, "it takes OS/ARCHITECTURE, such as linux/arm64");
    return 0;
}
