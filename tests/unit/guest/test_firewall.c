/* The firewall, in namespaces of our own: "inside" is a container's, "outside" all that lies beyond its one
 * link, which is the gateway, the metadata services and the rest of the world at once. Sockets stay in the
 * namespace that they were made in, so one process plays both sides. Nothing here waits for a packet that
 * doesn't come: what is closed is refused by the kernel at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/capability.h>

#include "base/macros.h"
#include "guest/firewall.h"
#include "tests/skip.h"

#define PORT_WEB 80
#define PORT_DNS 53
#define GATEWAY "10.77.0.1"
#define GATEWAY6 "fd77::1"
#define INSIDE "10.77.0.2"
#define INSIDE6 "fd77::2"

#define BOUND_S 20 /* on what should come at once, so that a defect is a failure rather than a hang */

static int inside = -1, outside = -1;
static int servers[8];
static unsigned server_count;
static const char *obstacle;

/* What lies beyond the gateway, all of it answering on both ports. */
static const char *const beyond[] = {"169.254.169.254/32", "169.254.170.2/32", "100.100.100.200/32",
                                     "168.63.129.16/32",   "192.0.0.192/32",   "192.168.65.254/32",
                                     "10.88.0.9/32",       "10.88.0.53/32",    "fd00:ec2::254/128",
                                     "fd20:ce::254/128",   "fd88::9/128",      "fd88::53/128"};

static void enter(int namespace)
{
    assert_int_equal(setns(namespace, CLONE_NEWNET), 0);
}

static void shell(int namespace, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void shell(int namespace, const char *format, ...)
{
    char text[256];
    enter(namespace);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (system(text) != 0)
        fail_msg("%s", text);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* --- sockets ------------------------------------------------------------------------------------------- */

static socklen_t address_make(const char *text, uint16_t port, struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof(*ret));
    char host[64];
    snprintf(host, sizeof(host), "%.*s", (int)strcspn(text, "%"), text);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, host, &four.sin_addr) == 1) {
        memcpy(ret, &four, sizeof(four));
        return sizeof(four);
    }
    assert_int_equal(inet_pton(AF_INET6, host, &six.sin6_addr), 1);
    if (strchr(text, '%'))
        six.sin6_scope_id = (uint32_t)atoi(strchr(text, '%') + 1);
    memcpy(ret, &six, sizeof(six));
    return sizeof(six);
}

static int socket_in(int namespace, int family, int type)
{
    enter(namespace);
    int fd = socket(family, type | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    const struct timeval bound = {.tv_sec = BOUND_S};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound)), 0);
    return fd;
}

static int listen_at(int namespace, const char *text, uint16_t port, int type)
{
    struct sockaddr_storage address;
    socklen_t size = address_make(text, port, &address);
    int fd = socket_in(namespace, address.ss_family, type);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    if (type == SOCK_STREAM)
        assert_int_equal(listen(fd, 128), 0);
    assert_true(server_count < ARRAY_LEN(servers));
    servers[server_count++] = fd;
    return fd;
}

/* 0, or why there is no connection. */
static int connect_from(int namespace, const char *text, uint16_t port)
{
    struct sockaddr_storage address;
    socklen_t size = address_make(text, port, &address);
    int fd = socket_in(namespace, address.ss_family, SOCK_STREAM);
    int done = connect(fd, (struct sockaddr *)&address, size) < 0 ? errno : 0;
    close(fd);
    return done;
}

/* 0, or why the datagram isn't sent. */
static int send_from(int namespace, const char *text, uint16_t port)
{
    struct sockaddr_storage address;
    const int on = 1;
    socklen_t size = address_make(text, port, &address);
    int fd = socket_in(namespace, address.ss_family, SOCK_DGRAM);
    setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
    int done = sendto(fd, "hello", 5, 0, (struct sockaddr *)&address, size) < 0 ? errno : 0;
    close(fd);
    return done;
}

static bool open_to(const char *text, uint16_t port)
{
    return connect_from(inside, text, port) == 0 && send_from(inside, text, port) == 0;
}

/* By the firewall: all that is tried has somebody who listens, and nobody else forbids to send. */
static bool closed_to(const char *text, uint16_t port)
{
    return connect_from(inside, text, port) == ECONNREFUSED && send_from(inside, text, port) == EPERM;
}

/* --- the world ----------------------------------------------------------------------------------------- */

