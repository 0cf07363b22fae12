/* Records that were read already, for those who look at many: a list of a thousand stopped computers is asked
 * for again and again. One is read anew when its file is another one, or was written since. What is kept is
 * never changed; whoever uses it has a reference. That a computer couldn't be started is kept with its
 * record: whoever starts it, here or elsewhere, writes a new one. */
#include "computers/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

#define KEPT_MAX 4096

struct kept_record {
    struct record record; /* first: it is what others see */
    struct timespec written;
    ino_t inode;
    int refs;          /* under the lock, as is the next; the map's is one */
    char failure[256]; /* "": none */
};

static struct kept_record *kept_of(const struct record *r)
{
    return CONTAINER_OF((struct record *)(uintptr_t)r, struct kept_record, record);
}

static void unref_locked(struct kept_record *k)
{
    if (--k->refs > 0)
        return;
    record_done(&k->record);
    free(k);
}

static void forget_all_locked(struct map *kept)
{
    size_t cursor = 0;
    const char *name;
    void *value;
    while (map_next(kept, &cursor, &name, &value)) {
        map_remove(kept, name);
        unref_locked(value);
    }
}

static bool is_same_file(const struct kept_record *k, const struct stat *st)
{
    return k->inode == st->st_ino && k->written.tv_sec == st->st_mtim.tv_sec &&
           k->written.tv_nsec == st->st_mtim.tv_nsec;
}

/* In place of what there was under the name. */
static void keep_locked(struct map *kept, const char *name, struct kept_record *k)
{
    struct kept_record *before = map_remove(kept, name);
    if (before)
        unref_locked(before);
    if (map_count(kept) >= KEPT_MAX)
        forget_all_locked(kept);
    if (map_put(kept, name, k) == 0)
        k->refs++;
}

const struct record *records_get(struct computers *c, const char *principal, const char *id,
                                 struct error *err)
{
    char name[COMPUTER_NAME_SIZE];
    struct stat st = {0};
    _cleanup_(cleanup_free) char *path = xasprintf("%s/%s/%s", c->dir, principal, id);
    const struct folder folder = {.path = path, .lock = -1};
    computer_name(principal, id, name);
    const bool is_there = store_stat(&folder, &st) == 0; /* before it is read: the older one is kept then */
    pthread_mutex_lock(&c->records_lock);
    struct kept_record *k = map_get(c->records, name);
    k = k && is_there && is_same_file(k, &st) ? k : NULL;
    if (k)
        k->refs++;
    pthread_mutex_unlock(&c->records_lock);
    if (k)
        return &k->record;
    struct record record = {0};
    if (store_read(&folder, &record, err) < 0)
        return NULL;
    k = xcalloc(1, sizeof(*k));
    *k = (struct kept_record){.record = record, .written = st.st_mtim, .inode = st.st_ino, .refs = 1};
    pthread_mutex_lock(&c->records_lock);
    keep_locked(c->records, name, k);
    pthread_mutex_unlock(&c->records_lock);
    return &k->record;
}

void records_put(struct computers *c, const struct record *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&c->records_lock);
    unref_locked(kept_of(r));
    pthread_mutex_unlock(&c->records_lock);
}

void records_note_failure(struct computers *c, const char *principal, const char *id, const char *why)
{
    const struct record *r = records_get(c, principal, id, NULL);
    if (!r)
        return;
    pthread_mutex_lock(&c->records_lock);
    snprintf(kept_of(r)->failure, sizeof(kept_of(r)->failure), "%s", why);
    pthread_mutex_unlock(&c->records_lock);
    records_put(c, r);
}

bool records_tell_failure(struct computers *c, const struct record *r, char *ret, size_t size)
{
    pthread_mutex_lock(&c->records_lock);
    const char *why = kept_of(r)->failure;
    const bool any = why[0] != '\0';
    if (any)
        snprintf(ret, size, "it couldn't be started: %s", why);
    pthread_mutex_unlock(&c->records_lock);
    return any;
}

void records_init(struct computers *c)
{
    c->records = map_new(KEPT_MAX);
    pthread_mutex_init(&c->records_lock, NULL);
}

void records_done(struct computers *c)
{
    forget_all_locked(c->records);
    map_free(c->records);
    pthread_mutex_destroy(&c->records_lock);
}
