/* Run flags of the network: ports, names, addresses, and which networks a container joins. Syntax as in the
 * docker CLI's opts/network.go, opts/hosts.go, opts/opts.go, and nat.ParsePortSpec. */
#include "backends/engine/run_parse.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"

/* ---- ports ---- */

struct ports {
    int first, last;
};

static bool parse_port(const char *text, int *ret)
{
    int64_t port;
    if (!isdigit((unsigned char)*text) || !str_parse_i64(text, &port) || port > 65535)
        return false;
    *ret = (int)port;
    return true;
}

/* "80" or "8000-8009" */
static bool parse_ports(const char *text, struct ports *ret)
{
    const char *dash = strchr(text, '-');
    _cleanup_(cleanup_free) char *first = xstrndup(text, strcspn(text, "-"));
    return parse_port(first, &ret->first) && parse_port(dash ? dash + 1 : first, &ret->last) &&
           ret->first <= ret->last;
}

/* PORTS[/PROTOCOL]; the protocol in lower case. */
static bool parse_container_ports(const char *text, struct ports *ret, const char **ret_protocol)
{
    static const char *const protocols[] = {"tcp", "udp", "sctp"};

    const char *slash = strchr(text, '/');
    _cleanup_(cleanup_free) char *ports = xstrndup(text, strcspn(text, "/"));
    for (size_t i = 0; i < ARRAY_LEN(protocols); i++)
        if (str_equal_nocase(slash && slash[1] ? slash + 1 : "tcp", protocols[i])) {
            *ret_protocol = protocols[i];
            return parse_ports(ports, ret);
        }
    return false;
}

static bool is_address(const char *text)
{
    struct in6_addr any;
    return inet_pton(AF_INET, text, &any) == 1 || inet_pton(AF_INET6, text, &any) == 1;
}

static void expose(struct run *r, const char *port)
{
    const char *member;
    json_object_set_new(run_place(r->body, "ExposedPorts.", &member), port, json_object());
}

static void bind_port(struct run *r, const char *port, const char *address, const char *host_port)
{
    const char *member;
    json_t *bindings = run_place(r->body, "HostConfig.PortBindings.", &member);
    if (!json_object_get(bindings, port))
        json_object_set_new(bindings, port, json_array());
    json_array_append_new(json_object_get(bindings, port),
                          json_pack("{s:s, s:s}", "HostIp", address, "HostPort", host_port));
    expose(r, port);
}

struct publication {
    struct ports inside, host;
    bool host_given;
    const char *protocol, *address;
};

/* [[ADDRESS:][PORTS]:]PORTS[/PROTOCOL], an IPv6 address in brackets or not. Cuts `text` to pieces. */
static bool parse_publication(char *text, struct publication *ret)
{
    char *host = NULL, *inside = strrchr(text, ':');
    if (inside)
        *inside++ = '\0';
    ret->address = "";
    if (inside) {
        host = strrchr(text, ':');
        if (host) {
            *host++ = '\0';
            ret->address = text;
        } else {
            host = text;
        }
    }
    size_t n = strlen(ret->address);
    if (n > 2 && *ret->address == '[' && ret->address[n - 1] == ']') {
        text[n - 1] = '\0';
        ret->address = text + 1;
    }
    ret->host_given = host && *host;
    return parse_container_ports(inside ? inside : text, &ret->inside, &ret->protocol) &&
           (!*ret->address || is_address(ret->address)) &&
           (!ret->host_given || parse_ports(host, &ret->host));
}

/* "published=8080,target=80,protocol=udp" in the form above; NULL: a part is no KEY=VALUE. */
static char *publication_of_pairs(const char *value)
{
    _cleanup_(cleanup_json_decref) json_t *fields = run_csv(value, NULL);
    const char *published = "", *target = "", *protocol = "tcp";
    size_t i;
    const json_t *field;
    json_array_foreach (fields, i, field) {
        const char *text = json_string_value(field), *equals = strchr(text, '=');
        if (!equals || equals == text)
            return NULL;
        if (str_has_prefix(text, "published="))
            published = equals + 1;
        else if (str_has_prefix(text, "target="))
            target = equals + 1;
        else if (str_has_prefix(text, "protocol="))
            protocol = equals + 1;
    }
    return fields ? xasprintf("%s:%s/%s", published, target, protocol) : NULL;
}

