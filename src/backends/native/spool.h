/* The full output of a command whose output is too long to be kept: files in the computer, made by init,
 * written by us. */
#pragma once

#include "backends/native/private.h"
#include "backends/output.h"

struct spool {
    struct native_instance *instance;
    struct {
        int fd; /* -1: none (yet, or it couldn't be) */
        char *path;
        uint64_t written;
        bool cut; /* something wasn't written */
    } streams[OUTPUT_STREAMS];
};

void spool_init(struct spool *s, struct native_instance *i);
output_spool_fn spool_write;
/* Closes the files and tells the result where they are. */
void spool_finish(struct spool *s, struct exec_result *ret);
