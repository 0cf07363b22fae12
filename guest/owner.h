/* Changing owners on the server's behalf, where it isn't root of the machine but we are of its ids. */
#pragma once

#include "guest/wire.h"

/* In a process of its own: a folder of /state and all beneath it becomes that id's. */
int owner_change(const struct guest_own *own, struct guest_error *err);