int run_publish(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    struct publication p;
    _cleanup_(cleanup_free) char *text = strchr(value, '=') ? publication_of_pairs(value) : xstrdup(value);
    if (!text || !parse_publication(text, &p))
        return error_set(err, ERR_INVALID,
                         "it takes [[ADDRESS:]PORT:]PORT[/tcp|udp|sctp], ports of 0 to 65535 or "
                         "ranges such as 8000-8009");
    int count = p.inside.last - p.inside.first + 1;
    if (p.host_given && count > 1 && p.host.last - p.host.first + 1 != count)
        return error_set(err, ERR_INVALID, "the two ranges of ports differ in length");
    for (int i = 0; i < count; i++) {
        char port[16], host[16] = "";
        snprintf(port, sizeof(port), "%d/%s", p.inside.first + i, p.protocol);
        /* One port inside and several outside: the engine chooses among them. */
        if (p.host_given && count == 1 && p.host.first != p.host.last)
            snprintf(host, sizeof(host), "%d-%d", p.host.first, p.host.last);
        else if (p.host_given)
            snprintf(host, sizeof(host), "%d", p.host.first + i);
        bind_port(r, port, p.address, host);
    }
    return 0;
}

int run_expose(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    struct ports ports;
    const char *protocol;
    if (!parse_container_ports(value, &ports, &protocol))
        return error_set(err, ERR_INVALID, "it takes PORT or a range of them, with /tcp, /udp or /sctp");
    for (int i = ports.first; i <= ports.last; i++) {
        char port[16];
        snprintf(port, sizeof(port), "%d/%s", i, protocol);
        expose(r, port);
    }
    return 0;
}

/* ---- names and addresses ---- */

/* NAME:ADDRESS or NAME=ADDRESS; the engine takes the colon only, and no brackets. */
int run_add_host(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    const char *sign = strchr(value, '=');
    if (!sign)
        sign = strchr(value, ':');
    _cleanup_(cleanup_free) char *name = sign ? xstrndup(value, (size_t)(sign - value)) : xstrdup("");
    _cleanup_(cleanup_free) char *address = xstrdup(sign ? sign + 1 : "");
    size_t n = strlen(address);
    if (n > 2 && address[0] == '[' && address[n - 1] == ']') {
        memmove(address, address + 1, n - 2);
        address[n - 2] = '\0';
    }
    if (!*name || strchr(name, ':') || (strcmp(address, "host-gateway") != 0 && !is_address(address)))
        return error_set(err, ERR_INVALID, "it takes NAME:ADDRESS, an IP address or host-gateway");
    _cleanup_(cleanup_free) char *entry = xasprintf("%s:%s", name, address);
    run_append(r->body, f->place, json_string(entry));
    return 0;
}

int run_dns(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    _cleanup_(cleanup_free) char *address = str_trim(value);
    if (!is_address(address))
        return error_set(err, ERR_INVALID, "not an IP address");
    return run_list(r, f, address, err);
}

/* A domain: labels of letters, digits and inner dashes; a dot alone is none at all. */
int run_dns_search(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    _cleanup_(cleanup_free) char *domain = str_trim(value);
    size_t n = strlen(domain);
    if (n > 1 && domain[n - 1] == '.')
        domain[--n] = '\0';
    bool sound = n > 0 && n < 255, has_letter = false;
    for (size_t i = 0; i < n; i++) {
        bool inner = i > 0 && domain[i - 1] != '.' && i + 1 < n && domain[i + 1] != '.';
        has_letter = has_letter || isalpha((unsigned char)domain[i]);
        sound =
            sound && (isalnum((unsigned char)domain[i]) || ((domain[i] == '-' || domain[i] == '.') && inner));
    }
    if (strcmp(domain, ".") != 0 && !(sound && has_letter))
        return error_set(err, ERR_INVALID, "not a domain");
    return run_list(r, f, domain, err);
}

