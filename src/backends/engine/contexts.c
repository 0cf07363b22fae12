/* See contexts.h. */
#include "backends/engine/contexts.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/sha256.h"

#define NAMES_MAX 300

void endpoint_done(struct endpoint *e)
{
    free(e->host);
    free(e->origin);
    free(e->tls_folder);
    *e = (struct endpoint){0};
}

char *contexts_folder(void)
{
    const char *folder = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
    if (folder && *folder)
        return xstrdup(folder);
    return home && *home ? path_join(home, ".docker") : NULL;
}

/* NULL: ERR_NOT_FOUND, or ERR_INVALID if it can't be read. */
static json_t *read_object(const char *path, struct error *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(LIMIT_CONFIG_FILE_BYTES);
    if (file_read(AT_FDCWD, path, &text, err) < 0) {
        if (err->code != ERR_NOT_FOUND)
            err->code = ERR_INVALID;
        return NULL;
    }
    json_t *object = json_parse(buf_str(&text), text.len, err);
    if (!object)
        error_prefix(err, "%s", path);
    return object;
}

/* The name of the context in use, malloced; NULL: none, or an error, which *err then has. */
static char *current_name(const char *folder, const char *name, struct error *err)
{
    if (name && *name)
        return xstrdup(name);
    _cleanup_(cleanup_free) char *path = path_join(folder, "config.json");
    _cleanup_(cleanup_json_decref) json_t *config = read_object(path, err);
    if (!config && err->code == ERR_NOT_FOUND)
        *err = (struct error)ERROR_INIT;
    name = json_get_string(config, "currentContext");
    return name && *name ? xstrdup(name) : NULL;
}

static bool holds_keys(const char *folder)
{
    static const char *const files[] = {"ca.pem", "cert.pem", "key.pem"};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        _cleanup_(cleanup_free) char *path = path_join(folder, files[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* The names of all, for people. Malloced. */
static char *list_names(const char *folder)
{
    _cleanup_(cleanup_free) char *path = path_join(folder, "contexts/meta");
    _cleanup_(cleanup_closedir) DIR *dir = opendir(path);
    _cleanup_(buf_done) struct buf names = BUF_INIT(NAMES_MAX);
    (void)!buf_printf(&names, "default");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct error ignored = ERROR_INIT;
        _cleanup_(cleanup_free) char *file = xasprintf("%s/%s/meta.json", path, entry->d_name);
        _cleanup_(cleanup_json_decref) json_t *meta = read_object(file, &ignored);
        const char *name = json_get_string(meta, "Name");
        if (name && buf_printf(&names, ", %.60s", name) < 0)
            break; /* what is cut off is no more than the end of a long list */
    }
    return buf_steal(&names);
}

static int no_such(const char *folder, struct error *err)
{
    _cleanup_(cleanup_free) char *names = list_names(folder);
    return error_set(err, ERR_INVALID, "there is none of this name; there are: %s", names);
}

static int load(const char *folder, const char *name, struct endpoint *ret, struct error *err)
{
    char id[SHA256_HEX_SIZE];
    sha256_hex(name, strlen(name), id);
    _cleanup_(cleanup_free) char *path = xasprintf("%s/contexts/meta/%s/meta.json", folder, id);
    _cleanup_(cleanup_json_decref) json_t *meta = read_object(path, err);
    if (!meta && err->code == ERR_NOT_FOUND)
        return no_such(folder, err);
    if (!meta)
        return -1;
    const json_t *docker = json_get_object(json_get_object(meta, "Endpoints"), "docker");
    const char *host = json_get_string(docker, "Host");
    if (!host || !*host)
        return error_set(err, ERR_INVALID, "%s names no Docker engine", path);
    *ret = (struct endpoint){
        .host = xstrdup(host),
        .tls_folder = xasprintf("%s/contexts/tls/%s/docker", folder, id),
        .insecure = json_is_true(json_object_get(docker, "SkipTLSVerify")),
    };
    ret->tls = ret->insecure || holds_keys(ret->tls_folder);
    return 0;
}

int contexts_current(const char *named, struct endpoint *ret, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_free) char *folder = contexts_folder();
    _cleanup_(cleanup_free) char *name = folder ? current_name(folder, named, &why) : NULL;
    if (why.code != ERR_NONE)
        return error_set(err, ERR_INVALID, "the docker context in use can't be known: %s", why.msg);
    if (!name || strcmp(name, "default") == 0)
        return 0;
    struct endpoint found = {0};
    if (load(folder, name, &found, &why) < 0)
        return error_set(err, ERR_INVALID, "the docker context '%.100s': %s", name, why.msg);
    found.origin = xasprintf("the docker context '%.100s'", name);
    *ret = found;
    return 0;
}
