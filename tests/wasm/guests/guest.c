/* A module for the tests of the wasm backend, one small program per first argument: what a WASI command may
 * do, and what one does that never ends, grows without end or goes wrong. The hostile ones are in escape.c
 * and the text modules. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return 1;
}

static int echo(int n, char **a)
{
    for (int i = 0; i < n; i++)
        printf("%s%s", i ? " " : "", a[i]);
    puts("");
    return 0;
}

/* All arguments, the name it was started by among them, between brackets. */
static int arguments(int n, char **a)
{
    for (int i = -2; i < n; i++)
        printf("[%s]", a[i]);
    puts("");
    return 0;
}

static int copy(FILE *from, FILE *to)
{
    static char bytes[65536];
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, from)) > 0;) {
        if (fwrite(bytes, 1, got, to) != got)
            return failed("write");
    }
    return fflush(to) ? failed("write") : 0;
}

static int cat(int n, char **a)
{
    FILE *from = n ? fopen(a[0], "r") : stdin;
    return from ? copy(from, stdout) : failed(a[0]);
}

static int save(int n, char **a)
{
    FILE *to = n ? fopen(a[0], "w") : NULL;
    return to ? copy(stdin, to) : failed("open");
}

/* How many bytes come in, and their sum: what was lost or changed on the way shows. */
static int count(int n, char **a)
{
    FILE *from = n ? fopen(a[0], "r") : stdin;
    uint64_t bytes = 0, sum = 0;
    if (!from)
        return failed(a[0]);
    for (int c; (c = getc(from)) != EOF; bytes++)
        sum = sum * 31 + (uint64_t)c;
    printf("%llu %016llx\n", (unsigned long long)bytes, (unsigned long long)sum);
    return 0;
}

/* open(2) of a file that isn't there, for `seconds` at most: how one command waits for another. */
static int await(int n, char **a)
{
    time_t end = time(NULL) + (n > 1 ? atoi(a[1]) : 30);
    for (struct stat found; stat(a[0], &found);) {
        if (time(NULL) > end)
            return failed(a[0]);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return 0;
}

static int list(int n, char **a)
{
    DIR *folder = opendir(n ? a[0] : ".");
    if (!folder)
        return failed(n ? a[0] : ".");
    for (struct dirent *e; (e = readdir(folder));) {
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            puts(e->d_name);
    }
    return 0;
}

static int environment(int n, char **a)
{
    (void)n, (void)a;
    for (char **e = environ; e && *e; e++)
        puts(*e);
    return 0;
}

static int make_link(int n, char **a)
{
    return n < 2 || symlink(a[0], a[1]) ? failed("symlink") : 0;
}

static int make_folder(int n, char **a)
{
    return n < 1 || mkdir(a[0], 0777) ? failed("mkdir") : 0;
}

static int drop(int n, char **a)
{
    return n < 1 || remove(a[0]) ? failed("remove") : 0;
}

static int leave(int n, char **a)
{
    exit(n ? atoi(a[0]) : 0);
}

static int spin(int n, char **a)
{
    (void)n, (void)a;
    puts("spinning");
    fflush(stdout);
    for (volatile unsigned x = 0;;)
        x++;
}

static int wait_for(int n, char **a)
{
    puts("sleeping");
    fflush(stdout);
    nanosleep(&(struct timespec){.tv_sec = n ? atoi(a[0]) : 1}, NULL);
    return 0;
}

/* Lines of 64 bytes, numbered; without an argument they never end. */
static int flood(int n, char **a)
{
    long long lines = n ? atoll(a[0]) : INT64_MAX;
    for (long long i = 0; i < lines; i++)
        printf("%063lld\n", i);
    return 0;
}

/* A file that grows by a MiB at a time until it can't. */
static int fill(int n, char **a)
{
    static char mib[1 << 20];
    FILE *to = n ? fopen(a[0], "w") : NULL;
    long long limit = n > 1 ? atoll(a[1]) : INT64_MAX, i = 0;
    if (!to)
        return failed("open");
    setvbuf(to, NULL, _IONBF, 0);
    memset(mib, 'x', sizeof mib);
    while (i < limit && fwrite(mib, sizeof mib, 1, to) == 1)
        i++;
    printf("%lld MiB\n", i);
    return i < limit ? failed("write") : 0;
}

/* Page by page of 64 KiB, until there is no more. */
static int grow(int n, char **a)
{
    (void)n, (void)a;
    while (__builtin_wasm_memory_grow(0, 1) != (size_t)-1)
        continue;
    printf("%zu pages\n", (size_t)__builtin_wasm_memory_size(0));
    return 0;
}

static int allocate(int n, char **a)
{
    size_t size = (size_t)(n ? atoi(a[0]) : 1) << 20;
    volatile char *volatile all = malloc(size);
    if (!all)
        return failed("malloc");
    for (size_t i = 0; i < size; i += 4096)
        all[i] = 1;
    puts("touched all");
    return 0;
}

static int trap(int n, char **a)
{
    (void)n, (void)a;
    fputs("before\n", stderr);
    __builtin_trap();
}

static int outside(int n, char **a)
{
    (void)n, (void)a;
    return *(volatile int *)0x7ffffff0;
}

static int divide(int n, char **a)
{
    volatile int zero = 0;
    (void)a;
    return (n + 7) / zero;
}

__attribute__((noinline)) static int sink_in(volatile int depth)
{
    return depth == INT32_MAX ? 0 : sink_in(depth + 1) + depth;
}

static int recurse(int n, char **a)
{
    (void)a;
    return sink_in(n);
}

/* A measure of computing: CRC-32 of bytes that are made up, and a sieve of primes. */
static uint32_t crc_of(uint32_t mib)
{
    static uint32_t table[256];
    uint32_t crc = ~0u, x = 1;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
        table[i] = c;
    }
    for (uint32_t i = 0; i < mib << 20; i++) {
        x = x * 1664525u + 1013904223u;
        crc = table[(crc ^ x >> 24) & 255] ^ crc >> 8;
    }
    return ~crc;
}

