/* What stands in for ssh and podman: the test program itself, run by a script with a role, a folder and the
 * script's arguments. */
#pragma once

/* Roles: "engine" and "stubborn-engine" are one behind standard input and output, of which the latter doesn't
 * end with its input; "service" listens as `podman system service` does; "refused", "silent", "chatty",
 * "flood" and "stuck" fail in that way. */
int fake_program_run(int argc, char **argv);
