/* Configuration: one table of options (options.c), a row each, serves flags, environment, config file,
 * --help, --print-config and the man page. Precedence: flag > environment > file > default. Values are read
 * by app.c only. */
#pragma once

#include <stdio.h>

#include "base/error.h"
#include "base/macros.h"
#include "config/config_values.h"

/* What the command line asks for. */
enum config_action { CONFIG_RUN, CONFIG_HELP, CONFIG_VERSION, CONFIG_PRINT, CONFIG_CHECK };

struct config;
/* Reads argv, the environment and the config file. NULL: *ret_exit is the exit code to use (2: the command
 * line can't be parsed; 1: out of range, contradicting, of a backend that this version lacks, or the
 * environment or the file is wrong) and err names the flag (or variable, or file and line), the value and
 * what would be right. env is NAME=VALUE as in environ(7). With CONFIG_HELP and CONFIG_VERSION nothing but
 * argv was looked at: the values are the defaults. */
struct config *config_load(int argc, char *const *argv, char *const *env, enum config_action *ret_action,
                           int *ret_exit, struct error *err);
struct config *config_free(struct config *c); /* accepts NULL, returns NULL */
DEFINE_CLEANUP(struct config *, config_free)

const struct config_values *config_values(const struct config *c);
/* What to log once at start: a NULL-terminated list, perhaps empty. */
char *const *config_warnings(const struct config *c);

/* "mcp-sandbox-computer-vm-for-ai" or "kilntainers": decided by argv[0]'s basename and --personality; known
 * even when config_load failed. */
const char *config_program_name(int argc, char *const *argv);
const char *config_version(void); /* "0.1.0" */

void config_print_help(const struct config *c, FILE *to);
void config_print_version(const struct config *c, FILE *to); /* "NAME VERSION" */
/* Effective values and where each came from, as a config file that means the same; secrets are "(set)". */
void config_print(const struct config *c, FILE *to);
