/* An account at Fly and the one app in it that our machines belong to: whose token it is, and which app.
 * Everything is looked for when it is first needed, once for all who wait for it. Any thread. */
#pragma once

#include <stdbool.h>

#include "backends/provider.h"

/* Strings are borrowed for the call. */
struct fly_account_options {
    const char *token;         /* of a flag or a variable; NULL: that of the login */
    const char *app;           /* NULL: the recorded one, else one is made and recorded */
    const char *organisation;  /* FLY_ORG, for an app that is made; NULL: the personal one, else the first */
    const char *cli;           /* flyctl, a name or a path; NULL: "fly" */
    bool auto_install;         /* flyctl may be downloaded where there is no login */
    const char *install_dir;   /* FLYCTL_INSTALL; NULL: ~/.fly */
    const char *config_dir;    /* FLY_CONFIG_DIR; NULL: ~/.fly */
    const char *state_file;    /* where the app is recorded; NULL: the Python program's place */
    const char *api_base;      /* FLY_API_BASE_URL; NULL: https://api.fly.io */
    const char *machines_base; /* FLY_FLAPS_BASE_URL; NULL: https://api.machines.dev */
    const char *ca_file;       /* whose certificates are trusted, alone; NULL: the system's */
};

struct fly_account;
/* Checks what can be checked without a network: ERR_INVALID. Connects to nothing. */
struct fly_account *fly_account_new(const struct fly_account_options *options, struct error *err);
/* Nobody is opening it any more. Accepts NULL, returns NULL. */
struct fly_account *fly_account_free(struct fly_account *a);

/* Finds token and app, and makes the app where it is missing and may be made. It goes on when the wait is
 * over, for whoever asks next. ERR_DENIED: nobody is logged in, or the token isn't taken; the message has the
 * command that helps. */
int fly_account_open(struct fly_account *a, const struct wait *wait, struct error *err);

/* Once it is open, and as long as the account is there: the Machines API, as whom it is spoken to, and the
 * app's name, which is fit for a path. */
const struct provider *fly_account_machines(const struct fly_account *a);
const char *fly_account_app(const struct fly_account *a);
