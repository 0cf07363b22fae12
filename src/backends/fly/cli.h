/* flyctl, Fly's own program. It is asked for one thing only, the token of a login, and installed for one
 * reason only: so that whoever isn't logged in has it for that. */
#pragma once

#include <stdbool.h>

#include "backends/fly/token.h"
#include "base/cancel.h"

/* Where it is looked for, in this order: name or path as told; if it is the usual name, both of its names in
 * PATH and in the folder that it installs itself to. A malloced path; NULL: it is in none of these. */
char *cli_find(const char *name, const char *install_dir);
bool cli_name_is_usual(const char *name);

/* The token that it uses. 1: *ret is it; 0: it has none, which is also what its failing means. */
int cli_token(const char *path, const struct wait *wait, struct fly_token *ret);

/* A release, and where it goes. */
struct cli_release {
    const char *api_base;    /* https://api.fly.io, which knows the newest one */
    const char *ca_file;     /* NULL: the system's */
    const char *install_dir; /* NULL: ~/.fly; bin/flyctl in it, and a link bin/fly */
};
/* Downloads it, checks it against its checksums, and puts it there. Any number of servers at once. The
 * message says why it can't be done. */
int cli_install(const struct cli_release *r, const struct wait *wait, struct error *err);

/* The SHA-256 of a file of that name in the text of a checksums.txt: 64 hexadecimal digits. Malloced; NULL:
 * it isn't there. */
char *cli_sum_of(const char *checksums, const char *name);
