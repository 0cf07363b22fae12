/* A computer as the lifecycle tools show it. */
#pragma once

#include "base/json.h"
#include "computers/computers.h"

/* One object. */
void view_write(struct json_writer *w, const struct computer_view *v);
/* What tells that name: the first 12 characters of the provider's. */
void view_write_sandbox_id(struct json_writer *w, const struct computer_view *v);
