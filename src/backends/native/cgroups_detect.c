/* Where this server's groups go: read from /proc/self/cgroup and /proc/self/mountinfo, and from the files of
 * the groups found. Nothing is changed here. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "backends/native/cgroups.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#define FILE_MAX (1U << 20)
#define SHARED_GROUP "mcp-sandbox-computer"
#define LEAF "server"

/* One cgroup mount: a hierarchy, and the part of it that is visible. */
struct mount {
    char *point;
    char *root; /* which group of the hierarchy the mount point shows */
};

static void mount_done(struct mount *m)
{
    free(m->point);
    free(m->root);
    *m = (struct mount){0};
}

/* mountinfo writes blanks and backslashes as \ooo. */
static char *unescape(const char *s)
{
    char *out = xmalloc(strlen(s) + 1), *p = out;
    while (*s) {
        unsigned code;
        if (*s == '\\' && sscanf(s + 1, "%3o", &code) == 1) {
            *p++ = (char)code;
            s += 4;
        } else {
            *p++ = *s++;
        }
    }
    *p = '\0';
    return out;
}

static bool list_has(const char *list, char separator, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; p; p = strchr(p, separator), p = p ? p + 1 : NULL)
        if (strncmp(p, word, n) == 0 && (p[n] == separator || p[n] == '\0' || p[n] == '\n'))
            return true;
    return false;
}

/* Splits at blanks, in place. Returns how many fields there are, at most max. */
static int split(char *line, char **fields, int max)
{
    int n = 0;
    char *save = NULL;
    for (char *f = strtok_r(line, " ", &save); f && n < max; f = strtok_r(NULL, " ", &save))
        fields[n++] = f;
    return n;
}

/* The last mount of the hierarchy that is named by `controller` (v1), or of cgroup2 if that is NULL: the last
 * one hides those before it. */
static bool find_mount(const char *mountinfo, const char *controller, struct mount *ret)
{
    _cleanup_(cleanup_free) char *text = xstrdup(mountinfo);
    char *save = NULL;
    bool found = false;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *fields[32];
        int n = split(line, fields, (int)ARRAY_LEN(fields)), dash = 6;
        while (dash < n && strcmp(fields[dash], "-") != 0)
            dash++;
        if (dash + 3 >= n)
            continue;
        const char *type = fields[dash + 1], *options = fields[dash + 3];
        if (strcmp(type, controller ? "cgroup" : "cgroup2") != 0 ||
            (controller && !list_has(options, ',', controller)))
            continue;
        mount_done(ret);
        *ret = (struct mount){.point = unescape(fields[4]), .root = unescape(fields[3])};
        found = true;
    }
    return found;
}

/* This process's group in a hierarchy, from lines "ID:CONTROLLERS:PATH"; v2's has no controllers. NULL: not
 * in it. */
static char *find_own(const char *own, const char *controller)
{
    _cleanup_(cleanup_free) char *text = xstrdup(own);
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        list++;
        if (controller ? list_has(list, ',', controller) : *list == '\0')
            return xstrdup(path);
    }
    return NULL;
}

/* The folder of our own group. NULL if the mount doesn't show it. */
static char *own_folder(const struct mount *m, const char *path)
{
    const char *root = strcmp(m->root, "/") == 0 ? "" : m->root;
    size_t n = strlen(root);
    if (strncmp(path, root, n) != 0 || (path[n] != '/' && path[n] != '\0') || strstr(path, "/.."))
        return NULL;
    const char *rest = path + n;
    return strcmp(rest, "/") == 0 || *rest == '\0' ? xstrdup(m->point) : xasprintf("%s%s", m->point, rest);
}

static bool has_file(const char *group, const char *name)
{
    _cleanup_(cleanup_free) char *path = path_join(group, name);
    return access(path, F_OK) == 0;
}

/* systemd marks a group that its owner may divide as he likes. */
static bool is_delegated(const char *group)
{
    static const char *const names[] = {"trusted.delegate", "user.delegate"};
    char value[8];
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (getxattr(group, names[i], value, sizeof(value)) == 1 && value[0] == '1')
            return true;
    return false;
}

static void set_place(struct cgroup_place *p, int version, char *v1, const char *why)
{
    free(p->v1);
    free(p->why);
    *p = (struct cgroup_place){.version = version, .v1 = v1, .why = why ? xstrdup(why) : NULL};
}

static void detect_v1(const char *own, const char *mountinfo, struct cgroups *ret)
{
    for (int i = 0; i < CGROUP_LIMITS; i++) {
        const char *controller = cgroup_limit_name((enum cgroup_limit)i);
        struct mount m = {0};
        _cleanup_(cleanup_free) char *path = find_own(own, controller);
        char *folder = path && find_mount(mountinfo, controller, &m) ? own_folder(&m, path) : NULL;
        if (folder && access(folder, W_OK) == 0) {
            set_place(&ret->places[i], 1, TAKE_PTR(folder), NULL);
        } else {
            _cleanup_(cleanup_free) char *why =
                folder ? xasprintf("%s can't be written to: %s", folder, strerror(errno)) : NULL;
            set_place(&ret->places[i], 0, NULL,
                      why ? why : "no hierarchy of control groups has this controller");
        }
        free(folder);
        mount_done(&m);
    }
}

