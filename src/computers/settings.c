/* Options by a table: name, kind, and where the value is. See settings.h. */
#include "computers/settings.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/mem.h"

enum kind { KIND_TEXT, KIND_REAL, KIND_INTEGER, KIND_BOOL, KIND_LIST };

static const struct option {
    enum computer_option flag;
    enum kind kind;
    size_t offset;
    const char *name;   /* as the user gives it */
    const char *member; /* of the record */
} OPTIONS[] = {
    {COMPUTER_IMAGE, KIND_TEXT, offsetof(struct computer_options, image), "image", "image"},
    {COMPUTER_CPUS, KIND_REAL, offsetof(struct computer_options, cpus), "cpu", "cpus"},
    {COMPUTER_MEMORY, KIND_INTEGER, offsetof(struct computer_options, memory_bytes), "memory",
     "memory_bytes"},
    {COMPUTER_PIDS, KIND_INTEGER, offsetof(struct computer_options, pids), "pids", "pids"},
    {COMPUTER_DISK, KIND_INTEGER, offsetof(struct computer_options, disk_bytes), "disk", "disk_bytes"},
    {COMPUTER_NETWORK, KIND_BOOL, offsetof(struct computer_options, network), "network", "network"},
    {COMPUTER_ENV, KIND_LIST, offsetof(struct computer_options, env), "env", "env"},
};

#define VALUE(type, o, option) (*(type *)(void *)((char *)(uintptr_t)(o) + (option)->offset))

struct computer_options options_copy(const struct computer_options *o)
{
    if (!o)
        return (struct computer_options){0};
    struct computer_options copy = *o;
    copy.image = copy.given & COMPUTER_IMAGE ? xstrdup(o->image) : NULL;
    copy.env = copy.given & COMPUTER_ENV ? strv_copy(o->env) : NULL;
    return copy;
}

void options_done(struct computer_options *o)
{
    free((char *)(uintptr_t)o->image);
    strv_free((char **)(uintptr_t)o->env);
    *o = (struct computer_options){0};
}

static void write_value(struct json_writer *w, const struct computer_options *o, const struct option *option)
{
    switch (option->kind) {
    case KIND_TEXT:
        jw_string(w, VALUE(const char *, o, option));
        break;
    case KIND_REAL:
        jw_real(w, VALUE(double, o, option));
        break;
    case KIND_INTEGER:
        jw_integer(w, VALUE(int64_t, o, option));
        break;
    case KIND_BOOL:
        jw_bool(w, VALUE(bool, o, option));
        break;
    case KIND_LIST:
    default:
        jw_begin_array(w);
        for (char *const *item = VALUE(char *const *, o, option); *item; item++)
            jw_string(w, *item);
        jw_end_array(w);
        break;
    }
}

void options_write(struct json_writer *w, const struct computer_options *o)
{
    jw_begin_object(w);
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++) {
        if (!(o->given & OPTIONS[i].flag))
            continue;
        jw_key(w, OPTIONS[i].member);
        write_value(w, o, &OPTIONS[i]);
    }
    jw_end_object(w);
}

static bool read_list(const json_t *value, char ***ret)
{
    const size_t count = json_array_size(value);
    char **list = xcalloc(count + 1, sizeof(*list));
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_string(item) || strlen(json_string_value(item)) != json_string_length(item)) {
            strv_free(list);
            return false;
        }
        list[i] = xstrdup(json_string_value(item));
    }
    *ret = list;
    return true;
}

static bool read_value(const json_t *object, const struct option *option, struct computer_options *ret)
{
    const json_t *value = json_object_get(object, option->member);
    switch (option->kind) {
    case KIND_TEXT:
        VALUE(char *, ret, option) = xstrdup(json_get_string(object, option->member));
        return VALUE(char *, ret, option) != NULL;
    case KIND_REAL:
        VALUE(double, ret, option) = json_number_value(value);
        return json_is_number(value);
    case KIND_INTEGER:
        VALUE(int64_t, ret, option) = json_integer_value(value);
        return json_is_integer(value);
    case KIND_BOOL:
        VALUE(bool, ret, option) = json_is_true(value);
        return json_is_boolean(value);
    case KIND_LIST:
    default:
        return json_is_array(value) && read_list(value, &VALUE(char **, ret, option));
    }
}

bool options_read(const json_t *object, struct computer_options *ret)
{
    struct computer_options o = {0};
    if (object && !json_is_object(object))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++) {
        if (!json_object_get(object, OPTIONS[i].member))
            continue;
        if (!read_value(object, &OPTIONS[i], &o)) {
            options_done(&o);
            return false;
        }
        o.given |= OPTIONS[i].flag;
    }
    *ret = o;
    return true;
}

int options_check_possible(const struct backend *b, const struct computer_options *wanted, struct error *err)
{
    const unsigned possible = b->ops->options ? b->ops->options(b) : 0;
    for (size_t i = 0; wanted && i < ARRAY_LEN(OPTIONS); i++)
        if (wanted->given & ~possible & OPTIONS[i].flag)
            return error_set(err, ERR_UNSUPPORTED,
                             "computers of the backend '%s' can't have '%s' of their own: leave it out, and "
                             "it is as the server has it for all",
                             b->ops->name, OPTIONS[i].name);
    return 0;
}

