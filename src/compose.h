/* Which backend makes the computers, and the parts that depend on it. */
#pragma once

#include "base/error.h"
#include "config/config_values.h"

struct parts {
    struct backend *backend;
    struct computers *computers;
    struct toolset *toolset;
};

/* What CONFIG_AUTO means, as far as a look at files and sockets tells: native where nothing looks like an
 * engine, else still CONFIG_AUTO; every other backend is what it is. -1: native computers can't be made. */
int backend_settle(const struct config_values *v, enum config_backend *ret, struct error *err);
/* What CONFIG_AUTO means after all: docker if an engine answers soon, else native. Blocks; a worker's. */
enum config_backend backend_ask(const struct config_values *v);

/* What keeps an engine that is there from being used, for people; NULL: nothing that is known. Malloced. */
char *backend_hindrance(const struct config_values *v);

/* backend is not CONFIG_AUTO. Touches no disk and asks no engine. */
int parts_new(struct parts *ret, const struct config_values *v, enum config_backend backend,
              struct error *err);
void parts_done(struct parts *p); /* empty ones are fine */
