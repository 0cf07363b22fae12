/* Pulls of images, each shared by all that want the image at the same time. Their owner is struct images. */
#pragma once

#include "backends/engine/image.h"

/* Pulls it, whether it is there or not; as image_ensure() otherwise. */
int pull_image(struct images *images, struct engine *e, const struct reference *r, const char *platform,
               const struct progress *progress, const struct wait *wait, struct error *err);
