/* What computer_create was asked for, checked. */
#pragma once

#include <jansson.h>

#include "computers/computers.h"
#include "tools/toolset.h"

struct create_arguments {
    char *id; /* NULL: a random one */
    enum lifetime lifetime;
    struct computer_options options;
    struct computer_terms terms;
    bool has_terms;
    json_t *ignored; /* names; NULL: none */

    /* what the members above point to */
    char *image, *description;
    char **env;
};
/* ERR_INVALID, ERR_UNSUPPORTED: what computers can't have here. For create_arguments_done() either way. */
int create_arguments_read(const struct toolset *t, const json_t *arguments, struct create_arguments *ret,
                          struct error *err);
void create_arguments_done(struct create_arguments *a);
/* The name of an option, as the argument has it: "memory". */
const char *create_option_name(enum computer_option option);
