/* Binding of arguments by table. Every message names the argument, what is wrong with it, and what is right.
 */
#include "tools/bind.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#define NEAR_MISS_EDITS 2

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
    default:
        return "null";
    }
}

static bool is_absent(const struct bind_field *f, const json_t *value)
{
    return json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0) ||
           (f->type == BIND_LIST && json_is_array(value) && json_array_size(value) == 0) ||
           (f->type == BIND_MAP && json_is_object(value) && json_object_size(value) == 0);
}

static bool has_nul(const json_t *string)
{
    return memchr(json_string_value(string), '\0', json_string_length(string)) != NULL;
}

static int bind_text(const struct bind_field *f, const json_t *value, void *to, struct error *err)
{
    if (!json_is_string(value))
        return error_set(err, ERR_INVALID, "'%s' must be a string, and is %s", f->name, type_name(value));
    struct text text = {json_string_value(value), json_string_length(value)};
    if (text.len > (size_t)f->max)
        return error_set(err, ERR_INVALID, "'%s' has %zu bytes, and %.0f are the maximum", f->name, text.len,
                         f->max);
    if (!(f->flags & BIND_ALLOW_NUL) && has_nul(value))
        return error_set(err, ERR_INVALID,
                         "'%s' contains a NUL character, which cannot be passed to a program; remove it",
                         f->name);
    *(struct text *)to = text;
    return 0;
}

bool bind_number(const json_t *value, double *ret)
{
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        return strlen(text) == json_string_length(value) && str_parse_double(text, ret);
    }
    if (!json_is_number(value))
        return false;
    *ret = json_number_value(value);
    return isfinite(*ret);
}

const char *bind_format(double number, char ret[BIND_NUMBER_SIZE])
{
    const bool is_short_whole = fabs(number) < 1e21 && trunc(number) == number;
    snprintf(ret, BIND_NUMBER_SIZE, is_short_whole ? "%.0f" : "%.10g", number);
    return ret;
}

static int read_number(const struct bind_field *f, const json_t *value, double *ret, struct error *err)
{
    char is[BIND_NUMBER_SIZE], min[BIND_NUMBER_SIZE], max[BIND_NUMBER_SIZE];
    bind_format(f->min, min);
    bind_format(f->max, max);
    if (!bind_number(value, ret))
        return error_set(err, ERR_INVALID, "'%s' must be a number from %s to %s%s, and is %s", f->name, min,
                         max, f->unit ? f->unit : "",
                         json_is_string(value) ? "a string that holds none" : type_name(value));
    if (*ret < f->min || *ret > f->max)
        return error_set(err, ERR_INVALID, "'%s' is %s, and must be from %s to %s%s", f->name,
                         bind_format(*ret, is), min, max, f->unit ? f->unit : "");
    return 0;
}

static int bind_double(const struct bind_field *f, const json_t *value, void *to, struct error *err)
{
    return read_number(f, value, to, err);
}

static int bind_size(const struct bind_field *f, const json_t *value, void *to, struct error *err)
{
    double number;
    if (read_number(f, value, &number, err) < 0)
        return -1;
    if (number != (double)(size_t)number) /* in range, hence defined */
        return error_set(err, ERR_INVALID, "'%s' is %.10g, and must be a whole number", f->name, number);
    *(size_t *)to = (size_t)number;
    return 0;
}

static int bind_bool(const struct bind_field *f, const json_t *value, void *to, struct error *err)
{
    const char *text = json_string_value(value); /* NULL unless a string */
    if (json_is_true(value) || (text && str_equal_nocase(text, "true")))
        *(int *)to = true;
    else if (json_is_false(value) || (text && str_equal_nocase(text, "false")))
        *(int *)to = false;
    else
        return error_set(err, ERR_INVALID, "'%s' must be true or false, and is %s", f->name,
                         text ? "another string" : type_name(value));
    return 0;
}

