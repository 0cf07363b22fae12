/* A folder for one test, and files in it. */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

static char temporary[64];

static _unused_ int temporary_make(void **state)
{
    strcpy(temporary, "/var/tmp/test-backends-XXXXXX");
    return mkdtemp(temporary) ? 0 : -1;
}

static _unused_ int temporary_remove(void **state)
{
    return tree_remove(AT_FDCWD, temporary, NULL);
}

/* A malloced path beneath the folder. */
static _unused_ char *temporary_path(const char *name)
{
    return path_join(temporary, name);
}

static _unused_ void temporary_folder(const char *name)
{
    _cleanup_(cleanup_free) char *path = temporary_path(name);
    assert_int_equal(dir_make(path, 0755, NULL), 0);
}

static _unused_ void temporary_file(const char *name, const char *text)
{
    _cleanup_(cleanup_free) char *path = temporary_path(name);
    _cleanup_(cleanup_free) char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    assert_int_equal(dir_make(parent, 0755, NULL), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    fd_close(fd);
}
