/* Runs a fuzz target over the files of a folder, without libFuzzer: a corpus as an ordinary test. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_input(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* The file's bytes in memory of exactly their size, so that a read past the end is seen. */
static uint8_t *read_whole(int folder, const char *name, size_t *ret_size)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    struct stat st;
    uint8_t *data = fd >= 0 && fstat(fd, &st) == 0 ? malloc(st.st_size > 0 ? (size_t)st.st_size : 1) : NULL;
    if (data && read(fd, data, (size_t)st.st_size) != st.st_size) {
        free(data);
        data = NULL;
    }
    if (data)
        *ret_size = (size_t)st.st_size;
    if (fd >= 0)
        close(fd);
    return data;
}

int main(int argc, char **argv)
{
    struct dirent **inputs = NULL;
    int folder = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int count = folder >= 0 ? scandir(argv[1], &inputs, is_input, alphasort) : -1;
    if (count <= 0) {
        fprintf(stderr, "usage: %s FOLDER, with at least one file in it\n", argv[0]);
        return 2;
    }
    int unread = 0;
    for (int i = 0; i < count; i++) {
        size_t size = 0;
        uint8_t *data = read_whole(folder, inputs[i]->d_name, &size);
        printf("%s%s\n", inputs[i]->d_name, data ? "" : ": can't be read");
        fflush(stdout); /* the last line names the file that a crash came from */
        if (data)
            LLVMFuzzerTestOneInput(data, size);
        else
            unread++;
        free(data);
        free(inputs[i]);
    }
    free(inputs);
    close(folder);
    return unread > 0;
}