static bool is_mac(const char *text)
{
    for (int i = 0; i < 6; i++, text += 3)
        if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]) ||
            (i < 5 ? text[2] != ':' && text[2] != '-' : text[2] != '\0'))
            return false;
    return true;
}

int run_mac(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    if (!is_mac(value))
        return error_set(err, ERR_INVALID, "not a MAC address; it takes such as 92:d0:c6:0a:29:33");
    return run_string(r, f, value, err);
}

/* ---- networks ---- */

/* While flags are read, the body has them as a list at WAITING: {"Name":..., "Endpoint":{...}}, and what
 * --ip and its like say of the first network at FIRST. */
#define WAITING "Networks"
#define FIRST "FirstNetwork"

/* Whether it is a network with a name of its own, rather than one of the engine's modes. */
static bool is_user_defined(const char *name)
{
    static const char *const modes[] = {"default", "bridge",  "host",        "none",
                                        "nat",     "private", "slirp4netns", "pasta"};
    for (size_t i = 0; i < ARRAY_LEN(modes); i++)
        if (strncmp(name, modes[i], strcspn(name, ":")) == 0 && strcspn(name, ":") == strlen(modes[i]))
            return false;
    return !str_has_prefix(name, "container:") && !str_has_prefix(name, "ns:");
}

static int endpoint_address(json_t *endpoint, const char *member, const char *address, struct error *err)
{
    if (!is_address(address))
        return error_set(err, ERR_INVALID, "'%s' is not an IP address", address);
    _cleanup_(cleanup_free) char *place = xasprintf("IPAMConfig.%s", member);
    if (strcmp(member, "LinkLocalIPs") == 0)
        run_append(endpoint, place, json_string(address));
    else
        run_put(endpoint, place, json_string(address));
    return 0;
}

static int network_driver_option(json_t *endpoint, const char *value, struct error *err)
{
    _cleanup_(cleanup_free) char *name = NULL;
    const char *rest, *member;
    if (!run_cut(value, &name, &rest) || !*name)
        return error_set(err, ERR_INVALID, "driver-opt takes NAME=VALUE");
    json_object_set_new(run_place(endpoint, "DriverOpts.", &member), name, json_string(rest));
    return 0;
}

/* One KEY=VALUE of the long form. */
static int network_field(json_t *network, const char *key, const char *value, struct error *err)
{
    const char *member;
    json_t *endpoint = run_place(network, "Endpoint.", &member);
    int64_t priority;
    if (strcmp(key, "name") == 0) {
        run_put(network, "Name", json_string(value));
    } else if (strcmp(key, "alias") == 0) {
        run_append(endpoint, "Aliases", json_string(value));
    } else if (strcmp(key, "ip") == 0) {
        return endpoint_address(endpoint, "IPv4Address", value, err);
    } else if (strcmp(key, "ip6") == 0) {
        return endpoint_address(endpoint, "IPv6Address", value, err);
    } else if (strcmp(key, "link-local-ip") == 0) {
        return endpoint_address(endpoint, "LinkLocalIPs", value, err);
    } else if (strcmp(key, "driver-opt") == 0) {
        return network_driver_option(endpoint, value, err);
    } else if (strcmp(key, "mac-address") == 0 && is_mac(value)) {
        run_put(endpoint, "MacAddress", json_string(value));
    } else if (strcmp(key, "gw-priority") == 0 && str_parse_i64(value, &priority)) {
        run_put(endpoint, "GwPriority", json_integer(priority));
    } else {
        return error_set(
            err, ERR_INVALID,
            "'%s=%s' can't be; there are name, alias, ip, ip6, link-local-ip, mac-address, driver-opt "
            "and gw-priority",
            key, value);
    }
    return 0;
}

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The CLI takes the long form wherever an equals sign stands between letters. */
static bool is_long_form(const char *value)
{
    const char *equals = strchr(value, '=');
    return equals && equals > value && is_word_char(equals[-1]) && is_word_char(equals[1]);
}

