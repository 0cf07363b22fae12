/* Small language helpers used everywhere: scoped cleanup, handing over ownership, array sizes. */
#pragma once

#include <stddef.h>

/* Runs f(&variable) when the variable leaves its scope. */
#define _cleanup_(f) __attribute__((cleanup(f)))
#define _printf_(fmt, args) __attribute__((format(printf, fmt, args)))
#define _noreturn_ __attribute__((noreturn))
#define _must_use_ __attribute__((warn_unused_result))
#define _unused_ __attribute__((unused))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The value moves out; the variable is left empty, so that its cleanup does nothing. */
#define TAKE_PTR(p)                                                                                          \
    ({                                                                                                       \
        __auto_type _taken = (p);                                                                            \
        (p) = NULL;                                                                                          \
        _taken;                                                                                              \
    })
#define TAKE_FD(fd)                                                                                          \
    ({                                                                                                       \
        int _taken = (fd);                                                                                   \
        (fd) = -1;                                                                                           \
        _taken;                                                                                              \
    })

/* The struct that embeds `member`, given a pointer to that member. */
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Defines cleanup_NAME(T *p), for _cleanup_, from a destructor that takes T and accepts its empty value. */
#define DEFINE_CLEANUP(type, destructor)                                                                     \
    static inline void cleanup_##destructor(type *p)                                                         \
    {                                                                                                        \
        destructor(*p);                                                                                      \
    }
