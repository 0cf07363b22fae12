/* The functions of libmicrohttpd that are used here, found in the library when a server for HTTP is wanted:
 * over stdio neither it nor the TLS that it brings along costs anything. Never linked; the types are those of
 * its own header. */
#pragma once

#include <microhttpd.h>
#include <stdbool.h>

#include "base/error.h"

#define MHD_FUNCTIONS(X)                                                                                     \
    X(start_daemon)                                                                                          \
    X(stop_daemon)                                                                                           \
    X(run)                                                                                                   \
    X(get_timeout)                                                                                           \
    X(get_daemon_info)                                                                                       \
    X(get_version)                                                                                           \
    X(add_connection)                                                                                        \
    X(get_connection_info)                                                                                   \
    X(set_connection_option)                                                                                 \
    X(get_connection_values_n)                                                                               \
    X(suspend_connection)                                                                                    \
    X(resume_connection)                                                                                     \
    X(create_response_from_buffer)                                                                           \
    X(create_response_from_callback)                                                                         \
    X(add_response_header)                                                                                   \
    X(queue_response)                                                                                        \
    X(destroy_response)

struct mhd_library {
#define MHD_MEMBER(name) __typeof__(MHD_##name) *name;
    MHD_FUNCTIONS(MHD_MEMBER)
#undef MHD_MEMBER
};

/* Filled by the first mhd_load(), empty before. */
extern struct mhd_library mhd;

/* -1, ERR_UNAVAILABLE: there is none, or it is too old; says what to install. Loop thread only, any number of
 * times; the library stays. */
int mhd_load(struct error *err);

/* From 1.0 on it parses in another way; see http_guard.h. */
bool mhd_is_opaque(void);
