/* Tokens of Fly, of which one text may hold several: "FlyV1 fm2_a,fm2_b,o". Source: fly-go, August 2026. */
#pragma once

#include "base/error.h"
#include "base/macros.h"

/* All are secrets. */
struct fly_token {
    char *machines; /* the Authorization header for the Machines API */
    char *graphql;  /* and for GraphQL */
    char *pieces;   /* every single token, by commas */
};
void fly_token_done(struct fly_token *t);

/* ERR_INVALID: it is none; `what` says in the message where it is from, which itself never holds any of it.
 */
int fly_token_parse(const char *what, const char *text, struct fly_token *ret, struct error *err);
/* The token of `fly auth login`, as flyctl's folder has it (NULL: FLY_CONFIG_DIR's default, ~/.fly). 1: *ret
 * is it; 0: nobody is logged in; -1: the file can't be read, or isn't understood. */
int fly_token_of_login(const char *folder, struct fly_token *ret, struct error *err);
