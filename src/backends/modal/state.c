/* Where a computer's files are, as its folder says it. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "backends/modal/private.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"

#define FILE_NAME "modal.json"
#define FILE_BYTES_MAX (4 * KIB)

static void read_ids(const json_t *object, struct modal_state *ret)
{
    const char *sandbox = json_get_string(object, "sandbox"), *image = json_get_string(object, "image");
    snprintf(ret->sandbox, sizeof(ret->sandbox), "%s", modal_is_id(sandbox) ? sandbox : "");
    snprintf(ret->image, sizeof(ret->image), "%s", modal_is_id(image) ? image : "");
    labels_copy(object, "guest", ret->guest, sizeof(ret->guest));
}

void modal_state_read(const char *folder, const json_t *data, struct modal_state *ret)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s/" FILE_NAME, folder ? folder : "");
    _cleanup_(buf_done) struct buf text = BUF_INIT(FILE_BYTES_MAX);
    _cleanup_(cleanup_json_decref) json_t *kept = NULL;
    if (folder && file_read(AT_FDCWD, path, &text, NULL) == 0)
        kept = json_parse(buf_str(&text), text.len, NULL);
    read_ids(kept ? kept : data, ret);
}

int modal_state_write(const char *folder, const struct modal_state *s, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s/" FILE_NAME, folder);
    _cleanup_(buf_done) struct buf text = BUF_INIT(FILE_BYTES_MAX);
    _cleanup_(cleanup_json_decref) json_t *object =
        json_pack("{s:s, s:s, s:s}", "sandbox", s->sandbox, "image", s->image, "guest", s->guest);
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