static uint32_t primes_below(uint32_t limit)
{
    uint8_t *composite = calloc(limit, 1);
    uint32_t found = 0;
    for (uint32_t i = 2; composite && i < limit; i++) {
        if (composite[i])
            continue;
        found++;
        for (uint64_t k = (uint64_t)i * i; k < limit; k += i)
            composite[k] = 1;
    }
    free(composite);
    return found;
}

static int compute(int n, char **a)
{
    uint32_t times = n ? (uint32_t)atoi(a[0]) : 1, primes = 0;
    uint32_t crc = crc_of(4 * times);
    for (uint32_t i = 0; i < times; i++)
        primes += primes_below(1000000);
    printf("%08x %u\n", crc, primes);
    return 0;
}

static const struct applet {
    const char *name;
    int (*run)(int n, char **a);
} applets[] = {
    {"echo", echo},      {"arguments", arguments}, {"cat", cat},         {"save", save},
    {"count", count},    {"await", await},         {"list", list},       {"env", environment},
    {"link", make_link}, {"mkdir", make_folder},   {"remove", drop},     {"exit", leave},
    {"spin", spin},      {"sleep", wait_for},      {"flood", flood},     {"fill", fill},
    {"grow", grow},      {"allocate", allocate},   {"trap", trap},       {"outside", outside},
    {"divide", divide},  {"recurse", recurse},     {"compute", compute},
};

/* As a shell is asked: NAME -c WORDS, of which there is just one word. */
int main(int n, char **a)
{
    if (n == 4 && !strcmp(a[2], "-c")) {
        printf("%s of %s: %s\n", a[1], a[0], a[3]);
        return 0;
    }
    for (size_t i = 0; n > 1 && i < sizeof applets / sizeof *applets; i++) {
        if (!strcmp(a[1], applets[i].name))
            return applets[i].run(n - 2, a + 2);
    }
    fputs("no such applet\n", stderr);
    return 127;
}
