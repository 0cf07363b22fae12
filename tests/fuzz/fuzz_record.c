/* Fuzz: any bytes as the record of a computer on disk. What is read as one names nothing but a key of ours,
 * and is written again as the same; what isn't is refused with words. */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/utf8.h"
#include "computers/settings.h"
#include "computers/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder_path[] = "/dev/shm/fuzz-record-XXXXXX";

static void remove_folder(void)
{
    (void)tree_remove(AT_FDCWD, folder_path, NULL);
}

/* Without a lock: nobody else is there. */
static const struct folder *make_folder(void)
{
    static struct folder folder = FOLDER_NONE;
    if (!folder.path) {
        if (!mkdtemp(folder_path) || atexit(remove_folder) != 0)
            abort();
        folder.path = folder_path;
    }
    return &folder;
}

static void put(const struct folder *folder, const uint8_t *data, size_t size)
{
    char path[sizeof(folder_path) + 16];
    snprintf(path, sizeof(path), "%s/record.json", folder->path);
    if (file_replace(AT_FDCWD, path, data, size, false, NULL) < 0)
        abort();
}

static void check_text(const char *text, size_t size)
{
    assert(memchr(text, '\0', size) && utf8_valid(text, strlen(text)));
}

static void check_record(const struct record *r)
{
    check_text(r->id, sizeof(r->id));
    check_text(r->principal, sizeof(r->principal));
    check_text(r->backend, sizeof(r->backend));
    check_text(r->network, sizeof(r->network));
    check_text(r->created_at, sizeof(r->created_at));
    check_text(r->last_used, sizeof(r->last_used));
    check_text(r->owner.machine, sizeof(r->owner.machine));
    check_text(r->owner.boot, sizeof(r->owner.boot));
    check_text(r->key, sizeof(r->key));
    assert(strspn(r->key, "0123456789abcdef") == COMPUTER_KEY_SIZE - 1);
    assert(!r->data || json_is_object(r->data));
}

static void check_same(const struct record *a, const struct record *b)
{
    assert(strcmp(a->id, b->id) == 0 && strcmp(a->principal, b->principal) == 0 &&
           strcmp(a->key, b->key) == 0);
    assert(strcmp(a->backend, b->backend) == 0 && strcmp(a->network, b->network) == 0);
    assert(strcmp(a->created_at, b->created_at) == 0 && strcmp(a->last_used, b->last_used) == 0);
    assert(a->temporary == b->temporary && a->ready == b->ready && owner_equal(&a->owner, &b->owner));
    assert(json_object_size(a->data) == json_object_size(b->data));
    assert(a->options.given == b->options.given && a->idle_pids == b->idle_pids &&
           strcmp(a->image, b->image) == 0 && strcmp(a->boot, b->boot) == 0);
    assert(options_check_same("a", &a->options, &b->options, NULL) == 0 &&
           terms_check_same("a", &a->terms, &b->terms, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct folder *folder = make_folder();
    _cleanup_(record_done) struct record first = {0}, second = {0};
    struct error err = ERROR_INIT;
    put(folder, data, size);
    if (store_read(folder, &first, &err) < 0) {
        assert((err.code == ERR_INVALID || err.code == ERR_UNSUPPORTED) && err.msg[0] && !first.data);
        return 0;
    }
    check_record(&first);
    first.temporary = true; /* which needn't reach the disk before we go on */
    if (store_write(folder, &first, &err) < 0) {
        assert(err.code == ERR_LIMIT); /* 1e99 is longer when written out */
        return 0;
    }
    if (store_read(folder, &second, &err) < 0)
        abort();
    check_same(&first, &second);
    return 0;
}
