/* Fault points: named places between the steps of an operation, at which a test holds whoever comes there, to
 * kill that process or another one in just that moment. Only a build with -Dfault_points=true has them; in
 * any other one nothing is compiled. The one header of ours, beside its own, that the guest program includes.
 *
 * The test and all processes under test share a file, mapped, which the environment variable SANDBOX_FAULTS
 * names: struct fault_file in fault.c. */
#pragma once

#ifdef FAULT_POINTS

void fault_point(const char *name);
/* For a child that is started with an empty environment: one that only names the file. NULL: nothing to name.
 */
char *const *fault_environment(void);

#define FAULT_POINT(name) fault_point(name)
#define FAULT_ENVIRONMENT fault_environment()

#else

#define FAULT_POINT(name) ((void)0)
#define FAULT_ENVIRONMENT NULL

#endif
