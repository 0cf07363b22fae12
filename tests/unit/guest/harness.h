/* Plays the server towards the guest program: starts a zygote, makes computers, runs commands. Any failure of
 * its own ends the test program, with words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/wire.h"

#define ID_BASE 0x30000000U
#define ID_COUNT 65536U

struct zygote {
    char folder[64]; /* holds state/ and base/ */
    pid_t pid;
    int control;
    uint32_t root_flags;
    struct guest_error error; /* of the setup */
};

struct computer {
    int pidfd, channel;
    pid_t pid;
    uint32_t next_id;
    char group[128];      /* its cgroup2 folder, "" without */
    const char *v1_group; /* one of cgroup v1 that it joined; NULL without */
    struct guest_error error;
};

struct command {
    const char *const *argv;
    const char *const *env; /* NULL: a PATH */
    const char *cwd;        /* NULL: / */
    const char *in;         /* NULL: no input, unless */
    const int *in_fd;       /* this is passed */
    const char *script;     /* NULL: none */
    const char *scope;      /* NULL: none; else a cgroup2 folder */
    bool join_by_writing;   /* the scope is passed as its cgroup.procs */
    bool body_in_memfd;
};

/* One command under way; its record comes on `status`. */
struct started {
    uint32_t id;
    int out, err, status;
};

struct ended {
    struct guest_exit record;
    char out[65536], err[4096];
};

/* NULL, or why the guest can't be tested here. */
const char *harness_obstacle(void);

struct zygote zygote_start(uint32_t root_flags);
void zygote_stop(struct zygote *zygote); /* closes the control socket, waits, removes the folders */
/* Without waiting for GUEST_READY: error is of the reply. A name that begins with a dot is the folder's only:
 * the computer has no host name. */
struct computer computer_begin(struct zygote *zygote, const char *name, uint32_t flags);
/* Complete; error.stage "" if it is. The v1 group, if any, is removed with it. */
struct computer computer_make_in(struct zygote *zygote, const char *name, uint32_t flags,
                                 const char *v1_group);
struct computer computer_make(struct zygote *zygote, const char *name, uint32_t flags);
void computer_end(struct computer *computer); /* closes the channel, waits for its end */
bool computer_gone_within(const struct computer *computer, int milliseconds);

struct started command_start(struct computer *computer, const struct command *command);
/* Until the record is there, then what is in the pipes. False: end of file without a record. */
bool command_end(struct started *started, struct ended *ret);
bool command_run(struct computer *computer, const struct command *command, struct ended *ret);
/* /bin/sh -c, in the default scope. */
bool shell_run(struct computer *computer, const char *text, struct ended *ret);

void send_packet(int socket, const void *bytes, size_t size, const int *fds, unsigned fd_count);
bool receive_packet(int socket, void *bytes, size_t size, int *ret_fd);

bool have_cgroup2(void);
/* A folder beneath the computer's group. */
void scope_make(const struct computer *computer, const char *name, char *ret, size_t size);
void group_write(const char *group, const char *file, const char *text);
bool group_empty(const char *group);
void group_remove(const char *group);

int sealed_memfd(const char *name, const void *bytes, size_t size, int seals);
_Noreturn void harness_die(const char *what);
