/* Tries to get out of its folder, by WASI calls that no libc has tamed. What did what it must not do is told
 * as "ESCAPED what"; the last line is the number of attempts.
 *
 *     escape paths SECRET...     by every way to name a SECRET, and every call that takes a path
 *     escape look SECRET...      the same by calls that change nothing
 *     escape descriptors SECRET  what can be done with descriptors that it has, and that it hasn't
 *     escape flip N              N times makes `s` a folder and a link to what is above, in turns
 *     escape race N              meanwhile opens s/outside-secret N times: inside, refused, outside
 *     escape climb N             meanwhile opens a file by a long name that goes down and up, N times
 *     escape misuse K            the K-th call with arguments that make no sense; without K: how many
 *
 * A SECRET is an absolute path of the host, and what it holds begins with OUTSIDE. With `paths` what gets out
 * destroys it, so it has to be the test's own; what the machine needs is only looked at. Where the host has
 * put links: hostsLinks() in escape.test.mjs. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wasi/api.h>

#define FOLLOW __WASI_LOOKUPFLAGS_SYMLINK_FOLLOW
#define READ (__WASI_RIGHTS_FD_READ | __WASI_RIGHTS_FD_READDIR)
#define WRITE __WASI_RIGHTS_FD_WRITE
#define ALL_RIGHTS ((UINT64_C(1) << 30) - 1) /* that preview 1 knows of */
#define MAX_PREOPENS 16
#define MAX_PATH 8192

static int attempts, escapes;
static int root = 3; /* the preopened folder that is tried just now */

static void said(int escaped, const char *format, ...)
{
    attempts++;
    if (!escaped)
        return;
    va_list words;
    va_start(words, format);
    printf("ESCAPED ");
    vprintf(format, words);
    puts("");
    va_end(words);
    escapes++;
}

static int holds_secret(int file)
{
    char bytes[64] = {0};
    size_t got = 0;
    __wasi_iovec_t into = {(uint8_t *)bytes, sizeof bytes - 1};
    return !__wasi_fd_read(file, &into, 1, &got) && (strstr(bytes, "OUTSIDE") || strstr(bytes, "root:"));
}

/* Whether a folder shows what only the outside has. */
static int lists_secret(int folder)
{
    static uint8_t names[65536];
    size_t got = 0;
    return !__wasi_fd_readdir(folder, names, sizeof names, 0, &got) &&
           memmem(names, got, "outside-", strlen("outside-"));
}

static int open_at(int folder, const char *path, int flags, int how, uint64_t rights, int *ret)
{
    return __wasi_path_open(folder, (__wasi_lookupflags_t)flags, path, (__wasi_oflags_t)how, rights,
                            ALL_RIGHTS, 0, ret);
}

/* --- calls that take a path; each true if it did something to what the path names --- */

static int reads(const char *path)
{
    int file;
    if (open_at(root, path, FOLLOW, 0, READ, &file))
        return 0;
    int found = holds_secret(file) || lists_secret(file);
    (void)!__wasi_fd_close(file);
    return found;
}

static int reads_with_all_rights(const char *path)
{
    int file;
    if (open_at(root, path, FOLLOW, 0, ALL_RIGHTS, &file))
        return 0;
    int found = holds_secret(file) || lists_secret(file);
    (void)!__wasi_fd_close(file);
    return found;
}

static int lists(const char *path)
{
    int folder;
    if (open_at(root, path, FOLLOW, __WASI_OFLAGS_DIRECTORY, READ, &folder))
        return 0;
    int found = lists_secret(folder);
    (void)!__wasi_fd_close(folder);
    return found;
}

static int writes(const char *path)
{
    int file;
    if (open_at(root, path, FOLLOW, 0, WRITE, &file))
        return 0;
    (void)!__wasi_fd_close(file);
    return 1;
}

static int truncates(const char *path)
{
    int file;
    if (open_at(root, path, FOLLOW, __WASI_OFLAGS_TRUNC, WRITE, &file))
        return 0;
    (void)!__wasi_fd_close(file);
    return 1;
}

static int creates(const char *path)
{
    int file;
    if (open_at(root, path, FOLLOW, __WASI_OFLAGS_CREAT | __WASI_OFLAGS_EXCL, WRITE, &file))
        return 0;
    (void)!__wasi_fd_close(file);
    return 1;
}