static int bind_choice(const struct bind_field *f, const json_t *value, void *to, struct error *err)
{
    char list[128] = "";
    const char *text = json_string_value(value);
    for (int i = 0; f->choices[i]; i++) {
        if (text && strcmp(text, f->choices[i]) == 0) {
            *(int *)to = i;
            return 0;
        }
        size_t len = strlen(list);
        snprintf(list + len, sizeof(list) - len, "%s\"%s\"", i ? " or " : "", f->choices[i]);
    }
    if (text)
        return error_set(err, ERR_INVALID, "'%s' must be %s, and is \"%.80s\"", f->name, list, text);
    return error_set(err, ERR_INVALID, "'%s' must be %s, and is %s", f->name, list, type_name(value));
}

static int check_total(const struct bind_field *f, size_t total, struct error *err)
{
    if (total <= (size_t)f->max)
        return 0;
    return error_set(err, ERR_INVALID,
                     "'%s' has more than %.0f bytes in all, the maximum: pass large data by stdin", f->name,
                     f->max);
}

/* An array of strings, or the JSON text of one. A new reference. */
static json_t *as_list(const struct bind_field *f, const json_t *value, struct error *err)
{
    struct error why = ERROR_INIT;
    json_t *list = NULL;
    if (json_is_array(value))
        list = json_incref((json_t *)(uintptr_t)value);
    else if (json_is_string(value))
        list = json_parse(json_string_value(value), json_string_length(value), &why);
    if (!json_is_array(list)) {
        json_decref(list);
        error_set(err, ERR_INVALID, "'%s' must be a list of strings, like [\"ls\",\"-l\"], and is %s",
                  f->name,
                  json_is_string(value) ? "a string that is not the JSON text of one" : type_name(value));
        return NULL;
    }
    return list;
}

static int bind_list(const struct bind_field *f, const json_t *value, void *to, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *list = as_list(f, value, err);
    if (!list)
        return -1;
    if (json_array_size(list) > f->max_items)
        return error_set(err, ERR_INVALID, "'%s' has %zu elements, and %zu are the maximum", f->name,
                         json_array_size(list), f->max_items);
    size_t index, total = 0;
    const json_t *item;
    json_array_foreach (list, index, item) {
        if (!json_is_string(item))
            return error_set(err, ERR_INVALID,
                             "'%s' must be a list of strings, and element %zu is %s: write it as a string",
                             f->name, index, type_name(item));
        if (has_nul(item))
            return error_set(err, ERR_INVALID,
                             "'%s' contains a NUL character in element %zu, which cannot be passed to a "
                             "program; remove it",
                             f->name, index);
        if (json_string_length(item) >= f->max_item)
            return error_set(
                err, ERR_INVALID,
                "element %zu of '%s' has %zu bytes, and %zu are the maximum: pass large data by stdin", index,
                f->name, json_string_length(item), f->max_item - 1);
        total += json_string_length(item) + 1;
    }
    if (check_total(f, total, err) < 0)
        return -1;
    if (json_array_size(list) > 0)
        *(json_t **)to = TAKE_PTR(list);
    return 0;
}

static int check_entry(const struct bind_field *f, const char *name, size_t name_len, const json_t *value,
                       struct error *err)
{
    if (name_len == 0)
        return error_set(err, ERR_INVALID, "'%s' contains an empty name: every variable needs one", f->name);
    for (size_t i = 0; i < name_len; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return error_set(err, ERR_INVALID,
                             "'%s' contains a name with a control character: names cannot have any", f->name);
    if (memchr(name, '=', name_len))
        return error_set(err, ERR_INVALID, "'%s' contains the name '%.80s', and names cannot contain '='",
                         f->name, name);
    if (!json_is_string(value))
        return error_set(err, ERR_INVALID,
                         "'%s' must hold strings, and '%.80s' is %s: write it as a string, or leave it out",
                         f->name, name, type_name(value));
    if (has_nul(value))
        return error_set(err, ERR_INVALID, "'%s' contains a NUL character in '%.80s'; remove it", f->name,
                         name);
    if (name_len + json_string_length(value) + 2 > f->max_item)
        return error_set(err, ERR_INVALID,
                         "'%.80s' in '%s' has more than %zu bytes, the maximum of one variable", name,
                         f->name, f->max_item - 2);
    return 0;
}

static int bind_map(const struct bind_field *f, const json_t *value, void *to, struct error *err)
{
    if (!json_is_object(value))
        return error_set(err, ERR_INVALID,
                         "'%s' must be an object of strings, like {\"LANG\":\"C\"}, and is %s", f->name,
                         type_name(value));
    if (json_object_size(value) > f->max_items)
        return error_set(err, ERR_INVALID, "'%s' has %zu entries, and %zu are the maximum", f->name,
                         json_object_size(value), f->max_items);
    json_t *object = (json_t *)(uintptr_t)value; /* the iterator isn't declared const */
    size_t total = 0;
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        size_t name_len = json_object_iter_key_len(i);
        if (check_entry(f, json_object_iter_key(i), name_len, json_object_iter_value(i), err) < 0)
            return -1;
        total += name_len + json_string_length(json_object_iter_value(i)) + 2;
    }
    if (check_total(f, total, err) < 0)
        return -1;
    *(json_t **)to = json_incref(object);
    return 0;
}

