/* See state_file.h. */
#include "backends/fly/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"

#define NAME_MAX_BYTES 63
#define USUAL_PLACE ".mcp-sandbox-computer-vm-for-ai/fly.json"

bool app_name_is_valid(const char *name)
{
    const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
    return n > 0 && n <= NAME_MAX_BYTES && !name[n];
}

char *state_file_place(const char *path)
{
    const char *home = getenv("HOME");
    return path ? xstrdup(path) : home && *home ? xasprintf("%s/" USUAL_PLACE, home) : NULL;
}

int state_file_read(const char *path, char **ret_app, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(buf_done) struct buf text = BUF_INIT(LIMIT_RECORD_BYTES);
    if (file_read(AT_FDCWD, path, &text, &why) < 0) {
        if (why.sys != ENOENT)
            return error_set(err, why.code, "the record of Fly's app can't be read: %s", why.msg);
        *ret_app = NULL;
        return 0;
    }
    _cleanup_(cleanup_json_decref) json_t *record = json_parse(buf_str(&text), text.len, NULL);
    const char *app = json_get_string(record, "app");
    if (!app || !app_name_is_valid(app))
        return error_set(
            err, ERR_INVALID,
            "%s should have the name of Fly's app, {\"app\": \"NAME\"}, and has something else: mend "
            "or remove it, or give --fly-app",
            path);
    *ret_app = xstrdup(app);
    return 0;
}

int state_file_write(const char *path, const char *app, struct error *err)
{
    _cleanup_(cleanup_free) char *text = xasprintf("{\"app\": \"%s\"}", app);
    return file_replace(AT_FDCWD, path, text, strlen(text), true, err);
}
