/* An account of Modal: as whom and where its control plane is spoken to, and what every call of it needs and
 * is asked for once only (the auth token, the app, the image builder's version). Any thread. */
#pragma once

#include <stdbool.h>

#include "base/cancel.h"
#include "base/error.h"

#define MODAL_ID_SIZE 80
#define MODAL_UUID_SIZE 37

struct modal_account;

/* What is NULL is taken from the profile, if there is one. Borrowed for the call. */
struct modal_account_options {
    const char *token_id, *token_secret;
    const char *profile;         /* MODAL_PROFILE; NULL: the active one */
    const char *config_path;     /* MODAL_CONFIG_PATH; NULL: ~/.modal.toml */
    const char *server_url;      /* MODAL_SERVER_URL; https:// or, for this machine itself, http:// */
    const char *environment;     /* MODAL_ENVIRONMENT */
    const char *builder_version; /* MODAL_IMAGE_BUILDER_VERSION; else the environment's own */
    const char *app_name;        /* that all sandboxes are of; made if it is missing */
    const char *ca_file;         /* whose certificates are trusted, alone; NULL: the system's */
    int generation_2; /* MODAL_SANDBOX_V2: 0 or 1; -1: the profile's, else 1. GPUs need 0 and get it */
};

/* Reads the profile; connects to nothing. NULL: ERR_INVALID; the tokens may be missing, which the first call
 * tells. */
struct modal_account *modal_account_new(const struct modal_account_options *o, struct error *err);
/* No call runs any more. Accepts NULL, returns NULL. */
struct modal_account *modal_account_free(struct modal_account *a);

/* Whether it answers and takes the tokens; finds or makes the app. */
int modal_account_check(struct modal_account *a, const struct wait *wait, struct error *err);

/* Letters, digits, "-" and "_", and short enough: it may go into a message, a record, a path. */
bool modal_is_id(const char *id);
/* A random UUID (version 4), for exec_id and the like. */
void modal_uuid(char ret[MODAL_UUID_SIZE]);
