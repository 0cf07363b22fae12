/* Rules between options, and what this version can't honour: refused in words, never skipped in silence. What
 * merely lies about in the environment (DOCKER_HOST, say) may decide where nothing else does, but contradicts
 * nothing and stops nothing. The order of the checks is that of their messages: the most telling first. */
#include "config/state.h"

#include <string.h>

#include "base/host.h"
#include "base/path.h"
#include "base/str.h"

#define ROW(member) option_of_member(offsetof(struct config_values, member))

static const struct option_row *option_of_member(size_t member)
{
    const struct option_row *row = option_rows;
    while (row->type == OPTION_ACTION || row->member != member)
        row++; /* the table has a row for every member */
    return row;
}

/* "--host 0.0.0.0 WHY", "SANDBOX_BACKEND=docker WHY", "FILE:3: network = true WHY". */
static int refuse_text(const struct config *c, const struct option_row *row, const char *text,
                       struct error *err, const char *why)
{
    char subject[SUBJECT_SIZE];
    return error_set(err, ERR_UNSUPPORTED, "%s %s", config_subject(row, config_origin(c, row), text, subject),
                     why);
}

static int refuse(const struct config *c, const struct option_row *row, struct error *err, const char *why)
{
    const char *text = "";
    _cleanup_(buf_done) struct buf formatted = BUF_INIT(CONFIG_TEXT_MAX);
    if (row->type == OPTION_STRING || row->type == OPTION_PATH)
        text = *(char *const *)config_member(c, row);
    else if (row->type == OPTION_LIST)
        text = **(char **const *)config_member(c, row);
    else if (row->type == OPTION_ENUM)
        text = row->names[config_enum(c, row)].name;
    else if (config_format(c, row, &formatted) == 0)
        text = buf_str(&formatted);
    return refuse_text(c, row, text, err, why);
}

/* Compares what would be printed, so that 300.0 is 300. */
static bool is_default(const struct config *c, const struct option_row *row)
{
    const char *text = option_default(row, c->values.personality == CONFIG_KILNTAINERS);
    _cleanup_(cleanup_config_free) struct config *plain = config_new();
    if (text != NULL && config_set(plain, row, text, config_origin(plain, row), NULL) < 0)
        return false;
    _cleanup_(buf_done) struct buf ours = BUF_INIT(CONFIG_TEXT_MAX);
    _cleanup_(buf_done) struct buf theirs = BUF_INIT(CONFIG_TEXT_MAX);
    return config_format(c, row, &ours) == 0 && config_format(plain, row, &theirs) == 0 &&
           strcmp(buf_str(&ours), buf_str(&theirs)) == 0;
}

/* Flags only: one config file may serve stdio and HTTP servers alike. */
static int check_http_only(struct config *c, struct error *err)
{
    for (size_t i = 0; i < option_row_count && c->values.transport == CONFIG_STDIO; i++) {
        const struct option_row *row = &option_rows[i];
        if ((row->traits & OPTION_HTTP_ONLY) && config_origin(c, row)->source == SOURCE_FLAG &&
            !is_default(c, row))
            return refuse(c, row, err, "is for --transport http only; with stdio leave it out");
    }
    return 0;
}

static int check_descriptions(struct config *c, struct error *err)
{
    if (c->values.tool_instruction_override == NULL || c->values.extended_tool_instruction == NULL)
        return 0;
    return refuse(c, ROW(extended_tool_instruction), err,
                  "and --tool-instruction-override exclude each other; give one of them");
}

static int check_exposure(struct config *c, struct error *err)
{
    const struct config_values *v = &c->values;
    bool guarded = v->auth_token != NULL || v->auth_token_file != NULL || v->allow_unauthenticated_http;
    if (v->transport == CONFIG_STDIO || v->unix_socket != NULL || host_is_loopback(v->host) || guarded)
        return 0;
    return refuse(c, ROW(host), err,
                  "lets other machines in without a token; give --auth-token-file FILE or "
                  "--allow-unauthenticated-http, or use 127.0.0.1");
}

/* No header can carry blanks at an end of its value, or a line end. */
static int check_token(struct config *c, struct error *err)
{
    const char *token = c->values.transport == CONFIG_STDIO ? NULL : c->values.auth_token;
    const size_t n = token ? strlen(token) : 0;
    bool fits = n == 0 || (token[0] != ' ' && token[n - 1] != ' ');
    for (size_t i = 0; i < n; i++)
        fits &= (unsigned char)token[i] >= ' ' && token[i] != '\x7f';
    return fits ? 0
                : refuse(
                      c, ROW(auth_token), err,
                      "is no token that a client could send: it has a line end or another control character, "
                      "or a blank at its beginning or end");
}

