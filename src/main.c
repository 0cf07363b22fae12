/* The entry point. What the program does is in app.c. */
#include <unistd.h>

#include "app.h"

int main(int argc, char **argv)
{
    return app_run(argc, argv, environ);
}
