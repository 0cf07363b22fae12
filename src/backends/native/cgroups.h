/* Control groups of computers, on cgroup v2, v1 and both at once (hybrid).
 *
 * Each computer has one v2 group if any cgroup2 mount can be written to, whether or not controllers live
 * there: its inner groups are what things are killed by. Limits are set in whichever hierarchy owns the
 * controller:
 *
 *   UNIFIED/mcp-sandbox-KEY         limits, where v2 owns the controller; the computer's init is born there
 *   UNIFIED/mcp-sandbox-KEY/e0, ..  one per running command (scope.h)
 *   V1/mcp-sandbox-KEY              one limit each, beneath the server's own v1 group: its limits hold too
 *
 * The computer's v2 group passes no controller on, so it may hold a process beside its inner groups. Its
 * cgroup.procs and theirs belong to the computer's root: that lets init have commands born in them
 * (CLONE_INTO_CGROUP), and nothing inside can see these files.
 *
 * UNIFIED is the server's own group if v2 has no limits to set anyway. It is that too where the server may
 * set them (a delegated group, or a container's), after it has moved itself, and whoever shares the group, to
 * the leaf UNIFIED/server: only a group without processes may pass controllers on. Else it is a group of
 * ours that all servers share: at the top for root of the machine, for an ordinary user in the group of his
 * systemd. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum cgroup_limit { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_LIMITS };

/* Where to look; tests have files of their own, whose mount points lead to folders of theirs. */
struct cgroup_files {
    const char *own;       /* /proc/self/cgroup */
    const char *mountinfo; /* /proc/self/mountinfo */
};

struct cgroup_place {
    int version; /* that enforces the limit: 1 or 2; 0: none does */
    char *v1;    /* folder for groups, version 1 */
    char *why;   /* version 0: the reason, for people */
    /* version 0: what holds all the same, "for each of its users"; or NULL: nothing */
    const char *weaker;
};

struct cgroups {
    char *unified;   /* folder for v2 groups; NULL: none can be made */
    char *leaf;      /* the server must move here before limits can be given to v2 groups; or NULL */
    char *enable[2]; /* groups that must pass on controllers, outermost first; or NULL */
    struct cgroup_place places[CGROUP_LIMITS];
};

struct cgroup_values {
    int64_t memory_bytes;
    int64_t pids;
    double cpus;
};

/* Reads only. */
int cgroups_detect(const struct cgroup_files *files, struct cgroups *ret, struct error *err);
/* Makes it so: moves processes to the leaf, makes the shared group, passes on the controllers. What can't be
 * had turns into version 0 with the reason. Again and again is fine. */
void cgroups_prepare(struct cgroups *c);
/* Does without v2 groups from now on, and without the limits that they would hold. */
void cgroups_drop_unified(struct cgroups *c);
/* Removes the shared group if nobody uses it. */
void cgroups_done(struct cgroups *c);

const char *cgroup_limit_name(enum cgroup_limit limit); /* "memory" */

/* What the birth of a computer needs. */
struct cgroup_birth {
    int unified;                 /* the v2 folder that init is born in; -1: none */
    int v1_tasks[CGROUP_LIMITS]; /* `tasks` of v1 groups, open for writing */
    unsigned v1_count;
    int oom; /* file that counts kills by the memory limit; -1: none. Kept by the computer */
    bool unified_is_new;
    bool is_unchecked; /* some limit was set */
    /* What groups that are there already hold, and were checked for; NULL: nothing that is known. */
    const struct cgroup_values *prepared;
};
#define CGROUP_BIRTH_NONE                                                                                    \
    {                                                                                                        \
        .unified = -1, .oom = -1                                                                             \
    }
/* Makes a computer's groups in two steps: the v2 group, then the others and all limits. What was made before
 * a failure is left to cgroup_remove(). */
int cgroup_begin(const struct cgroups *c, const char *key, uint32_t id_base, struct cgroup_birth *birth,
                 struct error *err);
int cgroup_limit(const struct cgroups *c, const char *key, const struct cgroup_values *values,
                 struct cgroup_birth *birth, struct error *err);
/* In groups that are there, from other limits to these: before anything of the computer's own runs. */
int cgroup_change(const struct cgroups *c, const char *key, const struct cgroup_values *from,
                  const struct cgroup_values *values, struct cgroup_birth *birth, struct error *err);
/* Reads the limits back if any was set, when there is time for it: before anything of the computer's own
 * runs.
 */
int cgroup_check(const struct cgroups *c, const char *key, const struct cgroup_values *values,
                 const struct cgroup_birth *birth, struct error *err);
/* All of it ahead of time, for a birth that is `prepared`. */
int cgroup_prepare(const struct cgroups *c, const char *key, const struct cgroup_values *values,
                   struct error *err);
void cgroup_birth_done(struct cgroup_birth *b); /* not oom */

/* What a computer's groups are called; and the folders that they are in, opened: returns how many, at most
 * CGROUP_PARENTS_MAX. */
void cgroup_name(const char *key, char *ret, size_t size);
#define CGROUP_PARENTS_MAX (1 + CGROUP_LIMITS)
size_t cgroups_open_parents(const struct cgroups *c, int ret[CGROUP_PARENTS_MAX]);

/* Path of the computer's v2 group; NULL if there is none. malloced. */
char *cgroup_unified(const struct cgroups *c, const char *key);
/* Absolute paths of all groups of a computer, for its record. A new reference. */
json_t *cgroup_list(const struct cgroups *c, const char *key);
/* Kills what is left in a computer's groups and removes them. paths: what cgroup_list gave, of a server now
 * dead; NULL: as this server would name them. Absent ones are success. */
int cgroup_remove(const struct cgroups *c, const char *key, const json_t *paths, struct error *err);

/* From what cgroup_list gave, of a computer that runs: the path of its v2 group, malloced, NULL: it has none;
 * and the file that counts kills by the memory limit, open, -1: none. */
char *cgroup_listed_unified(const json_t *paths, const char *key);
int cgroup_listed_oom(const json_t *paths, const char *key);

/* The number of processes killed by the memory limit so far; 0 if unknown. */
uint64_t cgroup_oom_kills(int oom_fd);