typedef int bind_fn(const struct bind_field *f, const json_t *value, void *to, struct error *err);
static bind_fn *const BINDERS[] = {
    [BIND_TEXT] = bind_text, [BIND_NUMBER] = bind_double, [BIND_SIZE] = bind_size,
    [BIND_BOOL] = bind_bool, [BIND_CHOICE] = bind_choice, [BIND_LIST] = bind_list,
    [BIND_MAP] = bind_map,
};

static const struct bind_field *find_field(const struct bind_field *fields, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

static bool is_alias(const struct bind_field *f, const char *name)
{
    char word[40];
    if (!f->aliases || strlen(name) > sizeof(word) - 3 || strchr(name, ' '))
        return false;
    snprintf(word, sizeof(word), " %s ", name);
    return strstr(f->aliases, word) != NULL;
}

/* The argument that an unknown name was probably meant for, or NULL. */
static const struct bind_field *find_meant(const struct bind_field *fields, size_t count, const char *name)
{
    const struct bind_field *nearest = NULL;
    int distance = NEAR_MISS_EDITS + 1;
    for (size_t i = 0; i < count; i++) {
        if (is_alias(&fields[i], name))
            return &fields[i];
        int d = str_edit_distance(name, fields[i].name, NEAR_MISS_EDITS);
        if (d < distance) {
            distance = d;
            nearest = &fields[i];
        }
    }
    return nearest;
}

int bind_arguments(const struct bind_field *fields, size_t count, const json_t *arguments, void *ret,
                   json_t **ret_ignored, struct error *err)
{
    json_t *object = (json_t *)(uintptr_t)arguments; /* the iterator isn't declared const */
    _cleanup_(cleanup_json_decref) json_t *ignored = NULL;
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        const char *name = json_object_iter_key(i);
        const json_t *value = json_object_iter_value(i);
        const struct bind_field *f = find_field(fields, count, name);
        if (!f && (f = find_meant(fields, count, name)))
            return error_set(err, ERR_INVALID, "there is no argument '%.80s': use '%s'%s%s%s", name, f->name,
                             f->unit ? " (in" : "", f->unit ? f->unit : "", f->unit ? ")" : "");
        if (!f) {
            ignored = ignored ? ignored : json_array();
            json_array_append_new(ignored, json_stringn(name, json_object_iter_key_len(i)));
        } else if (!is_absent(f, value) && BINDERS[f->type](f, value, (char *)ret + f->offset, err) < 0) {
            return -1;
        }
    }
    *ret_ignored = TAKE_PTR(ignored);
    return 0;
}

char **bind_environment(const json_t *map)
{
    if (!map)
        return NULL;
    size_t count = 0;
    json_t *env = (json_t *)(uintptr_t)map; /* the iterator isn't declared const */
    char **list = xcalloc(json_object_size(env) + 1, sizeof(*list));
    for (void *i = json_object_iter(env); i; i = json_object_iter_next(env, i))
        list[count++] =
            xasprintf("%s=%s", json_object_iter_key(i), json_string_value(json_object_iter_value(i)));
    return list;
}
