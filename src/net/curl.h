/* The functions of libcurl that are used here, found in the library when it is first needed: loading it, with
 * its TLS and all that this pulls in, takes longer than the whole start of the server. Never linked; the
 * types are those of its own header. */
#pragma once

#include <curl/curl.h>

#include "base/error.h"

#define CURL_FUNCTIONS(X)                                                                                    \
    X(global_init)                                                                                           \
    X(version_info)                                                                                          \
    X(easy_init)                                                                                             \
    X(easy_cleanup)                                                                                          \
    X(easy_setopt)                                                                                           \
    X(easy_getinfo)                                                                                          \
    X(easy_strerror)                                                                                         \
    X(slist_append)                                                                                          \
    X(slist_free_all)                                                                                        \
    X(easy_recv)                                                                                             \
    X(easy_send)                                                                                             \
    X(multi_init)                                                                                            \
    X(multi_cleanup)                                                                                         \
    X(multi_add_handle)                                                                                      \
    X(multi_remove_handle)                                                                                   \
    X(multi_perform)                                                                                         \
    X(multi_poll)                                                                                            \
    X(multi_wakeup)                                                                                          \
    X(multi_info_read)                                                                                       \
    X(multi_strerror)

struct curl_library {
#define CURL_MEMBER(name) __typeof__(curl_##name) *name;
    CURL_FUNCTIONS(CURL_MEMBER)
#undef CURL_MEMBER
};

/* Filled by the first curl_load(), empty before. */
extern struct curl_library libcurl;

/* -1, ERR_UNAVAILABLE: there is none, or it is too old; says what to install. Any thread, any number of
 * times; the library stays. */
int curl_load(struct error *err);