static int namespace_make(void)
{
    if (unshare(CLONE_NEWNET) < 0)
        return -1;
    int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    shell(fd, "ip link set lo up");
    return fd;
}

/* Files of /etc that the firewall reads can be written once it is a file system of ours. */
static const char *find_obstacle(void)
{
    if (geteuid() != 0)
        return "needs root, for network namespaces";
    if (system("command -v ip >/dev/null 2>&1") != 0)
        return "needs ip(8)";
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", "/etc", "tmpfs", 0, NULL) < 0)
        return "needs a mount namespace";
    int fd = namespace_make();
    if (fd < 0)
        return "needs a network namespace";
    struct guest_error err;
    int done = firewall_close(&err);
    close(fd);
    if (done < 0 && strcmp(err.stage, "set firewall rules") == 0 &&
        (err.sys == EPROTONOSUPPORT || err.sys == EOPNOTSUPP || err.sys == ENOENT))
        return "needs nf_tables, conntrack and reject in the kernel";
    return NULL;
}

static void listen_outside(void)
{
    static const uint16_t ports[] = {PORT_WEB, PORT_DNS};
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
    for (size_t i = 0; i < ARRAY_LEN(ports); i++)
        for (size_t j = 0; j < ARRAY_LEN(types); j++)
            listen_at(outside, "::", ports[i], types[j]);
}

/* A bridge network, with both families. */
static int world_make(void **state)
{
    if (obstacle)
        return 0;
    outside = namespace_make();
    for (size_t i = 0; i < ARRAY_LEN(beyond); i++)
        shell(outside, "ip address add %s dev lo", beyond[i]);
    inside = namespace_make();
    shell(inside, "ip link add eth0 type veth peer name bridge0 netns /proc/%d/fd/%d", getpid(), outside);
    shell(inside,
          "ip address add " INSIDE "/24 brd + dev eth0 && ip address add " INSIDE6 "/64 dev eth0 nodad");
    shell(outside, "ip address add " GATEWAY "/24 brd + dev bridge0 && ip address add " GATEWAY6
                   "/64 dev bridge0 nodad");
    shell(outside, "ip address add fe80::b/64 dev bridge0 nodad && ip link set bridge0 up");
    shell(inside, "ip address add fe80::2/64 dev eth0 nodad && ip link set eth0 up");
    shell(inside, "ip route add default via " GATEWAY " && ip route add default via " GATEWAY6);
    listen_outside();
    write_file("/etc/hosts", "127.0.0.1 localhost\n");
    write_file("/etc/resolv.conf", "nameserver 10.88.0.53\n");
    return 0;
}

static int world_end(void **state)
{
    if (obstacle)
        return 0;
    while (server_count > 0)
        close(servers[--server_count]);
    close(inside);
    close(outside);
    inside = outside = -1;
    return 0;
}

static unsigned eth0_index(void)
{
    enter(inside);
    return if_nametoindex("eth0");
}

static void close_firewall(void)
{
    struct guest_error err = {0};
    enter(inside);
    if (firewall_close(&err) < 0)
        fail_msg("%s: %s %s", err.stage, strerror(err.sys), err.text);
}

#define NEEDS_WORLD                                                                                          \
    if (obstacle)                                                                                            \
    skip_because(obstacle)

/* --- what is closed ------------------------------------------------------------------------------------ */

static void test_metadata_is_closed(void **state)
{
    static const char *const metadata[] = {"169.254.169.254", "169.254.170.2", "100.100.100.200",
                                           "168.63.129.16",   "192.0.0.192",   "192.168.65.254",
                                           "fd00:ec2::254",   "fd20:ce::254"};
    NEEDS_WORLD;
    for (size_t i = 0; i < ARRAY_LEN(metadata); i++)
        assert_true(open_to(metadata[i], PORT_WEB));
    close_firewall();
    for (size_t i = 0; i < ARRAY_LEN(metadata); i++) {
        assert_true(closed_to(metadata[i], PORT_WEB));
        assert_true(closed_to(metadata[i], PORT_DNS));
    }
    assert_true(closed_to("::ffff:169.254.169.254", PORT_WEB));
}

static void test_the_gateway_is_closed(void **state)
{
    char link_local[32];
    NEEDS_WORLD;
    snprintf(link_local, sizeof(link_local), "fe80::b%%%u", eth0_index());
    const char *const gateways[] = {GATEWAY, GATEWAY6, link_local};
    for (size_t i = 0; i < ARRAY_LEN(gateways); i++)
        assert_true(open_to(gateways[i], PORT_WEB) && open_to(gateways[i], PORT_DNS));
    close_firewall();
    for (size_t i = 0; i < ARRAY_LEN(gateways); i++)
        assert_true(closed_to(gateways[i], PORT_WEB) && closed_to(gateways[i], PORT_DNS));
}

