/* See module.h. */
#include "backends/wasm/module.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/wasm/wasm_limits.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"

#define HEAD_BYTES 8

static const struct {
    const char *head;
    size_t length;
    const char *what;
} strangers[] = {
    {"\177ELF", 4, "is compiled code (ELF): give the module that it was compiled from"},
    {"\0asm\r\0\1\0", HEAD_BYTES, "is a WebAssembly component: give a module (WASI preview 1)"},
    {"(module", 7, "is a module as text: make a binary of it with wat2wasm"},
};

static int check_head(const char *path, const char *head, size_t n, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(strangers); i++)
        if (n >= strangers[i].length && memcmp(head, strangers[i].head, strangers[i].length) == 0)
            return error_set(err, ERR_INVALID, "%s %s", path, strangers[i].what);
    if (n < HEAD_BYTES || memcmp(head, "\0asm\1\0\0", HEAD_BYTES) != 0)
        return error_set(err, ERR_INVALID, "%s is not a WebAssembly module", path);
    return 0;
}

/* A pipe would keep us waiting. */
static int open_module(const char *path, struct error *err)
{
    struct stat st;
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open the module %s", path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERR_INVALID, "%s is not a file", path);
    if (st.st_size > (off_t)LIMIT_WASM_MODULE_BYTES)
        return error_set(err, ERR_INVALID, "the module %s has more than %lu MiB", path,
                         LIMIT_WASM_MODULE_BYTES / MIB);
    return TAKE_FD(fd);
}

int module_check(const char *path, struct error *err)
{
    char head[HEAD_BYTES] = {0};
    _cleanup_fd_ int fd = open_module(path, err);
    ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head));
    if (fd >= 0 && n < 0)
        error_errno(err, ERR_UNAVAILABLE, errno, "read the module %s", path);
    return n < 0 ? -1 : check_head(path, head, (size_t)n, err);
}

int module_read(const char *path, struct module *ret, struct error *err)
{
    _cleanup_(module_done) struct module m = {.bytes = BUF_INIT(LIMIT_WASM_MODULE_BYTES)};
    if (module_check(path, err) < 0)
        return -1;
    if (file_read(AT_FDCWD, path, &m.bytes, err) < 0)
        return error_recast(err, ERR_UNAVAILABLE, "the module can't be read");
    if (check_head(path, buf_str(&m.bytes), m.bytes.len, err) < 0)
        return -1;
    sha256_hex(m.bytes.data, m.bytes.len, m.hash);
    *ret = m;
    m.bytes = (struct buf)BUF_INIT(0);
    return 0;
}

void module_done(struct module *m)
{
    buf_done(&m->bytes);
}

char *module_stem(const char *path)
{
    const char *name = path_basename(path);
    size_t n = strlen(name);
    return xstrndup(name, str_has_suffix(name, ".wasm") && n > 5 ? n - 5 : n);
}