static int examines(const char *path)
{
    __wasi_filestat_t found;
    return !__wasi_path_filestat_get(root, FOLLOW, path, &found);
}

static int dates(const char *path)
{
    return !__wasi_path_filestat_set_times(root, FOLLOW, path, 0, 0, __WASI_FSTFLAGS_MTIM_NOW);
}

static int links_in(const char *path)
{
    int linked = !__wasi_path_link(root, FOLLOW, path, root, "linked-in");
    int found = linked && reads("linked-in");
    (void)!__wasi_path_unlink_file(root, "linked-in");
    return found;
}

static int links_out(const char *path)
{
    return !__wasi_path_link(root, 0, "in.txt", root, path);
}

static int moves_in(const char *path)
{
    return !__wasi_path_rename(root, path, root, "moved-in");
}

static int moves_out(const char *path)
{
    return !__wasi_path_rename(root, "spare.txt", root, path);
}

static int removes_file(const char *path)
{
    return !__wasi_path_unlink_file(root, path);
}

static int removes_folder(const char *path)
{
    return !__wasi_path_remove_directory(root, path);
}

static int makes_folder(const char *path)
{
    return !__wasi_path_create_directory(root, path);
}

static int makes_link(const char *path)
{
    return !__wasi_path_symlink("in.txt", root, path);
}

static int reads_link(const char *path)
{
    uint8_t target[256];
    size_t got;
    return !__wasi_path_readlink(root, path, target, sizeof target, &got);
}

/* Those that don't follow a link at the end of a path may do what they do to the link itself, which is
 * inside. */
enum { FOLLOWS = 1, ONLY_LOOKS = 2 };
static const struct call {
    const char *name;
    int (*reaches)(const char *path);
    int traits;
} calls[] = {
    {"read", reads, FOLLOWS | ONLY_LOOKS},
    {"read with all rights", reads_with_all_rights, FOLLOWS | ONLY_LOOKS},
    {"list", lists, FOLLOWS | ONLY_LOOKS},
    {"stat", examines, FOLLOWS | ONLY_LOOKS},
    {"readlink", reads_link, ONLY_LOOKS},
    {"write", writes, FOLLOWS},
    {"truncate", truncates, FOLLOWS},
    {"create", creates, 0},
    {"set times", dates, FOLLOWS},
    {"link in", links_in, FOLLOWS},
    {"link out", links_out, 0},
    {"rename in", moves_in, 0},
    {"rename out", moves_out, 0},
    {"unlink", removes_file, 0},
    {"rmdir", removes_folder, 0},
    {"mkdir", makes_folder, 0},
    {"symlink", makes_link, 0},
};
#define CALLS (sizeof calls / sizeof *calls)

/* --- ways to name what is outside; %s is the secret's absolute path without its first slash, %U enough "../"
 * --- */

static const struct way {
    const char *form;
    int is_link; /* itself, and inside */
} ways[] = {
    {"/%s", 0},
    {"//%s", 0},
    {"%U%s", 0},
    {"/%U%s", 0},
    {"./%U%s", 0},
    {".//%U./%s", 0},
    {"sub/../%U%s", 0},
    {"sub/%U%s", 0},
    {"sub/deeper/%U%s", 0},
    {"sub/deeper/../%U%s", 0},
    {"sub/./.././%U%s", 0},
    {"/sub/%U%s", 0},
    {"absent/../%U%s", 0},
    {"in.txt/../%U%s", 0},
    {"sub//%U/%s", 0},
    {"%U%s/", 0},
    {"%U%s/.", 0},
    /* links that the host has put there */
    {"host-absolute", 1},
    {"host-relative", 1},
    {"host-folder/outside-secret", 0},
    {"host-folder/../outside-secret", 0},
    {"host-root/%s", 0},
    {"host-root/proc/1/root/%s", 0},
    {"host-proc/root/%s", 0},
    {"host-proc/cwd/%U%s", 0},
    {"host-proc/fd/3/%U%s", 0},
    {"host-dangling", 1},
    {"host-loop/%s", 0},
    {"sub/host-up/%U%s", 0},
    {"sub/host-up/host-root/%s", 0},
    /* links that it makes itself, by make_links() */
    {"own-up/%U%s", 0},
    {"own-up/%s", 0},
    {"own-secret", 1},
    {"own-chain/%U%s", 0},
    {"own-through", 1},
    {"sub/own-deep", 1},
    {"own-dangling", 1},
    {"own-sub/../%U%s", 0},
    {"own-sub/own-deep", 1},
    {"own-absolute", 1},
    {"own-absolute/%s", 0},
    {"own-slash/%s", 0},
    {"own-proc/root/%s", 0},
    {"own-dot/%U%s", 0},
    {"own-up-file/%s", 0},
};
#define WAYS (sizeof ways / sizeof *ways)
#define UP "../../../../../../../../../../../../../../../../"