static void test_all_at_once_is_closed(void **state)
{
    char all_nodes[32];
    NEEDS_WORLD;
    snprintf(all_nodes, sizeof(all_nodes), "ff02::1%%%u", eth0_index());
    const char *const groups[] = {"255.255.255.255", "10.77.0.255", "224.0.0.1", all_nodes};
    for (size_t i = 0; i < ARRAY_LEN(groups); i++)
        assert_int_equal(send_from(inside, groups[i], PORT_WEB), 0);
    close_firewall();
    for (size_t i = 0; i < ARRAY_LEN(groups); i++)
        assert_int_equal(send_from(inside, groups[i], PORT_WEB), EPERM);
}

static void test_every_kind_of_gateway_is_closed(void **state)
{
    static const char *const gateways[] = {"10.77.0.11", "10.77.0.12", "fd77::98", "fd77::97"};
    NEEDS_WORLD;
    shell(outside, "ip address add 10.77.0.11 dev bridge0 && ip address add 10.77.0.12 dev bridge0");
    shell(outside, "for i in 97 98; do ip address add fd77::$i dev bridge0 nodad || exit; done");
    shell(inside, "ip route add 10.99.0.0/24 nexthop via 10.77.0.11 nexthop via 10.77.0.12");
    shell(inside, "ip route add 10.98.0.0/24 via inet6 fd77::98");
    shell(inside, "ip route add fd97::/64 via fd77::97 table 97");
    for (size_t i = 0; i < ARRAY_LEN(gateways); i++)
        assert_true(open_to(gateways[i], PORT_WEB));
    close_firewall();
    for (size_t i = 0; i < ARRAY_LEN(gateways); i++)
        assert_true(closed_to(gateways[i], PORT_WEB));
}

/* The engine's machine is on the bridge of a network without a way out as well. */
static void test_the_bridge_of_an_internal_network_is_closed(void **state)
{
    NEEDS_WORLD;
    shell(inside, "ip route del default && ip -6 route del default");
    assert_true(open_to(GATEWAY, PORT_WEB) && open_to(GATEWAY6, PORT_WEB));
    close_firewall();
    assert_true(closed_to(GATEWAY, PORT_WEB) && closed_to(GATEWAY6, PORT_WEB));
}

static void test_the_first_address_is_open_where_it_is_not_the_gateway(void **state)
{
    NEEDS_WORLD;
    shell(outside, "ip address add 10.77.0.254/24 dev bridge0");
    shell(inside, "ip route replace default via 10.77.0.254");
    close_firewall();
    assert_true(closed_to("10.77.0.254", PORT_WEB));
    assert_true(open_to(GATEWAY, PORT_WEB));
}

static void test_names_of_the_engines_machine_are_closed(void **state)
{
    NEEDS_WORLD;
    write_file("/etc/hosts", "127.0.0.1 localhost\n10.88.0.9\tother host.docker.internal # named\n"
                             "fd88::9 host.containers.internal\n10.88.0.53 xhost.docker.internal\n");
    assert_true(open_to("10.88.0.9", PORT_WEB) && open_to("fd88::9", PORT_WEB));
    close_firewall();
    assert_true(closed_to("10.88.0.9", PORT_WEB) && closed_to("fd88::9", PORT_WEB));
    assert_true(open_to("10.88.0.53", PORT_WEB));
}

/* --- what stays open ----------------------------------------------------------------------------------- */

static void test_a_resolver_is_open_for_dns_alone(void **state)
{
    NEEDS_WORLD;
    write_file("/etc/resolv.conf",
               "search example.org\nnameserver " GATEWAY "\nnameserver  " GATEWAY6 "%eth0\n");
    close_firewall();
    assert_true(open_to(GATEWAY, PORT_DNS) && open_to(GATEWAY6, PORT_DNS));
    assert_true(closed_to(GATEWAY, PORT_WEB) && closed_to(GATEWAY6, PORT_WEB));
    assert_true(closed_to("169.254.169.254", PORT_DNS));
}

