/* Names of hosts as text: no resolver is asked. */
#pragma once

#include <stdbool.h>

/* "localhost" in any case, 127.0.0.0/8, ::1, with brackets or without: only this machine gets there. */
bool host_is_loopback(const char *name);
