/* Where the config file and the state directory are when no option says so. */
#include "config/state.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"

/* The user's folder of one kind: the XDG variable (relative paths don't count, says its specification), else
 * one below HOME. NULL without either. Malloced. */
static char *user_folder(char *const *env, const char *variable, const char *below_home)
{
    const char *folder = env_get(env, variable);
    if (folder != NULL && path_is_absolute(folder))
        return xstrdup(folder);
    const char *home = env_get(env, "HOME");
    return home != NULL && path_is_absolute(home) ? path_join(home, below_home) : NULL;
}

/* -1 with ERR_NOT_FOUND if there is none. */
static int read_file(struct config *c, const char *path, struct error *err)
{
    _cleanup_(buf_done) struct buf content = BUF_INIT(LIMIT_CONFIG_FILE_BYTES);
    if (file_read(AT_FDCWD, path, &content, err) < 0)
        return error_prefix(err, "config file");
    c->file = xstrdup(path);
    return config_file_apply(c, c->file, buf_str(&content), content.len, err);
}

/* 1: read; 0: there is none; -1: error. */
static int read_file_if_any(struct config *c, const char *folder, const char *name, struct error *err)
{
    if (folder == NULL)
        return 0;
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_free) char *path = xasprintf("%s/%s/config.toml", folder, name);
    if (read_file(c, path, &why) == 0)
        return 1;
    if (why.code == ERR_NOT_FOUND)
        return 0;
    return error_set(err, why.code, "%s", why.msg);
}

int config_file_read(struct config *c, char *const *env, struct error *err)
{
    const char *path = c->values.config_path;
    if (path != NULL)
        return read_file(c, path, err);
    const char *name = program_name(c->values.personality);
    _cleanup_(cleanup_free) char *user = user_folder(env, "XDG_CONFIG_HOME", ".config");
    int found = read_file_if_any(c, user, name, err);
    if (found == 0)
        found = read_file_if_any(c, "/etc", name, err);
    return found < 0 ? -1 : 0;
}

int state_dir_resolve(struct config *c, char *const *env, struct error *err)
{
    /* Both personalities share one: computers made by one are found by the other. */
    const char *name = program_name(CONFIG_COMPUTER);
    char **dir = &c->values.state_dir;
    if (*dir == NULL && geteuid() == 0) {
        *dir = path_join("/var/lib", name);
    } else if (*dir == NULL) {
        _cleanup_(cleanup_free) char *folder = user_folder(env, "XDG_STATE_HOME", ".local/state");
        if (folder == NULL) {
            return error_set(err, ERR_INVALID,
                             "there is no place for state: HOME is not set; give --state-dir DIR");
        }
        *dir = path_join(folder, name);
    } else if (config_origin(c, option_find("state-dir"))->source == SOURCE_ENVIRONMENT) {
        (*dir)[strcspn(*dir, ":")] = '\0'; /* systemd gives a list when a unit has several */
    }
    return 0;
}
