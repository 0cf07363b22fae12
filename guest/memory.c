/* Memory that comes and goes: see memory.h. */
#include "guest/memory.h"

#include <sys/mman.h>

void *memory_take(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    memory_share(memory, size, false);
    return memory;
}

void *memory_give(void *memory, size_t size)
{
    if (memory)
        munmap(memory, size);
    return NULL;
}

void *memory_grow(void *memory, size_t size, size_t new_size)
{
    if (!memory)
        return memory_take(new_size);
    void *grown = mremap(memory, size, new_size, MREMAP_MAYMOVE);
    return grown == MAP_FAILED ? NULL : grown;
}

void memory_share(void *memory, size_t size, bool share)
{
    madvise(memory, size, share ? MADV_DOFORK : MADV_DONTFORK);
}