static bool is_name(const char *text)
{
    static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]";
    return text[0] && text[strspn(text, chars)] == '\0';
}

static bool is_host(const char *text)
{
    return strcmp(text, "*") == 0 || is_name(text);
}

static bool is_origin(const char *text)
{
    const char *rest = strstr(text, "://");
    return strcmp(text, "*") == 0 || strcmp(text, "null") == 0 || (rest && rest > text && is_name(rest + 3));
}

/* What no header can be lets nobody in, and who gave it would look for the reason elsewhere. */
static int check_headers(struct config *c, struct error *err)
{
    const struct {
        const struct option_row *row;
        char *const *list;
        bool (*fits)(const char *text);
        const char *why;
    } rows[] = {
        {ROW(allowed_host), c->values.allowed_host, is_host,
         "is no Host header; give a name, or NAME:PORT, without http:// and path, or * for all"},
        {ROW(allowed_origin), c->values.allowed_origin, is_origin,
         "is no Origin header; give SCHEME://NAME or SCHEME://NAME:PORT, without a path or a / at the end, "
         "or * for all"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (char *const *one = rows[i].list; one && *one; one++)
            if (!rows[i].fits(*one))
                return refuse_text(c, rows[i].row, *one, err, rows[i].why);
    return 0;
}

/* Names that this version knows but can't serve, foremost backends. */
static int check_names(struct config *c, struct error *err)
{
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->type != OPTION_ENUM || !row->names[config_enum(c, row)].later)
            continue;
        char why[256] = "is not in this version, which has:";
        size_t used = strlen(why);
        for (const struct option_name *name = row->names; name->name != NULL && used < sizeof(why); name++)
            if (!name->later)
                used += (size_t)snprintf(why + used, sizeof(why) - used, " %s", name->name);
        return refuse(c, row, err, why);
    }
    return 0;
}

/* Whoever talks about the engine or an image, or asks for what only containers have, means docker, and would
 * be surprised by anything else. The first such option, those that were asked for before variables; NULL:
 * none. */
static const struct option_row *meaning_docker(const struct config *c)
{
    const struct option_row *variable = NULL;
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        bool off = row->type == OPTION_BOOL && !*(const bool *)config_member(c, row);
        if (!(row->traits & OPTION_MEANS_DOCKER) || off)
            continue;
        if (config_is_explicit(c, row))
            return row;
        if (config_origin(c, row)->source == SOURCE_ENVIRONMENT)
            variable = row;
    }
    return variable;
}

static bool is_podman(const struct config_values *v)
{
    return strcmp(path_basename(v->engine), "podman") == 0;
}

static enum config_backend docker_or_podman(const struct config *c)
{
    const struct config_values *v = &c->values;
    bool only_podman = v->container_host && !v->docker_host && !config_is_explicit(c, ROW(engine));
    return is_podman(v) || only_podman ? CONFIG_PODMAN : CONFIG_DOCKER;
}

static const struct option_row *meaning_native(const struct config *c)
{
    return c->values.rootfs ? ROW(rootfs) : c->values.disk ? ROW(disk) : NULL;
}

/* Who names no backend may still have said which. */
static int settle_backend(struct config *c, struct error *err)
{
    struct config_values *v = &c->values;
    if (v->backend != CONFIG_AUTO)
        return 0;
    const struct option_row *by = meaning_docker(c), *native = meaning_native(c);
    if (native && by && config_is_explicit(c, by)) {
        char why[128];
        snprintf(why, sizeof(why), "means native computers, and --%s means docker; give one of them",
                 by->name);
        return refuse(c, native, err, why);
    }
    if (native)
        by = native;
    if (!by)
        return 0;
    v->backend = native ? CONFIG_NATIVE : docker_or_podman(c);
    c->origins[ROW(backend) - option_rows] = *config_origin(c, by);
    return 0;
}

static int check_engine(struct config *c, struct error *err)
{
    const struct config_values *v = &c->values;
    if (!is_podman(v) && strcmp(path_basename(v->engine), "docker") != 0) {
        return refuse(
            c, ROW(engine), err,
            "names no engine; must be docker, podman or the path of a program of one of these names");
    }
    if (v->backend != CONFIG_PODMAN || is_podman(v))
        return 0;
    if (config_is_explicit(c, ROW(engine)))
        return refuse(c, ROW(engine), err, "contradicts the backend podman; leave one of them out");
    return config_set(c, ROW(engine), "podman", config_origin(c, ROW(backend)), err);
}

