/* What init's record of a command means for who asked for it. */
#pragma once

#include "backends/native/private.h"

/* A result (0), or the error that it comes to (-1). The record is from a stranger: any values. */
int verdict(const struct native_instance *i, const struct exec_request *request,
            const struct guest_exit *record, struct exec_result *ret, struct error *err);
/* The error for a computer that ended under a command. */
int verdict_gone(const struct native_instance *i, bool out_of_memory, struct error *err);
/* Whether the root that computers are made from has a file. */
bool verdict_base_has(const struct native *n, const char *path);
