/* See cli.h. A release is a tar archive with the program in it, and a checksums.txt beside it. Source:
 * flyctl's install.sh and .goreleaser.yml, August 2026.
 *
 * Installing is download, check, unpack, rename, under a lock in the folder: whoever waits for that finds the
 * program installed. What a server that was killed leaves behind is used again by the next. */
#include "backends/fly/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "backends/fly/download.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/program.h"
#include "base/sha256.h"
#include "base/spawn.h"
#include "base/str.h"

#define PROGRAM "flyctl"
#define LINK "fly"
#define TOKEN_BYTES_MAX (32 * KIB) /* of what it prints */
#define TOKEN_TIMEOUT_NS (30 * NSEC_PER_SEC)
#define URL_BYTES_MAX (4 * KIB)
#define SUMS_BYTES_MAX (256 * KIB)
#define ARCHIVE_BYTES_MAX (256 * MIB)
#define LOCK_TIMEOUT_NS (600 * NSEC_PER_SEC)

/* --- finding it --- */

static char *if_program(char *path)
{
    struct stat st;
    if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
        return path;
    free(path);
    return NULL;
}

/* The folder of programs; NULL: there is no HOME either. */
static char *bin_folder(const char *install_dir)
{
    const char *home = getenv("HOME");
    if (install_dir)
        return path_join(install_dir, "bin");
    return home && *home ? xasprintf("%s/.fly/bin", home) : NULL;
}

bool cli_name_is_usual(const char *name)
{
    return strcmp(name, LINK) == 0 || strcmp(name, PROGRAM) == 0;
}

char *cli_find(const char *name, const char *install_dir)
{
    if (strchr(name, '/'))
        return if_program(xstrdup(name));
    char *found = spawn_find(name);
    if (!cli_name_is_usual(name))
        return found;
    static const char *const names[] = {LINK, PROGRAM};
    _cleanup_(cleanup_free) char *bin = bin_folder(install_dir);
    for (size_t i = 0; !found && i < ARRAY_LEN(names); i++)
        found = spawn_find(names[i]);
    for (size_t i = 0; !found && bin && i < ARRAY_LEN(names); i++)
        found = if_program(path_join(bin, names[i]));
    return found;
}

/* --- asking it --- */

int cli_token(const char *path, const struct wait *wait, struct fly_token *ret)
{
    const char *const argv[] = {path, "auth", "token", NULL};
    const struct wait brief = wait_at_most(wait, clock_now() + TOKEN_TIMEOUT_NS);
    int code = -1;
    struct error ignored = ERROR_INIT;
    _cleanup_(buf_wipe) struct buf answer = BUF_INIT(TOKEN_BYTES_MAX);
    if (program_ask(argv, NULL, &brief, &answer, &code, &ignored) < 0 || code != 0)
        return 0;
    _cleanup_(cleanup_secret_free) char *text = str_trim(buf_str(&answer));
    return fly_token_parse(path, text, ret, &ignored) == 0;
}

/* --- installing it --- */

/* "SUM  NAME", or with an asterisk before the name. */
static bool is_sum_of(const char *line, size_t n, const char *name)
{
    const size_t digits = SHA256_HEX_SIZE - 1;
    if (n <= digits || strspn(line, "0123456789abcdefABCDEF") != digits)
        return false;
    const size_t gap = strspn(line + digits, " *"), len = strlen(name);
    return gap > 0 && n == digits + gap + len && strncmp(line + digits + gap, name, len) == 0;
}

char *cli_sum_of(const char *checksums, const char *name)
{
    for (const char *line = checksums; *line;) {
        const size_t n = strcspn(line, "\r\n");
        if (is_sum_of(line, n, name))
            return xstrndup(line, SHA256_HEX_SIZE - 1);
        line += n + strspn(line + n, "\r\n");
    }
    return NULL;
}

/* As the provider names this machine: "Linux/x86_64". Malloced. */
static char *platform(void)
{
    struct utsname u;
    return uname(&u) == 0 ? xasprintf("%s/%s", u.sysname, u.machine) : xstrdup("Linux/unknown");
}

/* Where the newest archive is. */
static int find_release(const struct cli_release *r, const struct wait *wait, char **ret, struct error *err)
{
    _cleanup_(cleanup_free) char *where = platform();
    _cleanup_(cleanup_free) char *url = xasprintf("%s/app/flyctl_releases/%s/latest", r->api_base, where);
    _cleanup_(cleanup_free) char *answer = NULL;
    if (download_text(&(struct download){.url = url, .ca_file = r->ca_file, .max = URL_BYTES_MAX}, wait,
                      &answer, err) < 0)
        return -1;
    if (!str_has_suffix(answer, ".tar.gz") || !strchr(answer, '/') || strpbrk(answer, " \t\r\n?#"))
        return error_set(err, ERR_UNAVAILABLE, "%s tells of no release for %s", r->api_base, where);
    *ret = TAKE_PTR(answer);
    return 0;
}

