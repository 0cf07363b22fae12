/* libcurl, loaded on demand. See curl.h. */
#include "net/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#define INSTALL "install libcurl 7.68 or newer (Debian and Ubuntu: apt-get install libcurl3-gnutls)"

struct curl_library libcurl;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct error failure;

/* The one with GnuTLS first: Debian's libmicrohttpd uses that too, so TLS is in memory once. */
static const char *const names[] = {"libcurl-gnutls.so.4", "libcurl.so.4"};

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define CURL_ROW(name) {"curl_" #name, offsetof(struct curl_library, name)},
    CURL_FUNCTIONS(CURL_ROW)
#undef CURL_ROW
};

/* The newest of them, curl_multi_wakeup(), came with 7.68. */
static int find_functions(void *library)
{
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function)
            return error_set(&failure, ERR_UNAVAILABLE, "this libcurl has no %s; " INSTALL,
                             functions[i].name);
        *(void **)(void *)((char *)&libcurl + functions[i].offset) = function;
    }
    return 0;
}

static void load(void)
{
    void *library = NULL;
    for (size_t i = 0; i < ARRAY_LEN(names) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        error_set(&failure, ERR_UNAVAILABLE,
                  "libcurl, needed for TCP and TLS, can't be loaded (%s); " INSTALL, dlerror());
        return;
    }
    if (find_functions(library) < 0)
        return;
    if (libcurl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        error_set(&failure, ERR_UNAVAILABLE, "libcurl can't be initialised");
}

int curl_load(struct error *err)
{
    pthread_once(&once, load);
    if (failure.code == ERR_NONE)
        return 0;
    return error_set(err, failure.code, "%s", failure.msg);
}