static bool uses_engine(const struct config *c)
{
    return c->values.backend == CONFIG_DOCKER || c->values.backend == CONFIG_PODMAN;
}

static int check_native(struct config *c, struct error *err)
{
    const struct config_values *v = &c->values;
    if (v->backend != CONFIG_NATIVE)
        return 0;
    if (v->network && config_is_explicit(c, ROW(network))) {
        return refuse(c, ROW(network), err,
                      "can't be had: native computers have no network in this version; "
                      "leave it out, or say --no-network or --backend docker");
    }
    if (v->image) {
        return refuse(c, ROW(image), err,
                      "can't be used: native computers take no image in this version; "
                      "give --rootfs DIR or --backend docker, or leave it out");
    }
    if (v->platform) {
        return refuse(c, ROW(platform), err,
                      "can't be used: it is an image's, and native computers take none in this version; "
                      "leave it out");
    }
    return 0;
}

static int check_containers(struct config *c, struct error *err)
{
    const struct config_values *v = &c->values;
    if (uses_engine(c) && v->rootfs)
        return refuse(c, ROW(rootfs), err, "is for native computers; containers take --image IMAGE");
    if (uses_engine(c) && v->disk) {
        return refuse(c, ROW(disk), err,
                      "is for native computers in this version; leave it out, or say --backend native");
    }
    return 0;
}

static bool is_wasm(const struct config *c)
{
    return c->values.backend == CONFIG_WASM || c->values.backend == CONFIG_GO_BUSYBOX;
}

static int check_wasm(struct config *c, struct error *err)
{
    const bool busybox = c->values.backend == CONFIG_GO_BUSYBOX;
    const struct {
        const struct option_row *row;
        bool refused;
        const char *why;
    } rows[] = {
        {ROW(wasm_path), busybox, "is for --backend wasm; go_busybox has its own module"},
        {ROW(shell), busybox, "can't be used: go_busybox has no shell; leave it out"},
        {ROW(image), true, "can't be used: a module takes no image; leave it out"},
        {ROW(platform), true, "can't be used: a module is for no platform; leave it out"},
        {ROW(rootfs), true, "is for native computers; leave it out"},
        {ROW(memory), true, "is not for modules; give --wasm-max-memory MIB"},
        {ROW(cpu), true, "is not for modules: each command has one CPU; leave it out, or see --wasm-fuel"},
        {ROW(pids), true, "is not for modules: a command is one process; leave it out"},
    };
    for (size_t i = 0; is_wasm(c) && i < ARRAY_LEN(rows); i++)
        if (rows[i].refused && config_is_explicit(c, rows[i].row))
            return refuse(c, rows[i].row, err, rows[i].why);
    return 0;
}

/* The template says what a sandbox has. */
static int check_e2b(struct config *c, struct error *err)
{
    const struct config_values *v = &c->values;
    const struct option_row *const local[] = {ROW(image), ROW(platform), ROW(rootfs), ROW(disk),
                                              ROW(cpu),   ROW(memory),   ROW(pids)};
    if (v->backend != CONFIG_E2B)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(local); i++)
        if (config_is_explicit(c, local[i]))
            return refuse(
                c, local[i], err,
                "is for other backends: what a sandbox of E2B has, its template says (--e2b-template)");
    if (v->on_exit == CONFIG_ON_EXIT_KEEP && config_is_explicit(c, ROW(on_exit)))
        return refuse(c, ROW(on_exit), err,
                      "can't be had: E2B keeps the files of permanent computers, which are paused, and not "
                      "what runs in them; leave it out");
    return 0;
}

static int check_fly(struct config *c, struct error *err)
{
    const struct config_values *v = &c->values;
    const struct {
        const struct option_row *row;
        const char *why;
    } rows[] = {
        {ROW(image), "is for other backends: give --fly-image"},
        {ROW(cpu), "is for other backends: give --fly-cpus"},
        {ROW(memory), "is for other backends: give --fly-memory"},
        {ROW(disk), "is for other backends: give --fly-rootfs-size"},
        {ROW(rootfs), "is for native computers; give --fly-image"},
        {ROW(platform), "can't be used: Fly's machines are of one platform; leave it out"},
        {ROW(pids), "can't be used: a Fly machine has no such limit; leave it out"},
    };
    if (v->backend != CONFIG_FLY)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (config_is_explicit(c, rows[i].row))
            return refuse(c, rows[i].row, err, rows[i].why);
    if (!v->network)
        return refuse(c, ROW(network), err,
                      "can't be had: Fly's machines always have a network; say --network, or choose another "
                      "backend");
    if (v->on_exit == CONFIG_ON_EXIT_KEEP && config_is_explicit(c, ROW(on_exit)))
        return refuse(c, ROW(on_exit), err,
                      "can't be had: Fly keeps the files of permanent computers, which are stopped, and not "
                      "what runs in them; leave it out");
    return 0;
}

