/* Failures as records: the step, errno, and words if there are any, for the server to turn into an error. */
#pragma once

#include "guest/wire.h"

/* All return -1, so that a failing step is one line: `return report(err, "mount proc");`. errno is taken as
 * it is. */
int report(struct guest_error *err, const char *stage);
int report_at(struct guest_error *err, const char *stage, const char *what); /* stage "mask proc/keys" */
int report_text(struct guest_error *err, int sys, const char *stage, const char *text);