static int network_of_pairs(json_t *network, const char *value, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *fields = run_csv(value, err);
    size_t i;
    const json_t *field;
    if (!fields)
        return -1;
    json_array_foreach (fields, i, field) {
        _cleanup_(cleanup_free) char *key = NULL;
        const char *rest;
        run_cut(json_string_value(field), &key, &rest);
        if (network_field(network, key, rest, err) < 0)
            return -1;
    }
    return 0;
}

int run_network(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *network = json_object();
    if (!is_long_form(value))
        json_object_set_new(network, "Name", json_string(value));
    else if (network_of_pairs(network, value, err) < 0)
        return -1;
    const char *name = json_get_string(network, "Name");
    if (!name || !*name)
        return error_set(err, ERR_INVALID, "it needs the name of a network");
    const json_t *waiting = json_object_get(r->body, WAITING);
    size_t i;
    const json_t *other;
    json_array_foreach (waiting, i, other) {
        if (strcmp(json_get_string(other, "Name"), name) == 0)
            return error_set(err, ERR_INVALID, "the network '%s' is there twice", name);
    }
    run_append(r->body, WAITING, TAKE_PTR(network));
    return 0;
}

/* --ip, --ip6, --link-local-ip */
int run_endpoint_ip(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    const char *member;
    return endpoint_address(run_place(r->body, FIRST ".", &member), f->place, value, err);
}

/* --network-alias */
int run_endpoint_list(struct run *r, const struct run_flag *f, const char *value, struct error *err)
{
    const char *member;
    run_append(run_place(r->body, FIRST ".", &member), f->place, json_string(value));
    return 0;
}

/* The first network's endpoint takes what was said outside of --network; saying it twice is an error. */
static int join_first(json_t *network, json_t *first, struct error *err)
{
    const char *name = json_get_string(network, "Name"), *member, *key;
    json_t *value;
    if (json_object_size(first) > 0 && !is_user_defined(name))
        return error_set(err, ERR_INVALID,
                         ASKED "--ip, --ip6, --link-local-ip and --network-alias need --network with a "
                               "network of your own; '%s' has none of these",
                         name);
    json_t *endpoint = run_place(network, "Endpoint.", &member);
    json_object_foreach (first, key, value) {
        if (json_object_get(endpoint, key))
            return error_set(err, ERR_INVALID, ASKED "%s of the network '%s' is there twice", key, name);
        json_object_set(endpoint, key, value);
    }
    return 0;
}

/* Links are of the container; on a network of one's own they are of the endpoint, too. */
static void join_links(const struct run *r, json_t *network)
{
    const json_t *links = run_given(r, "link");
    size_t i;
    json_t *link;
    if (!is_user_defined(json_get_string(network, "Name")))
        return;
    json_array_foreach (links, i, link) {
        run_append(network, "Endpoint.Links", json_incref(link));
    }
}

int run_settle_networks(struct run *r, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *networks = json_incref(json_object_get(r->body, WAITING));
    _cleanup_(cleanup_json_decref) json_t *first = json_incref(json_object_get(r->body, FIRST));
    json_object_del(r->body, WAITING);
    json_object_del(r->body, FIRST);
    json_t *network = json_array_get(networks, 0);
    if (!network) {
        _cleanup_(cleanup_json_decref) json_t *none = json_pack("{s:s}", "Name", "default");
        return join_first(none, first, err);
    }
    if (join_first(network, first, err) < 0)
        return -1;
    join_links(r, network);
    run_put(r->body, "HostConfig.NetworkMode", json_string(json_get_string(network, "Name")));

    size_t i, modes = 0, count = json_array_size(networks);
    json_array_foreach (networks, i, network) {
        const char *name = json_get_string(network, "Name"), *member;
        json_t *endpoint = json_object_get(network, "Endpoint");
        modes += !is_user_defined(name);
        if (count > 1 || json_object_size(endpoint) > 0)
            json_object_set_new(run_place(r->body, "NetworkingConfig.EndpointsConfig.", &member), name,
                                endpoint ? json_incref(endpoint) : json_object());
    }
    if (modes > 0 && modes < count)
        return error_set(err, ERR_INVALID,
                         ASKED "a container can't join networks of its own and a mode "
                               "such as bridge, host or none at once");
    return 0;
}
