/* Fuzzes both texts that config/ reads: the first byte decides between a config file and a command line
 * (arguments separated by newlines). Beyond not crashing: what was accepted prints as a config file that is
 * accepted and prints the same values again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check(bool right)
{
    if (!right)
        abort();
}

/* The active lines without their comments, which name the origin. */
static char *printed_values(const struct config *c)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT(CONFIG_TEXT_MAX);
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (config_is_explicit(c, row) && !(row->traits & (OPTION_SECRET | OPTION_FLAG_ONLY)))
            check(buf_printf(&b, "%s = ", row->name) == 0 && config_format(c, row, &b) == 0 &&
                  buf_append_byte(&b, '\n') == 0);
    }
    return buf_steal(&b);
}

static void check_round_trip(const struct config *c)
{
    char *values = printed_values(c);
    struct config *again = config_new();
    if (values != NULL) {
        check(config_file_apply(again, "printed", values, strlen(values), NULL) == 0);
        char *values_again = printed_values(again);
        check(values_again != NULL && strcmp(values, values_again) == 0);
        free(values_again);
    }
    config_free(again);
    free(values);
}

static void fuzz_file(const char *bytes, size_t n)
{
    struct config *c = config_new();
    struct error err = ERROR_INIT;
    if (config_file_apply(c, "fuzz.toml", bytes, n, &err) == 0)
        check_round_trip(c);
    else
        check(err.code != ERR_NONE && strncmp(err.msg, "fuzz.toml:", 10) == 0);
    config_free(c);
}

static void fuzz_arguments(char *text)
{
    char program[] = "program";
    char *argv[64] = {program};
    int argc = 1;
    char *rest;
    for (char *arg = strtok_r(text, "\n", &rest); arg != NULL && argc < 63; arg = strtok_r(NULL, "\n", &rest))
        if (strncmp(arg, "--c", 3) != 0) /* would read files of this machine: --config and its prefixes */
            argv[argc++] = arg;
    char *const env[] = {NULL};
    enum config_action action;
    int exit_code = 0;
    struct error err = ERROR_INIT;
    struct config *c = config_load(argc, argv, env, &action, &exit_code, &err);
    if (c == NULL)
        check((exit_code == 1 || exit_code == 2) && err.msg[0] != '\0');
    else if (action == CONFIG_RUN)
        check_round_trip(c);
    check(config_program_name(argc, argv) != NULL);
    config_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n == 0 || n > 65536)
        return 0;
    /* A copy of its exact size, so that a read beyond the end is seen. */
    char *text = xmalloc(n);
    memcpy(text, bytes + 1, n - 1);
    text[n - 1] = '\0';
    if (bytes[0] == 'A') {
        fuzz_arguments(text);
    } else {
        char *exact = xmalloc(n > 1 ? n - 1 : 1);
        memcpy(exact, text, n - 1);
        fuzz_file(exact, n - 1);
        free(exact);
    }
    free(text);
    return 0;
}
