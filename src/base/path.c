/* Paths as text. */
#include "base/path.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"

char *path_join(const char *dir, const char *name)
{
    bool has_slash = !*dir || str_has_suffix(dir, "/");
    return xasprintf("%s%s%s", dir, has_slash ? "" : "/", name);
}

bool path_is_absolute(const char *path)
{
    return path[0] == '/';
}

const char *path_basename(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
