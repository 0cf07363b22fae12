/* Computers on disk: STATE/computers/PRINCIPAL/ID/ with
 *
 *   record.json  what the computer is and who runs it (0600, replaced as a whole); record.deleting.json once
 *                it is being removed and could not be written
 *   ...          whatever the backend keeps there
 *
 * The folder itself is flock'ed by the server that runs the computer, for as long as it does. Whoever holds
 * that lock owns it, and only an owner renames or removes it. A folder is born under another name (.new-HEX)
 * and dies under another (.old-HEX), so that what has an id is always whole: locked, with a record. All of it
 * blocks on the disk only. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "computers/computers.h"
#include "computers/owner.h"
#include "base/slug.h"

#define COMPUTER_KEY_SIZE 17 /* 16 hex digits */

/* By both clocks. The monotonic one, which stands still while the machine is suspended, counts within a boot;
 * the other one across boots. */
struct moment {
    int64_t now, wall;
};

struct record {
    char id[SLUG_SIZE];
    char principal[SLUG_SIZE];
    char key[COMPUTER_KEY_SIZE];
    char backend[32];
    char network[32];
    bool temporary;
    bool ready; /* false: its server is still making it, or removes it, or died doing so */
    bool dying; /* not ready, since it is being removed */
    char created_at[CLOCK_RFC3339_SIZE];
    char last_used[CLOCK_RFC3339_SIZE]; /* when it was last taken up or put down; not every command */
    char boot[OWNER_BOOT_SIZE];         /* of the moments; "": an old record, without them */
    struct moment made, used;           /* as created_at and last_used */
    struct owner owner;
    struct computer_options options; /* owned, as are the terms */
    struct computer_terms terms;
    char image[256]; /* that its files come from, as the backend says; "": none */
    int idle_pids;   /* processes of a new one, in which no command ran; 0: unknown */
    json_t *data;    /* the backend's part; NULL: none yet. Owned */
};
void record_done(struct record *r);
/* It was used just now. */
void record_touch(struct record *r);
/* How long ago, in nanoseconds; never negative. */
int64_t record_age(const struct record *r, const struct moment *m);

/* A computer's folder, locked by us. */
struct folder {
    char *path; /* NULL: none */
    int lock;
};
#define FOLDER_NONE                                                                                          \
    {                                                                                                        \
        .lock = -1                                                                                           \
    }
/* Gives the lock back; the folder stays. */
void folder_close(struct folder *f);

/* `dir` is STATE/computers. A folder for a computer to come, of which nobody knows yet: locked, no record. It
 * lies at the principal's, and may become another's. */
int store_prepare(const char *dir, const char *principal, struct folder *ret, struct error *err);
/* Gives a folder of store_prepare(), with this record in it, the record's name. ERR_EXISTS if the id has a
 * folder. On failure it is as it was. */
int store_name(const char *dir, const struct record *record, struct folder *f, struct error *err);
/* Makes sure that the name of a permanent computer's folder is on the disk, if it is ready. Records are by
 * then. */
int store_sync(const char *dir, const struct record *record, struct error *err);
/* Makes the folder with its record, locked; ERR_EXISTS if the id has one. ahead: of store_prepare(), or an
 * empty one; it is used up. */
int store_create(const char *dir, const struct record *record, struct folder *ahead, struct folder *ret,
                 struct error *err);
/* ERR_NOT_FOUND, or ERR_BUSY while somebody holds its lock. name: an id, or a folder that is being born or
 * dying. */
int store_open(const char *dir, const char *principal, const char *name, struct folder *ret,
               struct error *err);
/* A record without an id is of a computer made ahead: it has that of its folder. ERR_INVALID: what is there
 * can't be read as a record. ERR_UNSUPPORTED: a newer version wrote it. */
int store_read(const struct folder *f, struct record *ret, struct error *err);
/* ERR_LIMIT: the disk is full. */
int store_write(const struct folder *f, const struct record *record, struct error *err);
/* The record says from now on that its computer is being removed, even if there is no room to write it. */
int store_mark_dying(const struct folder *f, struct record *record, struct error *err);
/* Frees the id at once, then removes everything and closes the folder; -1: what is left is the reaper's. */
int store_remove(struct folder *f, struct error *err);
/* The two change names, at once: whatever happens, each name has one of them. Both stay open. */
int store_exchange(struct folder *a, struct folder *b, struct error *err);
/* For a folder whose record can't be read: renames it to ID.bad-TIME, keeps all of it, frees the id, closes
 * it. */
int store_set_aside(struct folder *f, char **ret_path, struct error *err);

/* Calls fn for everything with a name in every principal's folder; also what is being born or dying. */
typedef void store_scan_fn(void *ctx, const char *principal, const char *name);
void store_scan(const char *dir, store_scan_fn *fn, void *ctx);
void store_scan_principal(const char *dir, const char *principal, store_scan_fn *fn, void *ctx);
bool store_exists(const struct folder *f);
/* Of the record's file: it is another one each time that it is written. -1 with errno. */
int store_stat(const struct folder *f, struct stat *ret);
/* True for .new-HEX and .old-HEX. */
bool store_is_debris(const char *name);
