/* Is it there, is it for the right platform; pulling is in pull.c. */
#include "backends/engine/image.h"

#include <stdio.h>
#include <string.h>

#include "backends/engine/pull.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

static void read_lang(const json_t *env, char *ret, size_t size)
{
    size_t n;
    json_t *entry;
    ret[0] = '\0';
    json_array_foreach (env, n, entry) {
        const char *text = json_string_value(entry);
        if (text && str_has_prefix(text, "LANG="))
            snprintf(ret, size, "%s", text);
    }
}

static int inspect(struct engine *e, const char *name, const struct wait *wait, struct image *ret,
                   struct error *err)
{
    _cleanup_(cleanup_free) char *encoded = http_encode(name);
    _cleanup_(cleanup_free) char *path = xasprintf("/images/%s/json", encoded);
    _cleanup_(cleanup_json_decref) json_t *body = NULL;
    if (engine_call(e, "GET", path, NULL, wait, &body, err) < 0)
        return -1;
    const char *id = json_get_string(body, "Id"), *os = json_get_string(body, "Os");
    const char *architecture = json_get_string(body, "Architecture");
    const char *user = json_get_string(json_get_object(body, "Config"), "User");
    if (!id || !*id)
        return error_set(err, ERR_UNAVAILABLE, "%s describes the image %.100s without an id", engine_name(e),
                         name);
    snprintf(ret->os, sizeof(ret->os), "%s", os ? os : "");
    snprintf(ret->architecture, sizeof(ret->architecture), "%s", architecture ? architecture : "");
    snprintf(ret->user, sizeof(ret->user), "%s", user ? user : "");
    read_lang(json_object_get(json_get_object(body, "Config"), "Env"), ret->lang, sizeof(ret->lang));
    return 0;
}

static const char *usual_architecture(const char *name)
{
    static const char *const aliases[][2] = {
        {"x86_64", "amd64"}, {"x86-64", "amd64"}, {"aarch64", "arm64"}, {"i386", "386"}};
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
        if (strcmp(name, aliases[i][0]) == 0)
            return aliases[i][1];
    return name;
}

/* platform: OS, ARCHITECTURE, or OS/ARCHITECTURE[/VARIANT]; the variant is the engine's business. */
static bool is_for(const struct image *image, const char *platform)
{
    char os[32] = "", architecture[32] = "";
    if (!platform)
        return true;
    int parts = sscanf(platform, "%31[^/]/%31[^/]", os, architecture);
    const char *its = usual_architecture(image->architecture);
    if (parts == 1)
        return strcmp(os, image->os) == 0 || strcmp(usual_architecture(os), its) == 0;
    return strcmp(os, image->os) == 0 && strcmp(usual_architecture(architecture), its) == 0;
}

int image_ensure(struct images *images, struct engine *e, const struct reference *r, const char *platform,
                 const struct progress *progress, const struct wait *wait, struct image *ret,
                 struct error *err)
{
    struct image image = {0};
    struct error why = ERROR_INIT;
    int there = inspect(e, r->text, wait, &image, &why);
    if (there < 0 && why.code != ERR_NOT_FOUND)
        return error_set(err, why.code, "look for the image %.200s: %s", r->text, why.msg);
    if (there < 0 || !is_for(&image, platform)) {
        if (pull_image(images, e, r, platform, progress, wait, err) < 0)
            return -1;
        if (inspect(e, r->text, wait, &image, &why) < 0)
            return error_set(err, why.code == ERR_NOT_FOUND ? ERR_UNAVAILABLE : why.code,
                             "look at the image %.200s, which was just pulled: %s", r->text, why.msg);
    }
    if (!is_for(&image, platform))
        return error_set(err, ERR_UNSUPPORTED, "the image %.100s of %.100s is for %s/%s, not for %.50s",
                         r->text, r->registry, image.os, image.architecture, platform);
    *ret = image;
    return 0;
}