static void name(char *ret, const char *form, const char *secret)
{
    size_t n = 0;
    for (; *form && n < MAX_PATH - 512; form++) {
        if (form[0] == '%' && form[1] == 'U')
            n += (size_t)sprintf(ret + n, "%s", UP), form++;
        else if (form[0] == '%' && form[1] == 's')
            n += (size_t)snprintf(ret + n, 400, "%s", secret + 1), form++;
        else
            ret[n++] = *form;
    }
    ret[n] = 0;
}

static void make_file(const char *path)
{
    int file;
    if (!open_at(root, path, 0, __WASI_OFLAGS_CREAT, WRITE, &file))
        (void)!__wasi_fd_close(file);
}

/* Making them is no escape; a runtime may refuse some. */
static void make_links(const char *secret)
{
    static const char *const made[][2] = {
        {UP, "own-up"},
        {UP "%s", "own-secret"},
        {"own-up", "own-chain"},
        {"own-secret", "own-through"},
        {UP "%s", "sub/own-deep"},
        {UP "%s-new", "own-dangling"},
        {"sub", "own-sub"},
        {"/%s", "own-absolute"},
        {"/", "own-slash"},
        {"/proc/self", "own-proc"},
        {".", "own-dot"},
        {"../in.txt", "own-up-file"},
    };
    (void)!__wasi_path_create_directory(root, "sub");
    (void)!__wasi_path_create_directory(root, "sub/deeper");
    make_file("in.txt");
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        static char target[MAX_PATH];
        name(target, made[i][0], secret);
        (void)!__wasi_path_unlink_file(root, made[i][1]);
        (void)!__wasi_path_symlink(target, root, made[i][1]);
    }
}

static void try_paths(const char *secret, int only_look)
{
    make_links(secret);
    for (size_t w = 0; w < WAYS; w++) {
        for (size_t c = 0; c < CALLS; c++) {
            static char path[MAX_PATH];
            if ((ways[w].is_link && !(calls[c].traits & FOLLOWS)) ||
                (only_look && !(calls[c].traits & ONLY_LOOKS)))
                continue;
            make_file("spare.txt");
            name(path, ways[w].form, secret);
            said(calls[c].reaches(path), "%s %s from %d", calls[c].name, path, root);
        }
    }
}

static int preopens(int *ret)
{
    int n = 0;
    __wasi_prestat_t found;
    for (int fd = 3; fd < 256 && n < MAX_PREOPENS; fd++) {
        if (!__wasi_fd_prestat_get(fd, &found))
            ret[n++] = fd;
    }
    return n;
}

/* --- descriptors --- */

/* What was opened below and has then moved up must not see more than before. */
static void try_moved(const char *secret)
{
    static char path[MAX_PATH];
    int deep;
    (void)!__wasi_path_create_directory(root, "d");
    (void)!__wasi_path_create_directory(root, "d/e");
    (void)!__wasi_path_create_directory(root, "d/e/f");
    if (open_at(root, "d/e/f", 0, __WASI_OFLAGS_DIRECTORY, READ, &deep)) {
        said(1, "(nothing: d/e/f can't be opened)");
        return;
    }
    static const char *const forms[] = {"..", "../..", "../../..", "../../../..", "%U%s", "../%U%s", "/%s"};
    for (int moved = 0; moved < 3; moved++) {
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            int kept = root;
            name(path, forms[i], secret);
            root = deep;
            for (size_t c = 0; c < CALLS; c++)
                said(calls[c].reaches(path), "%s %s from a folder that moved %d times", calls[c].name, path,
                     moved);
            root = kept;
        }
        (void)!__wasi_path_rename(root, moved ? "f" : "d/e/f", root, moved ? "d/g" : "f");
    }
    (void)!__wasi_path_remove_directory(root, "d/g");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        name(path, forms[i], secret);
        int file;
        int opened = !open_at(deep, path, FOLLOW, 0, READ, &file);
        said(opened && (holds_secret(file) || lists_secret(file)), "read %s from a folder that is gone",
             path);
    }
    (void)!__wasi_fd_close(deep);
}

