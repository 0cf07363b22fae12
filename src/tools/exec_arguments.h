/* The arguments of terminal_execute and sandbox_exec: read, checked, and turned into a request for a
 * computer. */
#pragma once

#include "backends/backend.h"
#include "tools/bind.h"
#include "tools/tools.h"

enum output_encoding { ENCODING_TEXT, ENCODING_BASE64 };

struct exec_arguments {
    /* as given; borrowed from the call's arguments, or a reference */
    struct text command, stdin_text, stdin_base64, working_directory, computer_id;
    json_t *args, *env;
    double timeout_s;
    size_t output_limit;
    int encoding;    /* enum output_encoding */
    int temporary;   /* CHOICE_NONE, false, true */
    json_t *ignored; /* names of arguments that the tool does not have; NULL: none */

    /* made from them */
    char *id; /* NULL: the session's own computer */
    enum lifetime lifetime;
    char **argv;            /* strings borrowed from args; NULL: command is given */
    char **env_list;        /* NAME=VALUE; NULL: none */
    struct buf stdin_bytes; /* decoded */
};

/* What holds when the call doesn't say. */
struct exec_defaults {
    enum personality personality;
    double timeout_s;
    size_t output_limit;
    bool own_program; /* see BACKEND_OWN_PROGRAM */
};
/* -1 with ERR_INVALID. ret is to be freed by exec_arguments_done either way. */
int exec_arguments_read(const json_t *arguments, const struct exec_defaults *defaults,
                        struct exec_arguments *ret, struct error *err);
void exec_arguments_done(struct exec_arguments *a);
/* The request, borrowed from the arguments; without its wait. */
struct exec_request exec_arguments_request(const struct exec_arguments *a);
