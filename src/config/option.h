/* Inside config/: what a row of the options table says. See options.c for the rows. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum option_type {
    OPTION_ACTION, /* --help and the like: no value, no member */
    OPTION_BOOL,
    OPTION_STRING,
    OPTION_PATH, /* a string, made absolute */
    OPTION_INTEGER,
    OPTION_NUMBER,
    OPTION_SECONDS,
    OPTION_SIZE,
    OPTION_ENUM,
    OPTION_LIST /* strings; the flag is repeatable */
};

enum option_trait {
    OPTION_SEED_COMPUTER = 1 << 0,    /* a flag of the Python mcp-sandbox-computer-vm-for-ai */
    OPTION_SEED_KILNTAINERS = 1 << 1, /* a flag of the Python kilntainers */
    OPTION_SECRET = 1 << 2,           /* never shown */
    OPTION_LATER = 1 << 3,            /* known, not in this version: refused when asked for */
    OPTION_FLAG_ONLY = 1 << 4,        /* not a key of the config file */
    OPTION_NO_FLAG = 1 << 5,          /* environment and config file only */
    OPTION_HTTP_ONLY = 1 << 6,        /* refused with --transport stdio */
    OPTION_MEANS_DOCKER = 1 << 7,     /* asks for the docker backend when none is named; a switch by its on */
    OPTION_PAIRS = 1 << 8,            /* each element is KEY=VALUE */
    OPTION_PRESENCE = 1 << 9,         /* any value of the variable but the empty one means true */
    OPTION_DASHES = 1 << 10,          /* the value may begin with "--" as an argument of its own */
    OPTION_OR_STDERR = 1 << 11        /* a path, or "-" for standard error */
};

enum option_group {
    GROUP_CORE,
    GROUP_PROGRAM,
    GROUP_DESCRIPTION,
    GROUP_LOCAL,
    GROUP_HTTP,
    GROUP_DOCKER,
    GROUP_FLY,
    GROUP_E2B,
    GROUP_MODAL,
    GROUP_WASM,
    GROUP_COUNT
};

struct option_group_row {
    const char *title;
    bool later;   /* nothing in this version uses them */
    bool backend; /* they belong to one backend */
};
extern const struct option_group_row option_groups[GROUP_COUNT];

/* A value that an OPTION_ENUM takes; its index is the enum's constant. The list ends with a NULL name. */
struct option_name {
    const char *name;
    bool later; /* known, not in this version */
};

struct option_row {
    const char *name;    /* the flag without its dashes, and the key in the config file */
    const char *negated; /* the flag that says no, or NULL */
    char letter;         /* the short flag, or 0 */
    enum option_type type;
    enum option_group group;
    unsigned traits;             /* of enum option_trait */
    size_t member;               /* offset in struct config_values; of OPTION_ACTION the enum config_action */
    const char *env[3];          /* variables, the first that is set and not empty counts */
    const char *def;             /* default, as text; NULL: not set */
    const char *def_kilntainers; /* where it differs under that name */
    const char *def_told;        /* what help says of a default that is no fixed text */
    double min, max;             /* of numbers, sizes and times */
    const struct option_name *names;
    const char *arg; /* placeholder in help; NULL for flags without a value */
    const char *help;
};
extern const struct option_row option_rows[];
extern const size_t option_row_count;

/* The row of a name, or NULL. */
const struct option_row *option_find(const char *name);
/* The name that was probably meant, or NULL. */
const char *option_near_miss(const char *name, bool flags_only);
/* "0 to 65535"; "" for rows without a range. */
#define OPTION_RANGE_SIZE 64
const char *option_range(const struct option_row *row, char buf[OPTION_RANGE_SIZE]);
/* The default under a personality, or NULL. */
const char *option_default(const struct option_row *row, bool kilntainers);
