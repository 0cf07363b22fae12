/* What ps shows of our processes, which are all the same program. */
#pragma once

void title_begin(char *argv0);
/* Not longer than argv[0] was: "sandbox-zygote". */
void title_set(const char *name);
