/* See app.h.
 *
 * An app is made by who has the lock beside the record, and holds it until the new name is recorded: servers
 * that start at once share one app. The name of a new one is random, so when the answer to its making is
 * lost, the app that is there by that name is ours. An app that can't be recorded is removed again, or each
 * start would leave one more. */
#include "backends/fly/app.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "backends/fly/state_file.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"

#define NAME_PREFIX "mcp-computers-"
#define NAME_RANDOM_BYTES 6
#define NAMES_MAX 3 /* that are tried, should others have them */
#define LOCK_TIMEOUT_NS (60 * NSEC_PER_SEC)
#define STATUS_UNPROCESSABLE 422 /* what is wrong with a name, mostly that it is taken */

/* --- one app --- */

enum seen { APP_THERE, APP_ABSENT, APP_FOREIGN };

static int look(const struct app_search *s, const char *name, const struct wait *wait, enum seen *ret,
                int *ret_status, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_free) char *path = xasprintf("/v1/apps/%s", name);
    const struct provider_call call = {.method = "GET", .path = path};
    const int failed = provider_call(s->machines, &call, wait, NULL, ret_status, &why);
    if (failed && *ret_status != 404 && *ret_status != 403)
        return error_set(err, why.code, "%s", why.msg);
    *ret = !failed ? APP_THERE : *ret_status == 404 ? APP_ABSENT : APP_FOREIGN;
    return 0;
}

/* --- organisations --- */

static const char *choose(const json_t *answer)
{
    size_t n;
    json_t *one;
    const char *first = NULL;
    const json_t *nodes =
        json_object_get(json_get_object(json_get_object(answer, "data"), "organizations"), "nodes");
    json_array_foreach (nodes, n, one) {
        const char *slug = json_get_string(one, "slug"), *type = json_get_string(one, "type");
        if (slug && type && strcmp(type, "PERSONAL") == 0)
            return slug;
        first = first ? first : slug;
    }
    return first;
}

/* Malloced. */
static char *organisation_of(const struct app_search *s, const struct wait *wait, int *ret_status,
                             struct error *err)
{
    if (s->organisation)
        return xstrdup(s->organisation);
    _cleanup_(cleanup_json_decref) json_t *answer = NULL;
    _cleanup_(cleanup_json_decref) json_t *body =
        json_pack("{s:s, s:{s:b}}", "query",
                  "query($admin: Boolean!) { organizations(admin: $admin) { nodes { slug type } } }",
                  "variables", "admin", 0);
    const struct provider_call call = {
        .method = "POST", .path = "/graphql", .body = body, .repeatable = true};
    if (provider_call(s->graphql, &call, wait, &answer, ret_status, err) < 0)
        return NULL;
    const char *slug = choose(answer);
    if (!slug)
        error_set(err, ERR_DENIED,
                  "this token of Fly sees no organisation to make an app in: name an app (--fly-app, "
                  "FLY_APP_NAME), or an organisation (FLY_ORG)");
    return xstrdup(slug);
}

/* --- making one --- */

/* With a network of its own: computers reach nothing else of the organisation's. *ret_taken: others have the
 * name. */
static int make(const struct app_search *s, const char *name, const char *organisation,
                const struct wait *wait, bool *ret_taken, int *ret_status, struct error *err)
{
    struct error why = ERROR_INIT, ignored = ERROR_INIT;
    enum seen seen = APP_ABSENT;
    int looked = 0;
    _cleanup_(cleanup_json_decref) json_t *body =
        json_pack("{s:s, s:s, s:s}", "app_name", name, "org_slug", organisation, "network", name);
    const struct provider_call call = {.method = "POST", .path = "/v1/apps", .body = body};
    *ret_taken = false;
    if (provider_call(s->machines, &call, wait, NULL, ret_status, &why) == 0)
        return 0;
    const bool unknown = *ret_status == 0 || *ret_status >= 500 || *ret_status == STATUS_UNPROCESSABLE;
    if (unknown && look(s, name, wait, &seen, &looked, &ignored) == 0 && seen == APP_THERE)
        return 0;
    *ret_taken = *ret_status == STATUS_UNPROCESSABLE;
    if (why.code == ERR_DENIED)
        return error_set(
            err, ERR_DENIED,
            "this token of Fly may make no app in the organisation %.60s: name one that is there "
            "(--fly-app, FLY_APP_NAME), or use another token: %.200s",
            organisation, why.msg);
    return error_set(err, why.code, "Fly can't make the app %s in the organisation %.60s: %.200s", name,
                     organisation, why.msg);
}

