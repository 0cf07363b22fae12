/* The cap on what a computer writes to its disk, by the best that the machine has:
 *
 * image     The writable layer is an ext4 file system of that size in a sparse file, FOLDER/native/disk. The
 *           kernel enforces bytes and files. Needs root, loop devices and mkfs.ext4. A computer that was made
 *           so stays so, with the size that it has.
 * watched   The layer is a folder of the state directory. No file may grow beyond the cap, and the server
 *           looks now and then while commands run, and ends them when there is more than the cap. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backends/native/usage.h"
#include "base/cancel.h"
#include "base/error.h"

enum disk_way { DISK_NONE, DISK_WATCHED, DISK_IMAGE };

/* What all computers of a backend share. Doesn't change once it is prepared. */
struct disks {
    enum disk_way way;
    struct usage limit;
    int template;  /* an image to be copied, without a name; -1: none */
    char why[256]; /* it is watched only, or not even that; "" otherwise */
};
#define DISKS_NONE                                                                                           \
    {                                                                                                        \
        .template = -1                                                                                       \
    }
/* By a look at what is there. bytes 0: no cap. */
void disks_foresee(struct disks *d, int64_t bytes);
bool disks_may_be_images(void);
/* Then by trying. no_image: why an image can't be had all the same, or NULL. */
void disks_prepare(struct disks *d, const char *state_dir, const char *no_image);
/* What would be watched can't be. */
void disks_give_up(struct disks *d, const char *why);
void disks_done(struct disks *d);

/* One computer's. */
struct disk {
    enum disk_way way;
    struct usage limit;
    int fd; /* image: the root of its file system, mounted. It is unmounted after this is closed */
};
/* As a new computer is to have it; nothing is made. */
struct disk disk_planned(const struct disks *d);
void disk_close(struct disk *d);
/* Image only: for one that is to be deleted. What isn't in its file yet is never written. */
void disk_throw_away(const struct disk *d);

/* Makes an image in the folder; one that is there already is kept. */
int disk_make_image(const struct disks *d, int dirfd, struct error *err);
/* Is there one? -1: it can't be told. */
int disk_has_image(int dirfd, struct error *err);
/* Mounts the folder's image. ERR_BUSY, ERR_UNAVAILABLE or the wait's codes. */
int disk_open_image(int dirfd, const struct wait *wait, struct disk *ret, struct error *err);
/* Takes up the mounted root of an image that a running computer has, if that is on the device; else closes
 * it. */
int disk_resume(int root, uint64_t device, struct disk *ret, struct error *err);
/* The device of its file system; 0: it isn't an image. */
uint64_t disk_device(const struct disk *d);
/* Image only: not a block or not a file more can be had. */
bool disk_is_full(const struct disk *d);
