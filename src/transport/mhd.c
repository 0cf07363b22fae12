/* libmicrohttpd, loaded on demand. See mhd.h. */
#include "transport/mhd.h"

#include <dlfcn.h>

#include "base/str.h"

#define LIBRARY "libmicrohttpd.so.12"
#define INSTALL "install libmicrohttpd 0.9.75 or newer (Debian and Ubuntu: apt-get install libmicrohttpd12)"

struct mhd_library mhd;

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define MHD_ROW(name) {"MHD_" #name, offsetof(struct mhd_library, name)},
    MHD_FUNCTIONS(MHD_ROW)
#undef MHD_ROW
};

/* Whoever calls them looks at the first one only, so that is filled last. */
static int find_functions(void *library, struct error *err)
{
    for (size_t i = ARRAY_LEN(functions); i-- > 0;) {
        void *function = dlsym(library, functions[i].name);
        if (!function)
            return error_set(err, ERR_UNAVAILABLE, "this libmicrohttpd has no %s; " INSTALL,
                             functions[i].name);
        *(void **)(void *)((char *)&mhd + functions[i].offset) = function;
    }
    return 0;
}

int mhd_load(struct error *err)
{
    if (mhd.start_daemon)
        return 0;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(err, ERR_UNAVAILABLE,
                         "libmicrohttpd, needed to serve HTTP, can't be loaded (%s); " INSTALL, dlerror());
    return find_functions(library, err);
}

bool mhd_is_opaque(void)
{
    return !str_has_prefix(mhd.get_version(), "0.");
}