static int find_sum(const struct cli_release *r, const char *archive, const struct wait *wait, char **ret,
                    struct error *err)
{
    const char *name = path_basename(archive);
    _cleanup_(cleanup_free) char *url = xasprintf("%.*schecksums.txt", (int)(name - archive), archive);
    _cleanup_(cleanup_free) char *text = NULL;
    if (download_text(&(struct download){.url = url, .ca_file = r->ca_file, .max = SUMS_BYTES_MAX}, wait,
                      &text, err) < 0)
        return -1;
    *ret = cli_sum_of(text, name);
    return *ret ? 0 : error_set(err, ERR_UNAVAILABLE, "%.200s has no checksum of %.100s", url, name);
}

static int check_sum(int fd, const char *wanted, struct error *err)
{
    struct stat st;
    char sum[SHA256_HEX_SIZE];
    if (fstat(fd, &st) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "look at the archive");
    void *bytes = st.st_size > 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (bytes == MAP_FAILED)
        return error_set(err, ERR_UNAVAILABLE, "the archive is empty, or can't be read again");
    sha256_hex(bytes, (size_t)st.st_size, sum);
    munmap(bytes, (size_t)st.st_size);
    if (!str_equal_nocase(sum, wanted))
        return error_set(err, ERR_UNAVAILABLE,
                         "what came is not what its checksum says: it was cut, or changed on its way");
    return 0;
}

/* A new file in the folder; what an earlier server left is written over. */
static int create(const char *path, mode_t mode, struct error *err)
{
    unlink(path);
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    return fd >= 0 ? fd : error_errno(err, error_code_of_errno(errno), errno, "create %s", path);
}

/* tar writes into no folder: what it finds in the archive under that name is its output. */
static int unpack(int archive, int program, const struct wait *wait, struct error *err)
{
    int code = -1;
    struct stat st;
    _cleanup_(cleanup_free) char *tar = spawn_find("tar");
    const char *const argv[] = {tar, "-xzOf", "-", PROGRAM, NULL};
    if (!tar)
        return error_set(err, ERR_UNAVAILABLE, "there is no tar, which unpacks it");
    if (lseek(archive, 0, SEEK_SET) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "read the archive again");
    if (program_filter(argv, archive, program, wait, &code, err) < 0)
        return -1;
    if (code != 0 || fstat(program, &st) < 0 || st.st_size == 0)
        return error_set(err, ERR_UNAVAILABLE, "tar can't unpack it (exit code %d)", code);
    return fsync(program) == 0 ? 0 : error_errno(err, ERR_UNAVAILABLE, errno, "write the program");
}

static int fetch_archive(const struct cli_release *r, const char *path, const struct wait *wait,
                         struct error *err)
{
    _cleanup_(cleanup_free) char *url = NULL, *sum = NULL;
    if (find_release(r, wait, &url, err) < 0 || find_sum(r, url, wait, &sum, err) < 0)
        return -1;
    _cleanup_fd_ int fd = create(path, 0600, err);
    if (fd < 0)
        return -1;
    unlink(path); /* nobody else needs it */
    const struct download d = {.url = url, .ca_file = r->ca_file, .max = ARCHIVE_BYTES_MAX};
    if (download_to_file(&d, fd, wait, err) < 0 || check_sum(fd, sum, err) < 0)
        return -1;
    return TAKE_FD(fd);
}

/* Under the lock. */
static int install(const struct cli_release *r, const char *bin, const char *path, const struct wait *wait,
                   struct error *err)
{
    _cleanup_(cleanup_free) char *packed = path_join(bin, "." PROGRAM ".tar.gz");
    _cleanup_(cleanup_free) char *fresh = path_join(bin, "." PROGRAM ".new");
    _cleanup_(cleanup_free) char *link = path_join(bin, LINK);
    _cleanup_fd_ int archive = fetch_archive(r, packed, wait, err);
    if (archive < 0)
        return -1;
    int program = create(fresh, 0755, err);
    if (program < 0)
        return -1;
    int failed = unpack(archive, program, wait, err);
    fd_close(program); /* a program that somebody writes to can't be started */
    if (!failed && rename(fresh, path) < 0)
        failed = error_errno(err, error_code_of_errno(errno), errno, "rename %s", fresh);
    if (failed)
        unlink(fresh);
    else if (symlink(PROGRAM, link) < 0 && errno != EEXIST)
        failed = error_errno(err, error_code_of_errno(errno), errno, "make the link %s", link);
    return failed;
}

int cli_install(const struct cli_release *r, const struct wait *wait, struct error *err)
{
    _cleanup_(cleanup_free) char *bin = bin_folder(r->install_dir);
    if (!bin)
        return error_set(err, ERR_UNAVAILABLE, "HOME is not set, and so there is no place for it");
    if (dir_make(bin, 0755, err) < 0)
        return -1;
    _cleanup_(cleanup_free) char *path = path_join(bin, PROGRAM);
    _cleanup_(cleanup_free) char *lock_path = path_join(bin, "." PROGRAM ".lock");
    _cleanup_fd_ int lock = open(lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "create %s", lock_path);
    if (fd_lock(lock, LOCK_TIMEOUT_NS, wait, err) < 0)
        return error_prefix(err, "another server installs it");
    _cleanup_(cleanup_free) char *installed = if_program(xstrdup(path));
    return installed ? 0 : install(r, bin, path, wait, err);
}
