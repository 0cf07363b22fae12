/* Where a computer's files are, as its folder says it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/modal/private.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"

#define FILE_NAME "modal.json"
#define FILE_BYTES_MAX (4 * KIB)

static void read_id(const json_t *text, char ret[MODAL_ID_SIZE])
{
    const char *id = json_string_value(text);
    snprintf(ret, MODAL_ID_SIZE, "%s", modal_is_id(id) ? id : "");
}

static void read_all(const json_t *object, struct modal_state *ret)
{
    size_t n;
    json_t *image;
    *ret = (struct modal_state){0};
    read_id(json_object_get(object, "sandbox"), ret->sandbox);
    read_id(json_object_get(object, "own"), ret->own);
    read_id(json_object_get(object, "image"), ret->image);
    labels_copy(object, "guest", ret->guest, sizeof(ret->guest));
    labels_copy(object, "asked", ret->asked, sizeof(ret->asked));
    json_array_foreach (json_object_get(object, "spent"), n, image) {
        if (n == MODAL_SPENT_MAX)
            break;
        read_id(image, ret->spent[n]);
    }
}

json_t *modal_state_pack(const struct modal_state *s)
{
    json_t *spent = json_array();
    for (size_t n = 0; n < MODAL_SPENT_MAX; n++)
        if (s->spent[n][0])
            json_array_append_new(spent, json_string(s->spent[n]));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "sandbox", s->sandbox, "own", s->own, "image",
                     s->image, "guest", s->guest, "asked", s->asked, "spent", spent);
}

/* Where there is no room Modal has refused to delete so many that it won't take this one either. */
void modal_state_spend(struct modal_state *s, const char *image)
{
    if (!image[0] || strcmp(image, s->image) == 0 || strcmp(image, s->own) == 0)
        return;
    for (size_t n = 0; n < MODAL_SPENT_MAX; n++)
        if (strcmp(s->spent[n], image) == 0)
            return;
    for (size_t n = 0; n < MODAL_SPENT_MAX; n++)
        if (!s->spent[n][0]) {
            snprintf(s->spent[n], sizeof(s->spent[n]), "%s", image);
            return;
        }
    log_warning("the image %s is left behind at Modal", image);
}

void modal_state_read(const char *folder, const json_t *data, struct modal_state *ret)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s/" FILE_NAME, folder ? folder : "");
    _cleanup_(buf_done) struct buf text = BUF_INIT(FILE_BYTES_MAX);
    _cleanup_(cleanup_json_decref) json_t *kept = NULL;
    if (folder && file_read(AT_FDCWD, path, &text, NULL) == 0)
        kept = json_parse(buf_str(&text), text.len, NULL);
    read_all(kept ? kept : data, ret);
}

int modal_state_write(const char *folder, const struct modal_state *s, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s/" FILE_NAME, folder);
    _cleanup_(buf_done) struct buf text = BUF_INIT(FILE_BYTES_MAX);
    _cleanup_(cleanup_json_decref) json_t *object = modal_state_pack(s);
    if (json_append(&text, object) < 0)
        return error_set(err, ERR_LIMIT, "out of memory");
    return file_replace(AT_FDCWD, path, text.data, text.len, true, err);
}

void modal_state_remove(const char *folder)
{
    if (!folder)
        return;
    _cleanup_(cleanup_free) char *path = xasprintf("%s/" FILE_NAME, folder);
    (void)unlink(path);
}
