/* File descriptors and files: scoped closing, whole reads and writes, atomic replacement, safe removal of
 * trees. */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/macros.h"

struct wait;

int fd_close(int fd); /* accepts -1, keeps errno, returns -1: `fd = fd_close(fd)` */
static inline void cleanup_fd_close(int *fd)
{
    fd_close(*fd);
}
#define _cleanup_fd_ _cleanup_(cleanup_fd_close)

void cleanup_closedir(DIR **dir); /* keeps errno */

int fd_set_nonblocking(int fd, bool on);
/* Marks everything from `first` up as close-on-exec: what the parent leaked goes no further. */
void fd_cloexec_from(int first);
/* Writes all of it, across EINTR and short writes; -1 with errno. */
int fd_write_all(int fd, const void *bytes, size_t n);

/* Locks the open file (flock(2), exclusively), which others have for moments only: within `wait`, and for
 * timeout_ns at most, then ERR_BUSY. */
int fd_lock(int fd, int64_t timeout_ns, const struct wait *wait, struct error *err);

/* Reads a whole file, at most b->max bytes (ERR_LIMIT beyond). ERR_NOT_FOUND if absent. dirfd may be
 * AT_FDCWD. */
int file_read(int dirfd, const char *path, struct buf *b, struct error *err);
/* Writes to an existing file (cgroup and proc files), one write(2). */
int file_write(int dirfd, const char *path, const char *text, struct error *err);
/* Replaces a file: PATH.tmp + rename(2), mode 0600. durable: fsync of the file and its folder first. */
int file_replace(int dirfd, const char *path, const void *bytes, size_t n, bool durable, struct error *err);
/* Makes a folder and its parents (mode for the last; 0755 for parents); existing ones are fine. */
int dir_make(const char *path, mode_t mode, struct error *err);
/* Removes name beneath dirfd with all its content. Follows no link, crosses no mount; hostile content is
 * expected: any depth is handled with bounded memory and descriptors. Absent is success. */
int tree_remove(int dirfd, const char *name, struct error *err);
