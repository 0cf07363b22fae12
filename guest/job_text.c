/* See job_text.h. What comes half is as good as nothing: it is known by its size. */
#include "guest/job_text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/base64_groups.h"
#include "guest/memory.h"
#include "guest/report.h"
#include "guest/request.h"
#include "guest/sys.h"
#include "guest/tail.h"

#define LETTERS_OF(bytes) (((bytes) + 2) / 3 * 4)
#define PRINTED 4096 /* at once; whole groups */

/* Up to `most` bytes until the end of standard input; -1 with errno. */
static ssize_t read_all(char *into, size_t most)
{
    size_t have = 0;
    while (have < most) {
        const ssize_t n = read(STDIN_FILENO, into + have, most - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

char *job_read_input(uint64_t size, struct guest_error *err)
{
    const size_t letters = LETTERS_OF(size);
    char *text = memory_take(letters + 1); /* one more would be seen */
    if (!text) {
        report(err, "keep the input");
        return NULL;
    }
    const ssize_t n = read_all(text, letters + 1);
    if (n == (ssize_t)letters && request_decode(text, size))
        return text;
    memory_give(text, letters + 1);
    report_text(err, EBADMSG, "read the input", "it didn't come as a whole");
    return NULL;
}

static int write_all(const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t written = write(STDOUT_FILENO, bytes, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -1;
        bytes += written;
        n -= (size_t)written;
    }
    return 0;
}

static void print(const char *bytes, size_t n)
{
    char text[PRINTED];
    for (size_t used = 0; n > 0;) {
        const size_t group = min_size(n, 3);
        base64_encode_group((const unsigned char *)bytes, group, text + used);
        bytes += group;
        n -= group;
        used += 4;
        if ((used == sizeof(text) || n == 0) && write_all(text, used) < 0)
            return; /* nobody is there */
        used %= sizeof(text);
    }
}

int job_print(const struct job_answer *head, int file, struct guest_error *err)
{
    const size_t size = sizeof(*head) + head->size;
    struct job_answer full = *head;
    full.magic = JOB_MAGIC;
    full.version = JOB_VERSION;
    char *bytes = memory_take(size);
    if (!bytes)
        return report(err, "answer");
    memcpy(bytes, &full, sizeof(full));
    const ssize_t n = head->size ? pread(file, bytes + sizeof(full), head->size, (off_t)head->offset) : 0;
    const bool whole = n >= 0 && (size_t)n == head->size;
    if (whole)
        print(bytes, size);
    else
        report_text(err, n < 0 ? errno : EIO, "read what it says", "");
    memory_give(bytes, size);
    return whole ? 0 : -1;
}
