/* The guest program (guest/main.c) as the server carries it. */
#pragma once

#include <stddef.h>

extern const unsigned char guest_image[];
extern const size_t guest_image_size;