static void detect_v2_limits(const char *available_in, struct cgroups *ret)
{
    _cleanup_(cleanup_free) char *path = path_join(available_in, "cgroup.controllers");
    _cleanup_(buf_done) struct buf controllers = BUF_INIT(4096);
    if (file_read(AT_FDCWD, path, &controllers, NULL) < 0)
        return;
    for (int i = 0; i < CGROUP_LIMITS; i++)
        if (ret->places[i].version == 0 &&
            list_has(buf_str(&controllers), ' ', cgroup_limit_name((enum cgroup_limit)i)))
            set_place(&ret->places[i], 2, NULL, NULL);
}

static bool any_v2_limit(const struct cgroups *c)
{
    for (int i = 0; i < CGROUP_LIMITS; i++)
        if (c->places[i].version == 2)
            return true;
    return false;
}

static void give_up_v2_limits(struct cgroups *c)
{
    for (int i = 0; i < CGROUP_LIMITS; i++)
        if (c->places[i].version == 2)
            set_place(&c->places[i], 0, NULL, "the server's control group isn't delegated to its user");
}

/* A server that has moved to its leaf already is looked at as if it were still above it. */
static void leave_leaf(char *folder, const char *mount_point)
{
    char *slash = strrchr(folder, '/');
    if (strcmp(slash, "/" LEAF) != 0 || strcmp(folder, mount_point) == 0)
        return;
    *slash = '\0';
    bool ours =
        is_delegated(folder) || (strcmp(folder, mount_point) == 0 && has_file(folder, "cgroup.events"));
    if (!ours)
        *slash = '/';
}

/* The nearest group above ours that is delegated: as systemd gives one to the manager of each user, who may
 * make groups in it beside that manager's. NULL: none. malloced. */
static char *delegated_above(const char *point, const char *folder)
{
    _cleanup_(cleanup_free) char *group = xstrdup(folder);
    while (strlen(group) > strlen(point)) {
        *strrchr(group, '/') = '\0';
        if (is_delegated(group) && access(group, W_OK) == 0)
            return TAKE_PTR(group);
    }
    return NULL;
}

/* Decides among: a hierarchy without our controllers (groups to kill by, beneath our own), our own group
 * where it is ours to divide, and a group of ours in one above: at the top, or in what is delegated. Only the
 * real root of the hierarchy has no cgroup.events; only there may processes and controllers meet. */
static void place_v2(const char *point, char *folder, struct cgroups *ret)
{
    bool machine = !has_file(point, "cgroup.events"), own = strcmp(folder, point) == 0;
    bool divisible = own ? !machine : is_delegated(folder);
    _cleanup_(cleanup_free) char *above = NULL;
    if (!divisible)
        above = machine && access(point, W_OK) == 0 ? xstrdup(point) : delegated_above(point, folder);

    detect_v2_limits(above ? above : folder, ret);
    if (!any_v2_limit(ret)) {
        ret->unified = xstrdup(folder);
    } else if (divisible) {
        ret->leaf = path_join(folder, LEAF);
        ret->enable[0] = xstrdup(folder);
        ret->unified = xstrdup(folder);
    } else if (above) {
        ret->enable[0] = xstrdup(above);
        ret->enable[1] = path_join(above, SHARED_GROUP);
        ret->unified = path_join(above, SHARED_GROUP);
    } else {
        give_up_v2_limits(ret);
        ret->unified = xstrdup(folder);
    }
}

static void detect_v2(const char *own, const char *mountinfo, struct cgroups *ret)
{
    struct mount m = {0};
    _cleanup_(cleanup_free) char *path = find_own(own, NULL);
    if (path && find_mount(mountinfo, NULL, &m)) {
        _cleanup_(cleanup_free) char *folder = own_folder(&m, path);
        if (folder && access(folder, W_OK) == 0) {
            leave_leaf(folder, m.point);
            place_v2(m.point, folder, ret);
        } else if (folder) {
            detect_v2_limits(folder, ret);
            give_up_v2_limits(ret);
        }
    }
    mount_done(&m);
}

int cgroups_detect(const struct cgroup_files *files, struct cgroups *ret, struct error *err)
{
    _cleanup_(buf_done) struct buf own = BUF_INIT(FILE_MAX);
    _cleanup_(buf_done) struct buf mountinfo = BUF_INIT(FILE_MAX * 8);
    if (file_read(AT_FDCWD, files->own, &own, err) < 0 ||
        file_read(AT_FDCWD, files->mountinfo, &mountinfo, err) < 0)
        return -1;
    *ret = (struct cgroups){0};
    detect_v1(buf_str(&own), buf_str(&mountinfo), ret);
    detect_v2(buf_str(&own), buf_str(&mountinfo), ret);
    return 0;
}
