/* Rules between options, and what this version can't honour: refused in words, never skipped in silence. What
 * merely lies about in the environment (DOCKER_HOST, say) is no request and stops nothing. The order of the
 * checks is that of their messages: the most telling first. */
#include "config/state.h"

#include <arpa/inet.h>
#include <string.h>

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
    char subject[SUBJECT_SIZE];
    return error_set(err, ERR_UNSUPPORTED, "%s %s", config_subject(row, config_origin(c, row), text, subject),
                     why);
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

static bool is_loopback(const char *host)
{
    struct in_addr address;
    if (inet_pton(AF_INET, host, &address) == 1)
        return ntohl(address.s_addr) >> 24 == 127;
    return strcmp(host, "::1") == 0 || strcmp(host, "[::1]") == 0 || str_equal_nocase(host, "localhost");
}

static int check_exposure(struct config *c, struct error *err)
{
    const struct config_values *v = &c->values;
    bool guarded = v->auth_token != NULL || v->auth_token_file != NULL || v->allow_unauthenticated_http;
    if (v->transport == CONFIG_STDIO || v->unix_socket != NULL || is_loopback(v->host) || guarded)
        return 0;
    return refuse(c, ROW(host), err,
                  "lets other machines in without a token; give --auth-token-file FILE or "
                  "--allow-unauthenticated-http, or use 127.0.0.1");
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

/* Whoever talks about the engine or an image means docker, and would be surprised by anything else. */
static int check_meant_docker(struct config *c, struct error *err)
{
    if (config_origin(c, ROW(backend))->source != SOURCE_DEFAULT)
        return 0;
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if ((row->traits & OPTION_MEANS_DOCKER) && config_is_explicit(c, row)) {
            return refuse(c, row, err,
                          "means the docker backend, which is not in this version; "
                          "leave it out to get a native computer");
        }
    }
    return 0;
}

static int check_native(struct config *c, struct error *err)
{
    const struct config_values *v = &c->values;
    if (v->backend != CONFIG_NATIVE)
        return 0;
    if (v->network && config_is_explicit(c, ROW(network))) {
        return refuse(c, ROW(network), err,
                      "can't be had: native computers have no network in this version; "
                      "leave it out, or say --no-network");
    }
    if (v->image != NULL) {
        return refuse(c, ROW(image), err,
                      "can't be used: native computers take no image in this version; "
                      "give --rootfs DIR, or leave it out");
    }
    if (v->disk != 0) {
        return refuse(c, ROW(disk), err,
                      "can't be enforced: native computers have no disk limit in this version; leave it out");
    }
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
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        const struct option_group_row *group = &option_groups[row->group];
        if (group->backend && group->later && config_origin(c, row)->source == SOURCE_FLAG)
            config_warn(c, "--%s has no effect on this backend", row->name);
    }
    return 0;
}

int rules_check(struct config *c, struct error *err)
{
    static int (*const checks[])(struct config *, struct error *) = {
        check_http_only,    check_descriptions, check_exposure, check_names,
        check_meant_docker, check_native,       check_later,    warn,
    };
    if (c->values.personality == CONFIG_KILNTAINERS)
        c->values.lifecycle_tools = false; /* that program never had them */
    for (size_t i = 0; i < ARRAY_LEN(checks); i++)
        if (checks[i](c, err) < 0)
            return -1;
    return 0;
}