static int make_named(const struct app_search *s, const struct wait *wait, int *ret_status, struct error *err)
{
    bool taken;
    _cleanup_(cleanup_free) char *organisation = organisation_of(s, wait, ret_status, err);
    return organisation ? make(s, s->name, organisation, wait, &taken, ret_status, err) : -1;
}

static int make_some(const struct app_search *s, const struct wait *wait, char **ret, int *ret_status,
                     struct error *err)
{
    _cleanup_(cleanup_free) char *organisation = organisation_of(s, wait, ret_status, err);
    bool taken = organisation != NULL;
    for (int n = 0; taken && n < NAMES_MAX; n++) {
        char digits[RANDOM_HEX_SIZE(NAME_RANDOM_BYTES)];
        random_hex(digits, NAME_RANDOM_BYTES);
        _cleanup_(cleanup_free) char *name = xasprintf(NAME_PREFIX "%s", digits);
        if (make(s, name, organisation, wait, &taken, ret_status, err) == 0) {
            *ret = TAKE_PTR(name);
            return 0;
        }
    }
    return -1;
}

/* --- the recorded one --- */

/* *ret NULL: none is recorded that the account sees. */
static int recorded(const struct app_search *s, const struct wait *wait, char **ret, int *ret_status,
                    struct error *err)
{
    enum seen seen = APP_ABSENT;
    _cleanup_(cleanup_free) char *name = NULL;
    if (state_file_read(s->state_file, &name, err) < 0 ||
        (name && look(s, name, wait, &seen, ret_status, err) < 0))
        return -1;
    *ret = seen == APP_THERE ? TAKE_PTR(name) : NULL;
    return 0;
}

static int lock_beside(const char *path, const struct wait *wait, struct error *err)
{
    _cleanup_(cleanup_free) char *folder = xstrndup(path, (size_t)(strrchr(path, '/') - path) + 1);
    _cleanup_(cleanup_free) char *lock = xasprintf("%s.lock", path);
    if (dir_make(folder, 0700, err) < 0)
        return -1;
    _cleanup_fd_ int fd = open(lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, error_code_of_errno(errno), errno, "create %s", lock);
    if (fd_lock(fd, LOCK_TIMEOUT_NS, wait, err) < 0)
        return error_prefix(err, "%s, under which one server makes Fly's app", lock);
    return TAKE_FD(fd);
}

static int make_and_record(const struct app_search *s, const struct wait *wait, char **ret, int *ret_status,
                           struct error *err)
{
    _cleanup_(cleanup_free) char *name = NULL;
    if (make_some(s, wait, &name, ret_status, err) < 0)
        return -1;
    if (state_file_write(s->state_file, name, err) == 0) {
        *ret = TAKE_PTR(name);
        return 0;
    }
    int ignored;
    _cleanup_(cleanup_free) char *path = xasprintf("/v1/apps/%s", name);
    const struct provider_call call = {.method = "DELETE", .path = path};
    (void)!provider_call(s->machines, &call, wait, NULL, &ignored, NULL);
    return error_prefix(err, "the app that was made at Fly can't be recorded, and was removed again");
}

static int recorded_or_new(const struct app_search *s, const struct wait *wait, char **ret, int *ret_status,
                           struct error *err)
{
    char *name = NULL;
    if (!s->state_file)
        return error_set(err, ERR_INVALID,
                         "there is no place to record Fly's app in, HOME is not set: give --fly-app, or set "
                         "KILNTAINERS_FLY_STATE_FILE");
    int failed = recorded(s, wait, &name, ret_status, err);
    if (!failed && !name) {
        _cleanup_fd_ int lock = lock_beside(s->state_file, wait, err);
        failed = lock < 0 ? -1 : recorded(s, wait, &name, ret_status, err); /* others may just have made it */
        if (!failed && !name)
            failed = make_and_record(s, wait, &name, ret_status, err);
    }
    if (!failed)
        *ret = name;
    return failed;
}

int app_find(const struct app_search *s, const struct wait *wait, char **ret, int *ret_status,
             struct error *err)
{
    enum seen seen;
    *ret_status = 0;
    if (!s->name)
        return recorded_or_new(s, wait, ret, ret_status, err);
    if (look(s, s->name, wait, &seen, ret_status, err) < 0)
        return -1;
    if (seen == APP_FOREIGN)
        return error_set(err, ERR_DENIED,
                         "this token of Fly may not use the app %s (--fly-app, FLY_APP_NAME)", s->name);
    if (seen == APP_ABSENT && make_named(s, wait, ret_status, err) < 0)
        return -1;
    *ret = xstrdup(s->name);
    return 0;
}
