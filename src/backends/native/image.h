/* The guest program, embedded at build time. */
#pragma once

#include <stddef.h>

extern const unsigned char guest_image[];
extern const size_t guest_image_size;
