/* Between the files that make up run_flags: the row of the table, what is gathered while flags are read, and
 * the parsers. A parser puts one value into the body, or refuses it with ERR_INVALID and a reason; flag and
 * value are put before that by its caller. A row without one keeps its values for run_settle(). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define ASKED "--docker-run-flag: " /* before a message that names its flag itself */

struct run {
    json_t *body;  /* borrowed */
    json_t *given; /* flag -> list of its values, in order */
};

struct run_flag {
    const char *name;
    char letter;    /* of the short form, or 0 */
    bool is_switch; /* takes no value, or one of true and false after "=" */
    bool is_secret; /* values appear in no error */
    int (*parse)(struct run *r, const struct run_flag *f, const char *value, struct error *err);
    const char *place;         /* in the body: "HostConfig.Memory" */
    const char *words;         /* that are taken, apart by "|"; one that ends in "*" needs more after it */
    int64_t least, most, also; /* range, and one number besides */
};

static inline bool run_in_range(const struct run_flag *f, int64_t value)
{
    return value == f->also || (value >= f->least && value <= f->most);
}

typedef int run_parser(struct run *r, const struct run_flag *f, const char *value, struct error *err);

/* run_values.c: what is one value, and lists and maps of such. */
run_parser run_switch, run_string, run_word, run_path, run_integer, run_bytes, run_cpus, run_duration,
    run_set;
run_parser run_list, run_pair, run_sysctl, run_restart, run_ulimit, run_link;
run_parser run_capability, run_platform; /* these only look at the value */
/* run_devices.c */
run_parser run_device, run_device_rule, run_device_rate, run_device_weight, run_gpus;
/* run_mounts.c */
run_parser run_volume, run_mount, run_tmpfs;
/* run_network.c: what waits for the networks, is settled by run_settle_networks. */
run_parser run_publish, run_expose, run_network, run_add_host, run_dns, run_dns_search, run_mac;
run_parser run_endpoint_ip, run_endpoint_list;
int run_settle_networks(struct run *r, struct error *err);

/* run_settle.c: what depends on several flags. */
int run_settle(struct run *r, struct error *err);

/* The values of a flag that were given; NULL: none. */
const json_t *run_given(const struct run *r, const char *flag);

/* The object that has the last member of a path such as "HostConfig.LogConfig.Type"; objects on the way are
 * made. */
json_t *run_place(json_t *root, const char *path, const char **ret_member);
void run_put(json_t *root, const char *path, json_t *value); /* takes the reference */
json_t *run_get(const json_t *root, const char *path);       /* borrowed; NULL if absent */
void run_append(json_t *root, const char *path, json_t *value);
/* Sets the first element of the array there whose member `key` is the same as value's, else appends. */
void run_append_keyed(json_t *root, const char *path, const char *key, json_t *value);

/* The fields of one line of comma-separated values (RFC 4180), as a list of strings; NULL with the error. */
json_t *run_csv(const char *text, struct error *err);
/* "NAME=VALUE" apart: a malloced name, and the value within `text`; "" and false without "=". */
bool run_cut(const char *text, char **ret_name, const char **ret_value);
/* The same into the map at `place`, which ends in a dot, since names have dots of their own. False: no name.
 */
bool run_put_pair(json_t *root, const char *place, const char *pair);
/* As Go's ParseBool has it. */
bool run_parse_bool(const char *text, bool *ret);
/* A path that begins with a dot, from our working directory on. Malloced. */
char *run_absolute(const char *path);
