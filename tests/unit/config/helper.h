/* What the tests of config/ share: loading from literals, config files on disk, text of what is printed. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "config/state.h"

#define ARGS(...) ((const char *const[]){"mcp-sandbox-computer-vm-for-ai", __VA_ARGS__ __VA_OPT__(, ) NULL})
#define K_ARGS(...) ((const char *const[]){"/usr/bin/kilntainers", __VA_ARGS__ __VA_OPT__(, ) NULL})
/* A home that doesn't exist: no config file of this machine's user is read. */
#define ENV(...) ((const char *const[]){"HOME=/nonexistent", __VA_ARGS__ __VA_OPT__(, ) NULL})

/* The loader takes what main() gets; nothing of it is written to. */
static inline char *const *as_main(const char *const *strings)
{
    return (char *const *)(uintptr_t)strings;
}

static inline int args_count(const char *const *argv)
{
    return (int)strv_len(as_main(argv));
}

static inline struct config *load_ok(const char *const *argv, const char *const *env)
{
    enum config_action action;
    int exit_code;
    struct error err = ERROR_INIT;
    struct config *c = config_load(args_count(argv), as_main(argv), as_main(env), &action, &exit_code, &err);
    if (c == NULL)
        fail_msg("refused: %s", err.msg);
    return c;
}

/* The load fails with this exit code and all the texts (NULL-terminated) in its message. */
static inline void assert_refused(const char *const *argv, const char *const *env, int exit_code,
                                  const char *const *texts)
{
    enum config_action action;
    int got = -1;
    struct error err = ERROR_INIT;
    struct config *c = config_load(args_count(argv), as_main(argv), as_main(env), &action, &got, &err);
    if (c != NULL)
        fail_msg("not refused; expected a message with '%s'", texts[0]);
    for (; *texts != NULL; texts++)
        if (strstr(err.msg, *texts) == NULL)
            fail_msg("'%s' is not in: %s", *texts, err.msg);
    if (got != exit_code)
        fail_msg("exit code %d rather than %d: %s", got, exit_code, err.msg);
}
#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A file in /tmp with that content; the path is malloced. */
static inline char *write_file(const void *bytes, size_t n)
{
    char *path = xstrdup("/tmp/test-config-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    assert_int_equal(close(fd), 0);
    return path;
}

static inline void remove_file(char *path)
{
    unlink(path);
    free(path);
}

/* What a print function writes, as a malloced string. */
static inline char *printed(const struct config *c, void (*print)(const struct config *, FILE *))
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    print(c, to);
    assert_int_equal(fclose(to), 0);
    return text;
}

/* The value of a row, as the config file has it. */
static inline char *value_of(const struct config *c, const struct option_row *row)
{
    struct buf b = BUF_INIT(CONFIG_TEXT_MAX);
    assert_int_equal(config_format(c, row, &b), 0);
    char *text = xstrdup(buf_str(&b));
    buf_done(&b);
    return text;
}
