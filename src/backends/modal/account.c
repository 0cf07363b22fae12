/* See account.h and control.h. */
#include "backends/modal/account.h"

#include <stdlib.h>
#include <string.h>

#include "backends/modal/control.h"
#include "backends/modal/profile.h"
#include "backends/provider.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"

#define DEFAULT_SERVER "https://api.modal.com:443"
#define TOKEN_MAX (16 * KIB)
#define LIFETIME_UNSAID_S 1200
#define LIFETIME_MAX_S 86400
#define LIFETIME_MIN_S 10
#define REFRESH_AGAIN_NS (10 * NSEC_PER_SEC)
#define REFRESH_TIMEOUT_NS (20 * NSEC_PER_SEC)

bool modal_is_id(const char *id)
{
    return provider_is_id(id, MODAL_ID_SIZE);
}

bool modal_is_token(const char *text)
{
    size_t n = 0;
    for (; text && text[n]; n++)
        if (text[n] <= ' ' || text[n] > '~')
            return false;
    return n > 0 && n < TOKEN_MAX;
}

void modal_uuid(char ret[MODAL_UUID_SIZE])
{
    char hex[RANDOM_HEX_SIZE(16)];
    random_hex(hex, 16);
    hex[12] = '4';                 /* the version: random */
    hex[16] = "89ab"[hex[16] & 3]; /* the variant */
    snprintf(ret, MODAL_UUID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

/* --- making it --- */

/* What is given, else the profile's. */
static char *either(const char *given, char **of_profile)
{
    return given && *given ? xstrdup(given) : TAKE_PTR(*of_profile);
}

static void host_of(struct modal_account *a)
{
    a->plain = str_has_prefix(a->server_url, "http://");
    const char *host = strstr(a->server_url, "://") + 3;
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    a->host = xstrndup(host, end ? (size_t)(end + 1 - host) : strcspn(host, ":"));
}

static int check_texts(const struct modal_account *a, struct error *err)
{
    if ((a->token_id && !modal_is_token(a->token_id)) ||
        (a->token_secret && !modal_is_token(a->token_secret)))
        return error_set(err, ERR_INVALID,
                         "the Modal token (MODAL_TOKEN_ID, MODAL_TOKEN_SECRET) has characters that "
                         "no token has");
    if (a->builder.text[0] && !modal_is_token(a->builder.text))
        return error_set(err, ERR_INVALID, "MODAL_IMAGE_BUILDER_VERSION is like 2025.06");
    return 0;
}

static int fill(struct modal_account *a, const struct modal_account_options *o, struct modal_profile *p,
                struct error *err)
{
    _cleanup_(cleanup_free) char *url = either(o->server_url, &p->server_url);
    _cleanup_(cleanup_free) char *builder = either(o->builder_version, &p->builder_version);
    a->token_id = either(o->token_id, &p->token_id);
    a->token_secret = either(o->token_secret, &p->token_secret);
    a->environment = either(o->environment, &p->environment);
    a->app_name = xstrdup(o->app_name);
    a->ca_file = xstrdup(o->ca_file);
    a->v2 = o->generation_2 >= 0 ? o->generation_2 : p->sandbox_v2 != 0;
    a->server_url = provider_base("MODAL_SERVER_URL", url ? url : DEFAULT_SERVER, err);
    if (!a->server_url)
        return -1;
    host_of(a);
    if (builder && strlen(builder) >= sizeof(a->builder.text))
        return error_set(err, ERR_INVALID, "MODAL_IMAGE_BUILDER_VERSION is like 2025.06");
    if (builder)
        strcpy(a->builder.text, builder);
    a->channel = check_texts(a, err) < 0 ? NULL : grpc_channel_new(a->server_url, a->ca_file, err);
    return a->channel ? 0 : -1;
}

struct modal_account *modal_account_new(const struct modal_account_options *o, struct error *err)
{
    _cleanup_(modal_profile_done) struct modal_profile profile = {.sandbox_v2 = -1};
    if (modal_profile_read(o->config_path, o->profile, &profile, err) < 0)
        return NULL;
    struct modal_account *a = xcalloc(1, sizeof(*a));
    pthread_mutex_init(&a->lock, NULL);
    a->pace = pace_new();
    a->creating = pace_new();
    return fill(a, o, &profile, err) < 0 ? modal_account_free(a) : a;
}

static void wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

struct modal_account *modal_account_free(struct modal_account *a)
{
    if (!a)
        return NULL;
    grpc_channel_unref(a->channel);
    pace_free(a->pace);
    pace_free(a->creating);
    pthread_mutex_destroy(&a->lock);
    for (size_t i = 0; i < MODAL_IMAGES_MAX; i++)
        free(a->images[i].reference);
    wipe(a->auth_token);
    wipe(a->token_id);
    wipe(a->token_secret);
    free(a->server_url);
    free(a->host);
    free(a->environment);
    free(a->app_name);
    free(a->ca_file);
    free(a);
    return NULL;
}

int modal_check_token(const struct modal_account *a, struct error *err)
{
    if (a->token_id && a->token_secret)
        return 0;
    return error_set(err, ERR_DENIED,
                     "Modal needs a token: run `modal setup`, or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET "
                     "(modal.com/settings/tokens makes one)");
}

/* --- the auth token --- */

/* The seconds that a JWT says it lives on. What says nothing, or makes no sense by our clock, has a time all
 * the same. */
static int64_t lifetime_of(const char *jwt)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(TOKEN_MAX);
    const char *claims = strchr(jwt, '.');
    const size_t n = claims ? strcspn(claims + 1, ".") : 0;
    if (n == 0 || base64_decode_loosely(claims + 1, n, &text, NULL) < 0)
        return LIFETIME_UNSAID_S;
    _cleanup_(cleanup_json_decref) json_t *all = json_parse(buf_str(&text), text.len, NULL);
    const json_t *end = json_object_get(all, "exp");
    if (!json_is_number(end))
        return LIFETIME_UNSAID_S;
    const double left = json_number_value(end) - (double)(clock_wall() / NSEC_PER_SEC);
    return left < LIFETIME_MIN_S ? LIFETIME_MIN_S : left > LIFETIME_MAX_S ? LIFETIME_MAX_S : (int64_t)left;
}

static char *fetch(struct modal_account *a, const struct wait *wait, struct error *err)
{
    Modal__Nothing nothing = MODAL__NOTHING__INIT;
    const struct modal_call call = {.name = "AuthTokenGet",
                                    .request = MODAL_MESSAGE(&nothing),
                                    .answer = &modal__auth_token__descriptor,
                                    .without_auth = true};
    const struct wait bounded = wait_at_most(wait, clock_now() + REFRESH_TIMEOUT_NS);
    _cleanup_(cleanup_modal_free) Modal__AuthToken *t = modal_control(a, &call, &bounded, err);
    if (t && modal_is_token(t->token))
        return xstrdup(t->token);
    if (t)
        error_set(err, ERR_UNAVAILABLE, "Modal answered with an auth token that is none");
    return NULL;
}

/* Under the lock, which is left meanwhile. A token that still lives outlasts a failure. */
static int refresh_locked(struct modal_account *a, const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    pthread_mutex_unlock(&a->lock);
    char *token = fetch(a, wait, &why);
    const int64_t life = token ? lifetime_of(token) * NSEC_PER_SEC : 0, now = clock_now();
    pthread_mutex_lock(&a->lock);
    attempt_end(&a->refreshing, token ? NULL : &why);
    if (!token) {
        a->refresh_at = now + REFRESH_AGAIN_NS;
        return a->auth_token && now < a->expires_at ? 0 : error_set(err, why.code, "%s", why.msg);
    }
    wipe(a->auth_token);
    a->auth_token = token;
    a->refresh_at = now + life / 2;
    a->expires_at = now + life;
    return 0;
}

char *modal_auth_token(struct modal_account *a, const struct wait *wait, struct error *err)
{
    char *token = NULL;
    pthread_mutex_lock(&a->lock);
    for (int failed = 0; !token && failed == 0;) {
        const int64_t now = clock_now();
        const bool lives = a->auth_token && now < a->expires_at;
        if (lives && (now < a->refresh_at || a->refreshing.over)) {
            token = xstrdup(a->auth_token);
            break;
        }
        struct error why = ERROR_INIT;
        const int joined = attempt_join(&a->refreshing, &a->lock, wait, &why);
        if (joined == 0)
            failed = refresh_locked(a, wait, err);
        else if (joined < 0 && !(wait_was_over(&why) && wait_check(wait, NULL) == 0)) /* not another's wait */
            failed = error_set(err, why.code, "%s", why.msg);
    }
    pthread_mutex_unlock(&a->lock);
    return token;
}

void modal_auth_token_forget(struct modal_account *a, const char *token)
{
    pthread_mutex_lock(&a->lock);
    if (a->auth_token && strcmp(a->auth_token, token) == 0) {
        wipe(a->auth_token);
        a->auth_token = NULL;
    }
    pthread_mutex_unlock(&a->lock);
}

/* --- what is asked for once --- */

int modal_know(struct modal_account *a, struct modal_known *k,
               int (*find)(struct modal_account *a, void *ctx, const struct wait *wait,
                           char ret[MODAL_ID_SIZE], struct error *err),
               void *ctx, const struct wait *wait, char ret[MODAL_ID_SIZE], struct error *err)
{
    struct error why = ERROR_INIT;
    int failed = modal_check_token(a, &why); /* whatever it was wanted for */
    pthread_mutex_lock(&a->lock);
    while (failed == 0 && !k->text[0]) {
        const int joined = attempt_join(&k->attempt, &a->lock, wait, &why);
        if (joined == 0) {
            char text[MODAL_ID_SIZE] = "";
            pthread_mutex_unlock(&a->lock);
            failed = find(a, ctx, wait, text, &why);
            pthread_mutex_lock(&a->lock);
            if (failed == 0)
                memcpy(k->text, text, sizeof(text));
            attempt_end(&k->attempt, failed < 0 ? &why : NULL);
        } else if (joined < 0) {
            failed =
                wait_was_over(&why) && wait_check(wait, NULL) == 0 ? 0 : -1; /* it may be another's wait */
        }
    }
    if (failed == 0)
        memcpy(ret, k->text, MODAL_ID_SIZE);
    pthread_mutex_unlock(&a->lock);
    return failed < 0 ? error_set(err, why.code, "%s", why.msg) : 0;
}

static int find_app(struct modal_account *a, void *ctx, const struct wait *wait, char ret[MODAL_ID_SIZE],
                    struct error *err)
{
    (void)ctx;
    Modal__AppWanted wanted = MODAL__APP_WANTED__INIT;
    wanted.name = a->app_name;
    wanted.environment = a->environment ? a->environment : wanted.environment;
    wanted.creation = MODAL_CREATE_IF_MISSING;
    const struct modal_call call = {
        .name = "AppGetOrCreate", .request = MODAL_MESSAGE(&wanted), .answer = &modal__app__descriptor};
    _cleanup_(cleanup_modal_free) Modal__App *app = modal_control(a, &call, wait, err);
    if (!app)
        return error_prefix(err, "find Modal's app '%.60s'", a->app_name);
    if (!modal_is_id(app->id))
        return error_set(err, ERR_UNAVAILABLE, "Modal answered without the id of an app");
    strcpy(ret, app->id);
    return 0;
}

int modal_app_id(struct modal_account *a, const struct wait *wait, char ret[MODAL_ID_SIZE], struct error *err)
{
    return modal_know(a, &a->app, find_app, NULL, wait, ret, err);
}

static int find_builder(struct modal_account *a, void *ctx, const struct wait *wait, char ret[MODAL_ID_SIZE],
                        struct error *err)
{
    (void)ctx;
    Modal__EnvironmentWanted wanted = MODAL__ENVIRONMENT_WANTED__INIT;
    wanted.name = a->environment ? a->environment : wanted.name;
    const struct modal_call call = {.name = "EnvironmentGetOrCreate",
                                    .request = MODAL_MESSAGE(&wanted),
                                    .answer = &modal__environment__descriptor};
    _cleanup_(cleanup_modal_free) Modal__Environment *e = modal_control(a, &call, wait, err);
    if (!e)
        return error_prefix(err, "find Modal's environment");
    const char *version = e->metadata && e->metadata->settings ? e->metadata->settings->builder_version : "";
    if (!modal_is_token(version) || strlen(version) >= MODAL_ID_SIZE)
        return error_set(err, ERR_UNAVAILABLE,
                         "Modal doesn't say which version of its image builder is used; set "
                         "MODAL_IMAGE_BUILDER_VERSION, such as 2025.06");
    strcpy(ret, version);
    return 0;
}

int modal_builder_version(struct modal_account *a, const struct wait *wait, char ret[MODAL_ID_SIZE],
                          struct error *err)
{
    return modal_know(a, &a->builder, find_builder, NULL, wait, ret, err);
}

void modal_account_forget(struct modal_account *a)
{
    pthread_mutex_lock(&a->lock);
    a->app.text[0] = '\0';
    for (size_t i = 0; i < MODAL_IMAGES_MAX; i++)
        a->images[i].id.text[0] = '\0';
    pthread_mutex_unlock(&a->lock);
}

int modal_account_check(struct modal_account *a, const struct wait *wait, struct error *err)
{
    char app[MODAL_ID_SIZE];
    return modal_app_id(a, wait, app, err);
}
