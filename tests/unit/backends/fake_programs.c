/* See fake_programs.h. */
#include "fake_programs.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"

static void write_pid(const char *folder)
{
    char path[256], text[32];
    snprintf(path, sizeof(path), "%s/pid", folder);
    int n = snprintf(text, sizeof(text), "%d", (int)getpid());
    _cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || fd_write_all(fd, text, (size_t)n) < 0)
        exit(3);
}

/* Answers each HEAD, and gives back all else, until the end of input. What is sent to it comes in one piece.
 */
static void echo(int in, int out)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\n\r\n";
    char bytes[4096];
    for (ssize_t n; (n = read(in, bytes, sizeof(bytes))) > 0;) {
        bool head = n > 5 && memcmp(bytes, "HEAD ", 5) == 0;
        if (fd_write_all(out, head ? answer : bytes, head ? strlen(answer) : (size_t)n) < 0)
            return;
    }
}

static int engine(const char *last)
{
    echo(STDIN_FILENO, STDOUT_FILENO);
    return 0;
}

static int stubborn_engine(const char *last)
{
    echo(STDIN_FILENO, STDOUT_FILENO);
    return pause();
}

static int listen_at(const char *url)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", url + strlen("unix://"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 8) < 0)
        exit(5);
    return fd;
}

/* Ends when its first connection does; until then, each has a process. */
static int service(const char *last)
{
    if (getenv("NOTIFY_SOCKET") || getenv("LISTEN_FDS")) /* not meant for it */
        return 4;
    int listening = listen_at(last);
    pid_t first = -1;
    for (;;) {
        struct pollfd p[] = {{.fd = listening, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
        p[1].fd = first < 0 ? -1 : pidfd_open(first, 0);
        if (poll(p, ARRAY_LEN(p), -1) < 0 || p[1].revents)
            return 0;
        fd_close(p[1].fd);
        _cleanup_fd_ int connection = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        pid_t child = fork();
        if (child == 0) {
            echo(connection, connection);
            _exit(0);
        }
        first = first < 0 ? child : first;
    }
}

static int flood(const char *last)
{
    for (int i = 0; i < 100000; i++)
        fprintf(stderr, "debug1: nothing in particular\n");
    fprintf(stderr, "the last words\n");
    return 255;
}

static int talkative_service(const char *last)
{
    struct stat told;
    flood(last);
    return fstat(STDERR_FILENO, &told) == 0 && told.st_size <= 64 * 1024 ? service(last) : 7;
}

static int refused(const char *last)
{
    fprintf(stderr, "me@host: Permission denied (publickey).\r\n");
    return 255;
}

static int silent(const char *last)
{
    return 1;
}

static int chatty(const char *last)
{
    printf("Welcome to host!\n");
    return 0;
}

static int stuck(const char *last)
{
    fprintf(stderr, "connecting\n");
    return pause();
}

int fake_program_run(int argc, char **argv)
{
    static const struct {
        const char *role;
        int (*run)(const char *last_argument);
    } roles[] = {{"engine", engine},   {"stubborn-engine", stubborn_engine},
                 {"service", service}, {"talkative", talkative_service},
                 {"refused", refused}, {"silent", silent},
                 {"chatty", chatty},   {"flood", flood},
                 {"stuck", stuck}};
    write_pid(argv[2]);
    for (size_t i = 0; i < ARRAY_LEN(roles); i++)
        if (strcmp(roles[i].role, argv[1]) == 0)
            return roles[i].run(argv[argc - 1]);
    return 2;
}