static void try_strangers(void)
{
    int known[MAX_PREOPENS], count = preopens(known);
    for (int fd = known[count - 1] + 1; fd < 1024; fd++) {
        uint8_t bytes[8];
        size_t got;
        int file;
        __wasi_iovec_t into = {bytes, sizeof bytes};
        __wasi_filestat_t found;
        said(!__wasi_fd_read(fd, &into, 1, &got), "read from descriptor %d", fd);
        said(!__wasi_fd_filestat_get(fd, &found), "fstat of descriptor %d", fd);
        said(!open_at(fd, "x", 0, __WASI_OFLAGS_CREAT, WRITE, &file), "create in descriptor %d", fd);
    }
}

/* Standard streams are no folders, a preopened folder has no parent, rights can't be had back. */
static void try_rights(const char *secret)
{
    static char up[MAX_PATH];
    int file;
    name(up, "%U%s", secret);
    for (int fd = 0; fd < 3; fd++) {
        said(!open_at(fd, "in.txt", 0, 0, READ, &file), "open in stream %d", fd);
        said(!open_at(fd, up, FOLLOW, 0, READ, &file), "open above stream %d", fd);
        said(!__wasi_path_create_directory(fd, up), "mkdir above stream %d", fd);
    }
    (void)!__wasi_fd_fdstat_set_rights(root, ALL_RIGHTS, ALL_RIGHTS);
    said(reads_with_all_rights(up), "read after asking for all rights");
    if (!open_at(root, ".", 0, __WASI_OFLAGS_DIRECTORY, READ, &file)) {
        int kept = root, stray = file;
        for (root = stray; root == stray; root = kept)
            said(reads(up), "read from a second descriptor");
        (void)!__wasi_fd_renumber(stray, kept);
        said(reads(up), "read after renumbering a preopened folder");
    }
}

/* --- races --- */

static int flip(long times)
{
    (void)!__wasi_path_create_directory(root, "s");
    (void)!__wasi_path_symlink("..", root, "q");
    make_file("s/outside-secret");
    for (long i = 0; i < times; i++) {
        (void)!__wasi_path_rename(root, "s", root, "t");
        (void)!__wasi_path_rename(root, "q", root, "s");
        (void)!__wasi_path_rename(root, "s", root, "q");
        (void)!__wasi_path_rename(root, "t", root, "s");
    }
    return 0;
}

static int race(long times)
{
    long inside = 0, refused = 0, outside = 0;
    for (long i = 0; i < times; i++) {
        int file;
        if (open_at(root, "s/outside-secret", FOLLOW, 0, READ, &file)) {
            refused++;
            continue;
        }
        *(holds_secret(file) ? &outside : &inside) += 1;
        (void)!__wasi_fd_close(file);
    }
    printf("inside %ld, refused %ld, outside %ld\n", inside, refused, outside);
    return outside != 0;
}

/* A name with `..` in it is looked up anew, in another way, when the kernel sees that something else has
 * moved. */
static int climb(long times)
{
    static char path[4000];
    long opened = 0;
    while (strlen(path) + 32 < sizeof path)
        strcat(path, "sub/deeper/../../");
    strcat(path, "in.txt");
    make_file("in.txt");
    (void)!__wasi_path_create_directory(root, "sub");
    (void)!__wasi_path_create_directory(root, "sub/deeper");
    for (long i = 0; i < times; i++) {
        int file;
        if (open_at(root, path, FOLLOW, 0, READ, &file))
            continue;
        opened++;
        (void)!__wasi_fd_close(file);
    }
    printf("opened %ld\n", opened);
    return opened != times;
}

/* --- calls that make no sense: an error or a trap, and nothing else --- */

