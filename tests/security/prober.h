/* What the parts of the prober share. */
#pragma once

#define _GNU_SOURCE
#include <stddef.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

struct mode {
    const char *name;
    int (*run)(int argc, char **argv);
};
extern const struct mode tricks[]; /* of tricks.c */
extern const size_t trick_count;

/* "NAME: VALUE", or "NAME: ENAME" if it is -1; returns whether it was. */
int say(const char *name, long value);
