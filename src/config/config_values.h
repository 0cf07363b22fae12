/* The values of all options, one member each; the rows of options.c name them. Strings and lists
 * (NULL-terminated) belong to the struct config they come from and are NULL while not set. Sizes are bytes,
 * members ending in _s are seconds. A number whose option has no default is 0 while not set. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

enum config_personality { CONFIG_COMPUTER, CONFIG_KILNTAINERS };
enum config_backend {
    CONFIG_AUTO, /* nothing named one or meant one: docker if an engine answers, else native */
    CONFIG_NATIVE,
    CONFIG_DOCKER,
    CONFIG_PODMAN,
    CONFIG_E2B,
    CONFIG_FLY,
    CONFIG_MODAL,
    CONFIG_GO_BUSYBOX,
    CONFIG_WASM,
    CONFIG_KUBERNETES
};
enum config_transport { CONFIG_STDIO, CONFIG_HTTP };
enum config_log_format { CONFIG_LOG_TEXT, CONFIG_LOG_JSON };
enum config_on_exit { CONFIG_ON_EXIT_AUTO, CONFIG_ON_EXIT_KEEP, CONFIG_ON_EXIT_STOP };
enum config_fly_cpu_kind { CONFIG_FLY_SHARED, CONFIG_FLY_PERFORMANCE };

struct config_values {
    /* core */
    enum config_backend backend;
    enum config_transport transport;
    double timeout_s;     /* of an exec that names none */
    int64_t output_limit; /* stdout and stderr of one exec */
    char *shell;          /* NULL: /bin/bash, else /bin/sh; set: no fallback */
    bool network;
    bool lifecycle_tools;  /* never true with kilntainers */
    int64_t max_computers; /* per principal; 0: no limit of its own */
    int64_t max_concurrent;
    enum config_on_exit on_exit;
    double ttl_s;
    double idle_timeout_s;

    /* the program */
    enum config_personality personality;
    char *state_dir; /* always set and absolute; may not exist yet */
    char *config_path;
    enum log_level log_level;
    enum config_log_format log_format;
    char *log_file;
    char *ca_file; /* NULL: the system's */

    /* tool description; at most one of them is set */
    char *tool_instruction_override;
    char *extended_tool_instruction;

    /* local computers; limits are the backend's own while not set */
    double cpu;
    int64_t memory;
    int64_t pids;
    int64_t warm_pool;
    int64_t disk;
    char *rootfs; /* NULL: the host toolbox */
    char *image;  /* never set with native; nor is platform */
    char *platform;
    char **allow_cidr;
    char **deny_cidr;
    char **volume;
    char **env;
    char *user;
    char *hostname;
    char **device;
    bool allow_weak_isolation;

    /* HTTP */
    char *host;
    int64_t port;
    double session_timeout_s;
    char *auth_token;
    char *auth_token_file;
    bool allow_unauthenticated_http;
    char *unix_socket;
    char **allowed_host;
    char **allowed_origin;
    char *metrics_token_file;
    char *access_log;
    double stop_timeout_s;
    int64_t max_sessions;
    int64_t max_connections, max_connections_per_peer;
    int64_t max_body; /* bytes */

    /* Docker and Podman */
    char *engine; /* "docker", "podman" or the path of one; podman's with that backend */
    char *docker_host;
    char *container_host;
    char *docker_context;
    bool docker_tls_verify;
    char *docker_cert_path;
    char **docker_run_flag;

    /* Fly */
    char *fly_cli;
    char *fly_app;
    char *fly_org;
    char *fly_token;
    char *fly_image;
    char *fly_region;
    enum config_fly_cpu_kind fly_cpu_kind;
    int64_t fly_cpus;
    int64_t fly_memory_mb;
    int64_t fly_rootfs_size_gb;
    double fly_lease_s;
    double fly_rate;
    bool fly_auto_install;
    char *fly_state_file;
    char *fly_install_dir;
    char *fly_config_dir;
    char *fly_api_url;
    char *fly_machines_url;

    /* E2B */
    char *e2b_api_key;
    char *e2b_template;
    double e2b_sandbox_timeout_s;
    char **e2b_metadata;
    char **e2b_env;
    char *e2b_domain;
    char *e2b_api_url;
    char *e2b_sandbox_url;

    /* Modal */
    char *modal_token_id;
    char *modal_token_secret;
    char *modal_app_name;
    double modal_cpu;
    int64_t modal_memory_mib;
    char *gpu;
    char *region;
    double sandbox_timeout_s;
    char *modal_profile;
    char *modal_config_path;
    char *modal_server_url;
    char *modal_environment;
    char *modal_image_builder_version;
    char *modal_sandbox_v2; /* NULL, or a yes or no */

    /* WASM */
    char *wasm_path;
    int64_t wasm_max_memory_mib;
    int64_t wasm_fuel;
};
