/* Arguments of computer_create: a table, then what it can't say: sizes with units, and what the backend can't
 * do, which is refused before anything is made. */
#include "tools/create_arguments.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "tools/bind.h"

#define ID_TEXT_MAX 1024 /* the rule for ids has the better message */
#define YEAR_S 31536000.0

struct bound {
    struct text id, image, memory, disk, description;
    double cpus, ttl_s, idle_s;
    size_t pids;
    int temporary, network, on_idle;
    json_t *env;
};

static const char *const ON_IDLE[] = {[ON_IDLE_STOP] = "stop", [ON_IDLE_DELETE] = "delete", NULL};

#define AT(member) .offset = offsetof(struct bound, member)

static const struct bind_field FIELDS[] = {
    {.name = "computer_id",
     .type = BIND_TEXT,
     AT(id),
     .max = ID_TEXT_MAX,
     .aliases = " id computer name computer_name "},
    {.name = "temporary", .type = BIND_BOOL, AT(temporary), .aliases = " temp ephemeral "},
    {.name = "image", .type = BIND_TEXT, AT(image), .max = 255, .aliases = " template "},
    {.name = "cpu",
     .type = BIND_NUMBER,
     AT(cpus),
     .min = LIMIT_COMPUTER_CPUS_MIN,
     .max = LIMIT_COMPUTER_CPUS_MAX,
     .unit = " CPUs",
     .aliases = " cpus "},
    {.name = "memory", .type = BIND_TEXT, AT(memory), .max = 64, .aliases = " mem ram memory_limit "},
    {.name = "pids",
     .type = BIND_SIZE,
     AT(pids),
     .min = LIMIT_COMPUTER_PIDS_MIN,
     .max = LIMIT_COMPUTER_PIDS_MAX,
     .aliases = " processes "},
    {.name = "disk", .type = BIND_TEXT, AT(disk), .max = 64, .aliases = " disk_size storage "},
    {.name = "network", .type = BIND_BOOL, AT(network), .aliases = " internet "},
    {.name = "ttl", .type = BIND_NUMBER, AT(ttl_s), .min = 1, .max = YEAR_S, .unit = " seconds"},
    {.name = "idle_timeout",
     .type = BIND_NUMBER,
     AT(idle_s),
     .min = 1,
     .max = YEAR_S,
     .unit = " seconds",
     .aliases = " idle "},
    {.name = "on_idle", .type = BIND_CHOICE, AT(on_idle), .choices = ON_IDLE},
    {.name = "env",
     .type = BIND_MAP,
     AT(env),
     .max = LIMIT_ENV_BYTES,
     .max_item = LIMIT_ARG_BYTES,
     .max_items = LIMIT_ENV_COUNT,
     .aliases = " environment envs env_vars "},
    {.name = "description", .type = BIND_TEXT, AT(description), .max = 500, .aliases = " purpose note "},
};

static const struct {
    enum computer_option option;
    const char *name;
} OPTIONS[] = {
    {COMPUTER_IMAGE, "image"}, {COMPUTER_CPUS, "cpu"},  {COMPUTER_MEMORY, "memory"},
    {COMPUTER_PIDS, "pids"},   {COMPUTER_DISK, "disk"}, {COMPUTER_NETWORK, "network"},
    {COMPUTER_ENV, "env"},
};

const char *create_option_name(enum computer_option option)
{
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++)
        if (OPTIONS[i].option == option)
            return OPTIONS[i].name;
    return NULL;
}

static int check_options(const struct toolset *t, struct computer_options *o, struct error *err)
{
    if (!t->has_network && !o->network) /* which is how they are */
        o->given &= ~(unsigned)COMPUTER_NETWORK;
    const unsigned impossible = o->given & ~t->options;
    if (impossible & COMPUTER_NETWORK && !t->has_network)
        return error_set(
            err, ERR_UNSUPPORTED,
            "computers of the %s backend have no network: leave 'network' out, and bring what is "
            "needed by stdin",
            t->backend);
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++)
        if (impossible & OPTIONS[i].option)
            return error_set(err, ERR_UNSUPPORTED,
                             "computers of the %s backend can't have '%s' of their own here; leave it out, "
                             "and it is as the server has it for all",
                             t->backend, OPTIONS[i].name);
    return 0;
}

struct size_rule {
    const char *name;
    int64_t min, max;
    const char *range;
};
static const struct size_rule MEMORY = {"memory", LIMIT_COMPUTER_MEMORY_MIN, LIMIT_COMPUTER_MEMORY_MAX,
                                        "4m (4194304) to 64t"};
static const struct size_rule DISK = {"disk", LIMIT_COMPUTER_DISK_MIN, LIMIT_COMPUTER_DISK_MAX,
                                      "16m (16777216) to 1t"};

