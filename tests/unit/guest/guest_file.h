/* The guest program as tests start it. */
#pragma once

/* A file that anyone may run; removed at exit. */
const char *guest_file(void);