__attribute__((import_module("wasi_snapshot_preview1"), import_name("path_open")))
int32_t raw_path_open(int32_t, int32_t, int32_t, int32_t, int32_t, int64_t, int64_t, int32_t, int32_t);
__attribute__((import_module("wasi_snapshot_preview1"), import_name("fd_write")))
int32_t raw_fd_write(int32_t, int32_t, int32_t, int32_t);
__attribute__((import_module("wasi_snapshot_preview1"), import_name("fd_read")))
int32_t raw_fd_read(int32_t, int32_t, int32_t, int32_t);
__attribute__((import_module("wasi_snapshot_preview1"), import_name("random_get")))
int32_t raw_random(int32_t, int32_t);
__attribute__((import_module("wasi_snapshot_preview1"), import_name("poll_oneoff")))
int32_t raw_poll(int32_t, int32_t, int32_t, int32_t);
__attribute__((import_module("wasi_snapshot_preview1"), import_name("args_get")))
int32_t raw_args(int32_t, int32_t);
__attribute__((import_module("wasi_snapshot_preview1"), import_name("fd_readdir")))
int32_t raw_readdir(int32_t, int32_t, int32_t, int64_t, int32_t);
__attribute__((import_module("wasi_snapshot_preview1"), import_name("fd_allocate")))
int32_t raw_allocate(int32_t, int64_t, int64_t);

static int misuse(int which)
{
    static const char hidden[] = "in.txt\0/../../../../../../etc/passwd";
    static int32_t out;
    const int32_t at = (int32_t)(intptr_t)&out, end = (int32_t)(__builtin_wasm_memory_size(0) * 65536);
    const int32_t path = (int32_t)(intptr_t)hidden,
                  vector = (int32_t)(intptr_t) & (int32_t[2]){end - 4, 4096};
    make_file("in.txt");
    switch (which) {
    case 0:
        return raw_path_open(3, 1, path, sizeof hidden - 1, 0, -1, -1, 0, at);
    case 1:
        return raw_path_open(3, 1, end - 2, 4096, 0, -1, -1, 0, at);
    case 2:
        return raw_path_open(3, 1, path, -1, 0, -1, -1, 0, at);
    case 3:
        return raw_path_open(3, -1, path, 6, 0, -1, -1, 0, at);
    case 4:
        return raw_path_open(3, 1, path, 6, -1, -1, -1, 0, at);
    case 5:
        return raw_path_open(3, 1, path, 6, 0, -1, -1, -1, at);
    case 6:
        return raw_path_open(3, 1, path, 6, 0, -1, -1, 0, -1);
    case 7:
        return raw_path_open(-1, 1, path, 6, 0, -1, -1, 0, at);
    case 8:
        return raw_path_open(3, 1, path, 0, 0, -1, -1, 0, at);
    case 9:
        return raw_fd_write(1, vector, 1, at);
    case 10:
        return raw_fd_write(1, end - 4, 1024, at);
    case 11:
        return raw_fd_write(1, vector, -1, at);
    case 12:
        return raw_fd_read(0, vector, 1, at);
    case 13:
        return raw_fd_read(0, -8, 1, at);
    case 14:
        return raw_random(0, -1);
    case 15:
        return raw_random(end - 1, 65536);
    case 16:
        return raw_poll(0, 0, -1, at);
    case 17:
        return raw_poll(end - 8, end - 8, 100000, at);
    case 18:
        return raw_poll(0, 0, 0, at);
    case 19:
        return raw_args(-4, -4);
    case 20:
        return raw_args(end - 1, end - 1);
    case 21:
        return raw_readdir(3, 0, -1, 0, at);
    case 22:
        return raw_readdir(3, end - 1, 4096, -1, at);
    case 23:
        return raw_allocate(3, -1, -1);
    case 24:
        return raw_allocate(1, 0, INT64_MAX);
    default:
        return printf("%d\n", 25) < 0;
    }
}

int main(int n, char **a)
{
    const char *what = n > 1 ? a[1] : "";
    int known[MAX_PREOPENS], count = preopens(known);
    if (!strcmp(what, "flip"))
        return flip(n > 2 ? atol(a[2]) : 1000);
    if (!strcmp(what, "race"))
        return race(n > 2 ? atol(a[2]) : 1000);
    if (!strcmp(what, "climb"))
        return climb(n > 2 ? atol(a[2]) : 1000);
    if (!strcmp(what, "misuse"))
        return misuse(n > 2 ? atoi(a[2]) : -1) != 0;
    for (int i = 0; i < count; i++) {
        root = known[i];
        const int only_look = !strcmp(what, "look");
        for (int k = 2; k < n && (only_look || !strcmp(what, "paths")); k++)
            try_paths(a[k], only_look);
        if (n > 2 && !strcmp(what, "descriptors")) {
            try_moved(a[2]);
            try_strangers();
            try_rights(a[2]);
        }
    }
    printf("%d attempts, %d escapes\n", attempts, escapes);
    return escapes != 0;
}
