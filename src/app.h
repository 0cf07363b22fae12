/* The composition root: command line -> configuration -> a running server -> exit code. The only place that
 * knows every part; it hands each one its own options. */
#pragma once

/* The whole program. Exit codes: 0 ended as asked, 1 start refused or computers left behind, 2 usage. */
int app_run(int argc, char *const *argv, char *const *env);