static bool is_same(const struct computer_options *a, const struct computer_options *b,
                    const struct option *option)
{
    if (!(a->given & b->given & option->flag))
        return false;
    switch (option->kind) {
    case KIND_TEXT:
        return strcmp(VALUE(const char *, a, option), VALUE(const char *, b, option)) == 0;
    case KIND_REAL: /* as it was written and read, which gives back the same */
        return memcmp(&VALUE(double, a, option), &VALUE(double, b, option), sizeof(double)) == 0;
    case KIND_INTEGER:
        return VALUE(int64_t, a, option) == VALUE(int64_t, b, option);
    case KIND_BOOL:
        return VALUE(bool, a, option) == VALUE(bool, b, option);
    case KIND_LIST:
    default: {
        char *const *x = VALUE(char *const *, a, option), *const *y = VALUE(char *const *, b, option);
        while (*x && *y && strcmp(*x, *y) == 0)
            x++, y++;
        return !*x && !*y;
    }
    }
}

/* "memory=536870912". What is in an environment may be secret. */
static void describe(const struct computer_options *o, const struct option *option, char *ret, size_t size)
{
    if (!(o->given & option->flag))
        snprintf(ret, size, "%s as the server has it for all", option->name);
    else if (option->kind == KIND_LIST)
        snprintf(ret, size, "an %s of its own", option->name);
    else if (option->kind == KIND_TEXT)
        snprintf(ret, size, "%s=%.100s", option->name, VALUE(const char *, o, option));
    else if (option->kind == KIND_REAL)
        snprintf(ret, size, "%s=%g", option->name, VALUE(double, o, option));
    else if (option->kind == KIND_BOOL)
        snprintf(ret, size, "%s=%s", option->name, VALUE(bool, o, option) ? "true" : "false");
    else
        snprintf(ret, size, "%s=%lld", option->name, (long long)VALUE(int64_t, o, option));
}

static int differ(const char *id, const char *has, const char *wanted, const char *name, struct error *err)
{
    return error_set(err, ERR_EXISTS,
                     "computer '%s' exists already with %s, and was asked for with %s: leave '%s' out to use "
                     "it as it is, or choose another computer_id",
                     id, has, wanted, name);
}

int options_check_same(const char *id, const struct computer_options *has,
                       const struct computer_options *wanted, struct error *err)
{
    for (size_t i = 0; wanted && i < ARRAY_LEN(OPTIONS); i++) {
        if (!(wanted->given & OPTIONS[i].flag) || is_same(has, wanted, &OPTIONS[i]))
            continue;
        char theirs[128], ours[128];
        describe(has, &OPTIONS[i], theirs, sizeof(theirs));
        describe(wanted, &OPTIONS[i], ours, sizeof(ours));
        if (OPTIONS[i].kind == KIND_LIST)
            snprintf(ours, sizeof(ours), "another one");
        return differ(id, theirs, ours, OPTIONS[i].name, err);
    }
    return 0;
}

/* -- Terms. */

static const char *const ON_IDLE_NAMES[] = {[ON_IDLE_STOP] = "stop", [ON_IDLE_DELETE] = "delete"};

struct computer_terms terms_copy(const struct computer_terms *t, const struct computer_terms *all)
{
    struct computer_terms copy = *all;
    if (!t)
        return copy;
    copy.ttl_s = t->ttl_s > 0 ? t->ttl_s : all->ttl_s;
    copy.idle_s = t->idle_s > 0 ? t->idle_s : all->idle_s;
    copy.on_idle = t->on_idle;
    copy.description = xstrdup(t->description);
    return copy;
}

void terms_done(struct computer_terms *t)
{
    free((char *)(uintptr_t)t->description);
    *t = (struct computer_terms){0};
}

bool terms_are_none(const struct computer_terms *t)
{
    return t->ttl_s <= 0 && t->idle_s <= 0 && !t->description;
}

void terms_write(struct json_writer *w, const struct computer_terms *t)
{
    jw_begin_object(w);
    jw_key(w, "ttl_s");
    jw_real(w, t->ttl_s);
    jw_key(w, "idle_s");
    jw_real(w, t->idle_s);
    jw_key(w, "on_idle");
    jw_string(w, ON_IDLE_NAMES[t->on_idle]);
    if (t->description) {
        jw_key(w, "description");
        jw_string(w, t->description);
    }
    jw_end_object(w);
}

static bool is_seconds(const json_t *value)
{
    return json_is_number(value) && json_number_value(value) >= 0;
}

bool terms_read(const json_t *object, struct computer_terms *ret)
{
    if (!object) {
        *ret = (struct computer_terms){0};
        return true;
    }
    const json_t *ttl = json_object_get(object, "ttl_s"), *idle = json_object_get(object, "idle_s");
    const char *on_idle = json_get_string(object, "on_idle");
    const json_t *description = json_object_get(object, "description");
    if (!is_seconds(ttl) || !is_seconds(idle) || !on_idle ||
        (description && !json_get_string(object, "description")))
        return false;
    *ret = (struct computer_terms){
        .ttl_s = json_number_value(ttl),
        .idle_s = json_number_value(idle),
        .on_idle = strcmp(on_idle, ON_IDLE_NAMES[ON_IDLE_DELETE]) == 0 ? ON_IDLE_DELETE : ON_IDLE_STOP,
        .description = xstrdup(json_get_string(object, "description")),
    };
    return true;
}

static int check_seconds(const char *id, const char *name, double has, double wanted, struct error *err)
{
    char theirs[64], ours[64];
    if (wanted <= 0 || (has >= wanted && has <= wanted))
        return 0;
    snprintf(theirs, sizeof(theirs), has > 0 ? "%s=%g" : "no %s", name, has);
    snprintf(ours, sizeof(ours), "%s=%g", name, wanted);
    return differ(id, theirs, ours, name, err);
}

int terms_check_same(const char *id, const struct computer_terms *has, const struct computer_terms *wanted,
                     struct error *err)
{
    if (!wanted)
        return 0;
    return check_seconds(id, "ttl", has->ttl_s, wanted->ttl_s, err) < 0
               ? -1
               : check_seconds(id, "idle_timeout", has->idle_s, wanted->idle_s, err);
}
