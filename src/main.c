/* The entry point. What the program does is in app.c, and what it does as a helper
 * of its own in backends/wasm. */
#include <unistd.h>

#include "app.h"
#include "backends/wasm/wasm.h"

int main(int argc, char **argv)
{
    int exit_code = wasm_internal(argc, argv);
    return exit_code >= 0 ? exit_code : app_run(argc, argv, environ);
}
