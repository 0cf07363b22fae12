/* The process that makes computers. */
#pragma once

/* Runs until the server is gone; returns the exit code. Descriptors as wire.h says. */
int zygote_run(void);
