/* Inside config/: the object, and what its files offer each other. */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "config/config.h"
#include "config/option.h"

enum config_source { SOURCE_DEFAULT, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_FLAG };

/* Where a value came from, for messages and --print-config. */
struct origin {
    enum config_source source;
    const char *name; /* of the file (borrowed from struct config) or the variable */
    int line;         /* in the file */
};

struct config {
    struct config_values values;
    struct origin *origins; /* one per row of the table */
    char *file;             /* the config file that was read, or NULL */
    char **warnings;
    size_t columns; /* of help */
};

/* state.c */
struct config *config_new(void);
void config_warn(struct config *c, const char *fmt, ...) _printf_(2, 3);
void *config_member(const struct config *c, const struct option_row *row); /* where the row's value is */
const struct origin *config_origin(const struct config *c, const struct option_row *row);
/* Was it asked for, by flag or in the file? What merely lies about in the environment doesn't count. */
bool config_is_explicit(const struct config *c, const struct option_row *row);
const char *env_get(char *const *env, const char *name); /* NULL if absent or empty */

/* value.c */
/* Sets a member from text; a list gets another element unless the new source outranks the old one.
 * ERR_INVALID: not of the type; ERR_LIMIT: out of range; the message names origin and value. */
int config_set(struct config *c, const struct option_row *row, const char *text, const struct origin *origin,
               struct error *err);
/* Frees the member's content; it is not set any more. */
void config_clear(struct config *c, const struct option_row *row);
/* "--port 70000", "SANDBOX_BACKEND=x", "FILE:3: port = 70000": secrets hidden, unprintable bytes replaced,
 * long texts cut. */
#define SUBJECT_SIZE 256
const char *config_subject(const struct option_row *row, const struct origin *origin, const char *text,
                           char buf[SUBJECT_SIZE]);

/* help.c */
/* Its help text, with all that the row says. */
void option_describe(const struct option_row *row, bool kilntainers, struct buf *to);
void option_usage(const struct option_row *row, struct buf *to); /* "-h, --help", "--port PORT" */

/* print.c */
#define CONFIG_TEXT_MAX (64UL << 20)
/* Appends the value as the config file has it; nothing if it is not set. */
int config_format(const struct config *c, const struct option_row *row, struct buf *to) _must_use_;
unsigned config_enum(const struct config *c, const struct option_row *row); /* the value of an OPTION_ENUM */

/* arguments.c */
struct arguments {
    int argc;
    char *const *argv;
    int next; /* starts at 1 */
    enum config_personality personality;
};
struct argument {
    const struct option_row *row;
    const char *value; /* "true" and "false" for OPTION_BOOL, NULL for OPTION_ACTION */
};
/* 1: *ret is the next option; 0: no more; -1: a usage error, after which the rest can still be read. */
int arguments_next(struct arguments *a, struct argument *ret, struct error *err);
enum config_personality arguments_personality(int argc, char *const *argv);
const char *program_name(enum config_personality personality);

/* config.c */
/* All values from all sources, rules not yet checked. *ret_arguments tells, of an error, whether it was met
 * on the command line. */
int config_read(struct config *c, const struct arguments *a, char *const *env, enum config_action *ret_action,
                bool *ret_arguments, struct error *err);

/* file.c */
int config_file_apply(struct config *c, const char *name, const char *bytes, size_t n, struct error *err);

/* places.c */
/* Reads the file named by --config, or the first default one that exists. */
int config_file_read(struct config *c, char *const *env, struct error *err);
int state_dir_resolve(struct config *c, char *const *env, struct error *err);

/* rules.c */
int rules_check(struct config *c, struct error *err);