/* Parts of bytes, which a unit would make whole. */
static bool is_fraction(const char *text)
{
    return strchr(text, '.') && text[strspn(text, "0123456789.")] == '\0';
}

static int read_size(const struct size_rule *rule, const struct text *t, int64_t *ret, struct error *err)
{
    if (is_fraction(t->data) || !str_parse_size(t->data, ret) || *ret < rule->min || *ret > rule->max)
        return error_set(err, ERR_INVALID,
                         "'%s' is %.64s, and must be from %s: give whole bytes, or a number with a unit like "
                         "\"1g\"",
                         rule->name, t->data, rule->range);
    return 0;
}

/* It has to be written down with all else that the computer is. */
static int check_env(const json_t *env, struct error *err)
{
    const size_t bytes = env ? json_dumpb(env, NULL, 0, JSON_COMPACT) : 0;
    if (bytes <= LIMIT_KEPT_ENV_BYTES)
        return 0;
    return error_set(
        err, ERR_INVALID,
        "'env' has %zu bytes as JSON, and %lu are the maximum of what a computer keeps: give more "
        "with each command, by the 'env' of terminal_execute",
        bytes, LIMIT_KEPT_ENV_BYTES);
}

static int fill_options(const struct bound *b, struct create_arguments *ret, struct error *err)
{
    struct computer_options *o = &ret->options;
    const bool given[] = {b->image.data, b->cpus > 0,  b->memory.data,
                          b->pids > 0,   b->disk.data, b->network != CHOICE_NONE,
                          b->env};
    for (size_t i = 0; i < ARRAY_LEN(given); i++)
        o->given |= given[i] ? OPTIONS[i].option : 0;
    o->image = ret->image = b->image.data ? xstrndup(b->image.data, b->image.len) : NULL;
    o->cpus = b->cpus;
    o->pids = (int64_t)b->pids;
    o->network = b->network == 1;
    o->env = ret->env = bind_environment(b->env);
    if (b->memory.data && read_size(&MEMORY, &b->memory, &o->memory_bytes, err) < 0)
        return -1;
    return b->disk.data ? read_size(&DISK, &b->disk, &o->disk_bytes, err) : 0;
}

static int fill(const struct bound *b, struct create_arguments *ret, struct error *err)
{
    if (b->id.data) {
        ret->id = str_trim(b->id.data);
        if (slug_check(ret->id, err) < 0)
            return -1;
    }
    ret->lifetime = lifetime_of(b->temporary);
    ret->description = b->description.data ? xstrndup(b->description.data, b->description.len) : NULL;
    ret->terms = (struct computer_terms){
        .ttl_s = b->ttl_s,
        .idle_s = b->idle_s,
        .on_idle = b->on_idle == CHOICE_NONE ? ON_IDLE_STOP : (enum on_idle)b->on_idle,
        .description = ret->description,
    };
    ret->has_terms = b->ttl_s > 0 || b->idle_s > 0 || b->on_idle != CHOICE_NONE || ret->description;
    return check_env(b->env, err) < 0 ? -1 : fill_options(b, ret, err);
}

/* Numbers as sizes are taken, too: 536870912. */
static json_t *with_texts(const json_t *arguments)
{
    static const char *const sizes[] = {"memory", "disk"};
    json_t *copy = arguments ? json_copy((json_t *)(uintptr_t)arguments) : json_object();
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        const json_t *value = json_object_get(copy, sizes[i]);
        char text[BIND_NUMBER_SIZE];
        if (json_is_integer(value))
            json_object_set_new(copy, sizes[i], json_sprintf("%lld", (long long)json_integer_value(value)));
        else if (json_is_real(value))
            json_object_set_new(copy, sizes[i], json_string(bind_format(json_real_value(value), text)));
    }
    return copy;
}

int create_arguments_read(const struct toolset *t, const json_t *arguments, struct create_arguments *ret,
                          struct error *err)
{
    struct bound b = {.temporary = CHOICE_NONE, .network = CHOICE_NONE, .on_idle = CHOICE_NONE};
    _cleanup_(cleanup_json_decref) json_t *texts = with_texts(arguments);
    *ret = (struct create_arguments){.lifetime = LIFETIME_AS_IS};
    int r = bind_arguments(FIELDS, ARRAY_LEN(FIELDS), texts, &b, &ret->ignored, err);
    if (r == 0)
        r = fill(&b, ret, err);
    json_decref(b.env);
    return r < 0 ? -1 : check_options(t, &ret->options, err);
}

void create_arguments_done(struct create_arguments *a)
{
    json_decref(a->ignored);
    free(a->id);
    free(a->image);
    free(a->description);
    strv_free(a->env);
}
