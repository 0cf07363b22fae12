/* Configuration: one table of options (options.c), a row each, serves flags, environment, config file, --help,
 * --print-config and the man page. Precedence: flag > environment > file > default. Values are read by app.c only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* What the command line asks for. */
enum config_action { CONFIG_RUN, CONFIG_HELP, CONFIG_VERSION, CONFIG_PRINT, CONFIG_CHECK };

/* One member per option; the rows of options.c name it. Strings are owned, NULL when unset; lists are NULL-terminated. Sizes are bytes, times
 * are seconds. */
struct config_values;

struct config;
/* Reads argv, the environment and the config file. -1: *ret_exit is the exit code to use (2: can't be parsed; 1: out of
 * range, contradicting, or of a backend that this version lacks) and err names the flag (or variable, or file and line), the value and the
 * range. env is NAME=VALUE as in environ(7). */
struct config *config_load(int argc, char *const *argv, char *const *env, enum config_action *ret_action,
                           int *ret_exit, struct error *err);
struct config *config_free(struct config *c);
const struct config_values *config_values(const struct config *c);

/* "mcp-sandbox-computer-vm-for-ai" or "kilntainers": decided by argv[0]'s basename and --personality; known even when config_load
 * failed. */
const char *config_program_name(int argc, char *const *argv);
void config_print_help(const struct config *c, FILE *to);
/* Effective values and where each came from, secrets as "(set)". */
void config_print(const struct config *c, FILE *to);
