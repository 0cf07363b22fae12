/* The full output of a command whose output is too long to be kept: files in the computer, made in whatever
 * way its backend has, written by us. */
#pragma once

#include "backends/output.h"

/* Makes a new file in the computer, in a folder for such files. Returns its descriptor, and its path as
 * commands name it, malloced; or -1. */
typedef int spool_open_fn(void *ctx, const char *name, char **ret_path);

struct spool {
    spool_open_fn *open;
    void *ctx;
    struct {
        int fd; /* -1: none (yet, or it couldn't be) */
        char *path;
        uint64_t written;
        bool cut; /* something wasn't written */
    } streams[OUTPUT_STREAMS];
};

void spool_init(struct spool *s, spool_open_fn *open, void *ctx);
output_spool_fn spool_write;
/* Closes the files and tells the result where they are. */
void spool_finish(struct spool *s, struct exec_result *ret);
