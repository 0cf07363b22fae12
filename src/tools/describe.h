/* The exec tool's description: the text of its schema file with the facts of this server filled in. */
#pragma once

#include "tools/tools.h"

/* A malloced string. `template` has {environment} {shell} {usage} {network} {limits} {timeout}
 * {output_limit}. */
char *describe_tool(const char *template, const struct toolset_options *options);