/* Docker's resolver runs in the container's namespace, so what it asks passes the firewall too. */
static void test_whom_dockers_resolver_asks_is_open(void **state)
{
    NEEDS_WORLD;
    write_file("/etc/resolv.conf",
               "nameserver 127.0.0.11\n# ExtServers: [host(10.77.0.1) 169.254.169.254 fd00:ec2::254]\n");
    close_firewall();
    assert_true(open_to("169.254.169.254", PORT_DNS) && open_to("fd00:ec2::254", PORT_DNS));
    assert_true(closed_to("169.254.169.254", PORT_WEB) && closed_to("fd00:ec2::254", PORT_WEB));
    assert_true(closed_to(GATEWAY, PORT_DNS));
}

/* Even when both sides must first find each other again. */
static void test_the_rest_of_the_world_is_open(void **state)
{
    NEEDS_WORLD;
    close_firewall();
    for (unsigned i = 0; i < 2; i++) {
        assert_true(open_to("10.88.0.9", PORT_WEB) && open_to("fd88::9", PORT_WEB));
        shell(inside, "ip neigh flush all");
        shell(outside, "ip neigh flush all");
    }
}

static void test_who_calls_in_is_answered(void **state)
{
    NEEDS_WORLD;
    listen_at(inside, "::", PORT_WEB, SOCK_STREAM);
    int server = listen_at(inside, "::", PORT_WEB, SOCK_DGRAM);
    close_firewall();
    assert_int_equal(connect_from(outside, INSIDE, PORT_WEB), 0);
    assert_int_equal(connect_from(outside, INSIDE6, PORT_WEB), 0);
    assert_int_equal(send_from(outside, INSIDE, PORT_WEB), 0);
    struct sockaddr_storage caller;
    socklen_t size = sizeof(caller);
    char text[8];
    assert_int_equal(recvfrom(server, text, sizeof(text), 0, (struct sockaddr *)&caller, &size), 5);
    assert_int_equal(sendto(server, text, 5, 0, (struct sockaddr *)&caller, size), 5);
    assert_true(closed_to(GATEWAY, PORT_WEB));
}

static void test_loopback_is_open(void **state)
{
    static const char *const own[] = {"127.0.0.1", "127.0.0.11", "::1", INSIDE, INSIDE6, "169.254.7.7"};
    NEEDS_WORLD;
    shell(inside, "ip address add 169.254.7.7/32 dev lo");
    listen_at(inside, "::", PORT_WEB, SOCK_STREAM);
    close_firewall();
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        assert_true(open_to(own[i], PORT_WEB));
}

/* --- how it is made ------------------------------------------------------------------------------------ */

static void test_once_more_replaces_it(void **state)
{
    NEEDS_WORLD;
    write_file("/etc/resolv.conf", "nameserver " GATEWAY "\n");
    close_firewall();
    close_firewall();
    assert_true(open_to(GATEWAY, PORT_DNS) && closed_to(GATEWAY, PORT_WEB) && open_to("10.88.0.9", PORT_WEB));
    write_file("/etc/resolv.conf", "nameserver 10.88.0.53\n");
    close_firewall();
    assert_true(closed_to(GATEWAY, PORT_DNS) && closed_to(GATEWAY, PORT_WEB) &&
                open_to("10.88.0.9", PORT_WEB));
}

static void set_net_admin(bool on)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    const uint32_t bit = 1U << CAP_NET_ADMIN;
    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    data[0].effective = on ? data[0].effective | bit : data[0].effective & ~bit;
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void test_without_the_capability_it_says_so(void **state)
{
    struct guest_error err = {0};
    NEEDS_WORLD;
    set_net_admin(false);
    int done = firewall_close(&err);
    set_net_admin(true);
    assert_int_equal(done, -1);
    assert_string_equal(err.stage, "set firewall rules");
    assert_int_equal(err.sys, EPERM);
    assert_true(open_to(GATEWAY, PORT_WEB));
}

static void test_more_routes_than_fit_are_a_failure_that_closes_nothing(void **state)
{
    struct guest_error err = {0};
    NEEDS_WORLD;
    shell(inside, "for i in $(seq 100 140); do ip route add 10.99.$i.0/24 via 10.77.0.$i || exit; done");
    assert_int_equal(firewall_close(&err), -1);
    assert_string_equal(err.stage, "list routes");
    assert_int_equal(err.sys, E2BIG);
    assert_true(open_to(GATEWAY, PORT_WEB));
}

