/* Image references: [REGISTRY[:PORT]/]PATH[:TAG][@DIGEST]. Source: the grammar of
 * github.com/distribution/reference. */
#pragma once

#include <stddef.h>

#include "base/error.h"

#define REFERENCE_MAX 512
#define REFERENCE_HUB "docker.io" /* the registry of what names none */

struct reference {
    char registry[256];       /* "docker.io" where none is named */
    char path[256];           /* "library/debian" */
    char tag[129];            /* "latest" where neither tag nor digest is given; "" with a digest alone */
    char digest[160];         /* "sha256:..."; "" without */
    char text[REFERENCE_MAX]; /* as it was given, which is how engines are asked for it */
    size_t name_len;          /* of text without tag and digest */
};

/* ERR_INVALID says what is wrong with it. */
int reference_parse(const char *text, struct reference *ret, struct error *err);