static int check_modal(struct config *c, struct error *err)
{
    const struct {
        const struct option_row *row;
        const char *why;
    } rows[] = {
        {ROW(cpu), "is for other backends: give --modal-cpu"},
        {ROW(memory), "is for other backends: give --modal-memory"},
        {ROW(pids), "is for other backends: Modal has no limit of processes; leave it out"},
        {ROW(disk), "is for other backends: Modal has no limit of the disk; leave it out"},
        {ROW(platform), "is for other backends: Modal has linux/amd64; leave it out"},
        {ROW(rootfs), "is for native computers; give --image"},
    };
    const struct config_values *v = &c->values;
    bool yes;
    if (v->backend != CONFIG_MODAL)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (config_is_explicit(c, rows[i].row))
            return refuse(c, rows[i].row, err, rows[i].why);
    if (v->on_exit == CONFIG_ON_EXIT_KEEP && config_is_explicit(c, ROW(on_exit)))
        return refuse(
            c, ROW(on_exit), err,
            "can't be had: Modal keeps the files of permanent computers, and not what runs in them; "
            "leave it out");
    if (v->modal_sandbox_v2 && !str_parse_bool(v->modal_sandbox_v2, &yes))
        return refuse(c, ROW(modal_sandbox_v2), err, "is neither yes nor no");
    return 0;
}

static int check_later(struct config *c, struct error *err)
{
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (!(row->traits & OPTION_LATER) || config_origin(c, row)->source == SOURCE_DEFAULT ||
            is_default(c, row))
            continue;
        if (config_is_explicit(c, row))
            return refuse(c, row, err, "is not in this version; leave it out");
        config_warn(c, "%s is ignored: --%s is not in this version", config_origin(c, row)->name, row->name);
    }
    return 0;
}

static int warn(struct config *c, struct error *err)
{
    if (config_origin(c, ROW(auth_token))->source == SOURCE_FLAG) {
        config_warn(c, "--auth-token is visible to every user of this machine; "
                       "use KILNTAINERS_AUTH_TOKEN or --auth-token-file");
    }
    const char *rootfs = c->values.rootfs;
    if (rootfs && rootfs[strspn(rootfs, "/.")] == '\0')
        config_warn(
            c, "--rootfs / lets commands read every file of this machine, whoever owns it; give a folder "
               "that was made for them, or leave it out");
    if (config_origin(c, ROW(e2b_api_key))->source == SOURCE_FLAG)
        config_warn(c, "--e2b-api-key is visible to every user of this machine; use E2B_API_KEY");
    if (config_origin(c, ROW(fly_token))->source == SOURCE_FLAG)
        config_warn(c, "--fly-token is visible to every user of this machine; use FLY_API_TOKEN");
    if (config_origin(c, ROW(modal_token_secret))->source == SOURCE_FLAG)
        config_warn(c,
                    "--modal-token-secret is visible to every user of this machine; use MODAL_TOKEN_SECRET");
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        const struct option_group_row *group = &option_groups[row->group];
        bool ours = (row->group == GROUP_DOCKER && uses_engine(c)) ||
                    (row->group == GROUP_WASM && is_wasm(c)) ||
                    (row->group == GROUP_E2B && c->values.backend == CONFIG_E2B) ||
                    (row->group == GROUP_FLY && c->values.backend == CONFIG_FLY) ||
                    (row->group == GROUP_MODAL && c->values.backend == CONFIG_MODAL);
        bool foreign = group->backend && !ours;
        if (foreign && config_origin(c, row)->source == SOURCE_FLAG)
            config_warn(c, "--%s has no effect on this backend", row->name);
    }
    return 0;
}

int rules_check(struct config *c, struct error *err)
{
    static int (*const checks[])(struct config *, struct error *) = {
        check_http_only, check_descriptions, check_exposure, check_token,
        check_headers,   check_names,        settle_backend, check_engine,
        check_native,    check_containers,   check_wasm,     check_e2b,
        check_fly,       check_modal,        check_later,    warn,
    };
    if (c->values.personality == CONFIG_KILNTAINERS)
        c->values.lifecycle_tools = false; /* that program never had them */
    for (size_t i = 0; i < ARRAY_LEN(checks); i++)
        if (checks[i](c, err) < 0)
            return -1;
    return 0;
}