static void test_it_works_without_ipv6(void **state)
{
    NEEDS_WORLD;
    shell(inside, "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6");
    close_firewall();
    assert_true(closed_to(GATEWAY, PORT_WEB) && open_to("10.88.0.9", PORT_WEB));
}

static void test_it_works_without_a_network(void **state)
{
    NEEDS_WORLD;
    shell(inside, "ip link del eth0 && ip link set lo down");
    close_firewall();
}

/* --- files that no engine writes ----------------------------------------------------------------------- */

static void still_closes(void)
{
    close_firewall();
    assert_true(closed_to(GATEWAY, PORT_WEB) && closed_to(GATEWAY, PORT_DNS));
    assert_true(closed_to("169.254.169.254", PORT_WEB) && open_to("10.88.0.9", PORT_WEB));
}

static void test_nonsense_in_files_opens_nothing(void **state)
{
    static const char *const nonsense[] = {"",
                                           "\n\n",
                                           "nameserver",
                                           "nameserver\n",
                                           "nameserver 10.77.0.1.5\n",
                                           "nameserver 10.77.0.1/24\n",
                                           "nameserver 0x0a4d0001\n",
                                           "name server 10.77.0.1\n",
                                           " [ ] %\nnameserver %\nnameserver %10.77.0.1\n",
                                           "# ExtServers: [[[]]] host(10.77.0.1)\n",
                                           "\377\376nameserver 10.77.0.1\n",
                                           "#nameserver 10.77.0.1\n"};
    NEEDS_WORLD;
    for (size_t i = 0; i < ARRAY_LEN(nonsense); i++) {
        write_file("/etc/resolv.conf", nonsense[i]);
        write_file("/etc/hosts", nonsense[i]);
        still_closes();
    }
}

static void test_a_ninth_resolver_is_left_out(void **state)
{
    char text[1024] = "";
    NEEDS_WORLD;
    for (unsigned i = 1; i <= 8; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "nameserver 10.66.0.%u\n", i);
    strcat(text, "nameserver " GATEWAY "\n");
    write_file("/etc/resolv.conf", text);
    still_closes();
}

static void test_a_file_is_read_so_far_and_no_further(void **state)
{
    NEEDS_WORLD;
    shell(inside,
          "(yes '# nothing' | head -c 1048576; echo; echo nameserver " GATEWAY ") > /etc/resolv.conf");
    still_closes();
    shell(inside, "head -c 1048576 /dev/zero > /etc/hosts");
    still_closes();
}

static void test_what_is_no_file_is_not_waited_for(void **state)
{
    NEEDS_WORLD;
    shell(inside, "rm /etc/resolv.conf /etc/hosts && mkfifo /etc/resolv.conf && mkdir /etc/hosts");
    still_closes();
    shell(inside,
          "rm /etc/resolv.conf && rmdir /etc/hosts && ln -s /dev/zero /etc/resolv.conf && ln -s hosts "
          "/etc/hosts");
    still_closes();
    shell(inside, "rm /etc/resolv.conf /etc/hosts");
    still_closes();
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, world_make, world_end)

int main(void)
{
    obstacle = find_obstacle();
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_metadata_is_closed),
        WORLD_TEST(test_the_gateway_is_closed),
        WORLD_TEST(test_all_at_once_is_closed),
        WORLD_TEST(test_every_kind_of_gateway_is_closed),
        WORLD_TEST(test_the_bridge_of_an_internal_network_is_closed),
        WORLD_TEST(test_the_first_address_is_open_where_it_is_not_the_gateway),
        WORLD_TEST(test_names_of_the_engines_machine_are_closed),
        WORLD_TEST(test_a_resolver_is_open_for_dns_alone),
        WORLD_TEST(test_whom_dockers_resolver_asks_is_open),
        WORLD_TEST(test_the_rest_of_the_world_is_open),
        WORLD_TEST(test_who_calls_in_is_answered),
        WORLD_TEST(test_loopback_is_open),
        WORLD_TEST(test_once_more_replaces_it),
        WORLD_TEST(test_without_the_capability_it_says_so),
        WORLD_TEST(test_more_routes_than_fit_are_a_failure_that_closes_nothing),
        WORLD_TEST(test_it_works_without_ipv6),
        WORLD_TEST(test_it_works_without_a_network),
        WORLD_TEST(test_nonsense_in_files_opens_nothing),
        WORLD_TEST(test_a_ninth_resolver_is_left_out),
        WORLD_TEST(test_a_file_is_read_so_far_and_no_further),
        WORLD_TEST(test_what_is_no_file_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
