// Stands for the CUDA driver where there is no GPU: the calls that crates/cuda makes. Memory of its GPUs has addresses at which nothing is
// mapped, so who follows one dies. Work of a stream takes place later, in its own thread, and a copy in two halves: who does not wait, or
// relies on another order, is found out. Compiled by tests/gpu/standin.rs with
//   GPUS    how many there are
//   INIT    what cuInit says
//   MEMORY  bytes of each
//   LACKS   a device attribute that is 0
//   LOST    path: with the file LOST.N, GPU N is lost after as many further copies as it says, in the middle of the next one; with the file
//           LOST.N.once, one copy to GPU N is refused, and the file goes
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, UNAVAILABLE = 46, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, NOT_READY = 600 };
#define STEP (2 << 20)
#define MOST 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu { int context, lost, told; long copies, used; } gpus[8];
static struct allocation { int fd, gpu, references, ours; size_t bytes; int for_nics; } allocations[MOST];
static struct range { char *at, *behind; size_t bytes; struct allocation *allocation; } ranges[MOST];
static struct pinned { char *at; size_t bytes; } pinned[MOST];
static __thread struct gpu *current[8];
static __thread int depth;

struct event { long recorded, done; };
struct work { enum { COPY, WORD, FILL, EVENT } kind; char *to; const char *from, *rest; uint64_t value; size_t bytes; struct event *event; struct work *next; };
struct stream { struct gpu *gpu; struct work *first, **last; int ended; pthread_t thread; pthread_cond_t changed; };

static int is_lost(struct gpu *g) { return g->lost ? UNAVAILABLE : OK; }
static int here(void) { return depth == 0 ? INVALID_CONTEXT : is_lost(current[depth - 1]); }

// Whether the next copy is the one that is not done.
static void look(struct gpu *g) {
    char path[4096], text[32] = "";
    snprintf(path, sizeof path, "%s.%d", LOST, (int)(g - gpus));
    if (!g->told) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) return;
        if (read(fd, text, sizeof text - 1) < 0) text[0] = 0;
        close(fd);
        g->told = 1;
        g->copies = atol(text);
    }
}

static void *run(void *of) {
    struct stream *s = of;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct work *w = s->first;
        if (w == NULL) {
            if (s->ended) break;
            pthread_cond_wait(&s->changed, &lock);
            continue;
        }
        if (!s->gpu->lost) {
            look(s->gpu);
            int last = s->gpu->told && w->kind == COPY && s->gpu->copies-- <= 0;
            pthread_mutex_unlock(&lock);
            usleep(20);
            size_t half = w->bytes / 2;
            switch (w->kind) {
            case COPY:
                memcpy(w->to, w->from, half);
                if (!last) {
                    usleep(10);
                    memcpy(w->to + half, w->rest, w->bytes - half);
                }
                break;
            case WORD: __atomic_store_n((uint64_t *)w->to, w->value, __ATOMIC_RELEASE); break;
            case FILL: memset(w->to, (int)w->value, w->bytes); break;
            case EVENT: break;
            }
            pthread_mutex_lock(&lock);
            if (last) s->gpu->lost = 1;
            if (w->kind == EVENT) w->event->done = (long)w->value;
        }
        s->first = w->next;
        if (s->first == NULL) s->last = &s->first;
        free(w);
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int later(struct stream *s, struct work w) {
    struct work *own = malloc(sizeof *own);
    *own = w;
    own->next = NULL;
    *s->last = own;
    s->last = &own->next;
    pthread_cond_broadcast(&s->changed);
    return OK;
}

// What is behind an address of a GPU.
static char *behind(uint64_t address, size_t bytes) {
    for (struct range *r = ranges; r < ranges + MOST; ++r) {
        char *at = (char *)address;
        if (r->allocation != NULL && at >= r->at && at + bytes <= r->at + r->bytes) return r->behind + (at - r->at);
    }
    return NULL;
}
static int is_pinned(const char *at, size_t bytes) {
    for (struct pinned *p = pinned; p < pinned + MOST; ++p)
        if (p->at != NULL && at >= p->at && at + bytes <= p->at + p->bytes) return 1;
    return 0;
}

#define LOCKED(result) do { pthread_mutex_lock(&lock); int r_ = (result); pthread_mutex_unlock(&lock); return r_; } while (0)

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : INIT; }
int cuDeviceGetCount(int *count) { *count = GPUS; return OK; }
int cuGetErrorName(int error, const char **name) {
    *name = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : error == UNAVAILABLE ? "CUDA_ERROR_DEVICE_UNAVAILABLE" : "CUDA_ERROR_OF_TEST";
    return OK;
}
int cuDeviceGet(int *device, int number) { *device = number; return number < GPUS ? OK : INVALID_DEVICE; }
int cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "stand-in %d", device); return OK; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { memset(uuid, 0xa0, 16); uuid[15] = device; return OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == LACKS ? 0 : attribute == 118 ? 100 : 1; // 118: the order of NICs' writes
    return OK;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &gpus[device]; LOCKED((gpus[device].context++, OK)); }
int cuDevicePrimaryCtxRelease_v2(int device) { LOCKED((gpus[device].context--, OK)); }
int cuCtxPushCurrent_v2(void *context) {
    if (context == NULL || depth == 8) return INVALID_CONTEXT;
    current[depth++] = context;
    return OK;
}
int cuCtxPopCurrent_v2(void **context) {
    if (depth == 0) return INVALID_CONTEXT;
    *context = current[--depth];
    return OK;
}
int cuMemGetInfo_v2(size_t *unused, size_t *total) {
    *total = MEMORY;
    pthread_mutex_lock(&lock);
    int result = here();
    *unused = depth == 0 ? 0 : MEMORY - current[depth - 1]->used;
    pthread_mutex_unlock(&lock);
    return result;
}

struct properties { int type, handles, location, device; void *windows; unsigned char flags[8]; };
int cuMemGetAllocationGranularity(size_t *step, const struct properties *p, int option) {
    if (p->type != 1 || p->handles != 1 || p->location != 1 || option != 0) return INVALID_VALUE;
    *step = STEP;
    return OK;
}
static int allocated(uint64_t *handle, struct allocation made) {
    for (int i = 0; i < MOST; ++i)
        if (allocations[i].references == 0) {
            allocations[i] = made;
            *handle = i + 1;
            return OK;
        }
    return OUT_OF_MEMORY;
}
int cuMemCreate(uint64_t *handle, size_t bytes, const struct properties *p, unsigned long long flags) {
    if (bytes == 0 || bytes % STEP != 0 || flags != 0 || p->device >= GPUS) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct gpu *g = &gpus[p->device];
    int result = is_lost(g);
    if (result == OK && g->used + (long)bytes > MEMORY) result = OUT_OF_MEMORY;
    if (result == OK) {
        int fd = memfd_create("gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (ftruncate(fd, (off_t)bytes) != 0) abort();
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
        // Nobody has said that it is zeroed.
        char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        memset(at, 0xee, 65536);
        munmap(at, bytes);
        g->used += (long)bytes;
        result = allocated(handle, (struct allocation){fd, p->device, 1, 1, bytes, p->flags[1]});
    }
    pthread_mutex_unlock(&lock);
    return result;
}
static int forget(struct allocation *a) {
    if (--a->references == 0) {
        close(a->fd);
        if (a->ours) gpus[a->gpu].used -= (long)a->bytes;
    }
    return OK;
}
int cuMemRelease(uint64_t handle) { LOCKED(forget(&allocations[handle - 1])); }
int cuMemExportToShareableHandle(int *fd, uint64_t handle, int type, unsigned long long flags) {
    if (type != 1 || flags != 0) return INVALID_VALUE;
    *fd = fcntl(allocations[handle - 1].fd, F_DUPFD_CLOEXEC, 0);
    return OK;
}
int cuMemImportFromShareableHandle(uint64_t *handle, void *descriptor, int type) {
    int fd = fcntl((int)(uintptr_t)descriptor, F_DUPFD_CLOEXEC, 0);
    struct stat s;
    if (type != 1 || fd < 0 || fstat(fd, &s) != 0) return INVALID_VALUE;
    LOCKED(allocated(handle, (struct allocation){fd, 0, 1, 0, (size_t)s.st_size, 0}));
}
int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t wish, unsigned long long flags) {
    (void)alignment, (void)wish;
    char *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED || flags != 0) return OUT_OF_MEMORY;
    *address = (uint64_t)at;
    return OK;
}
int cuMemAddressFree(uint64_t address, size_t bytes) { return munmap((void *)address, bytes) == 0 ? OK : INVALID_VALUE; }
static int map(uint64_t address, size_t bytes, struct allocation *a) {
    if (bytes != a->bytes) return INVALID_VALUE;
    for (struct range *r = ranges; r < ranges + MOST; ++r)
        if (r->allocation == NULL) {
            char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
            a->references++;
            *r = (struct range){(char *)address, at, bytes, a};
            return OK;
        }
    return OUT_OF_MEMORY;
}
int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags) {
    if (offset != 0 || flags != 0) return INVALID_VALUE;
    LOCKED(map(address, bytes, &allocations[handle - 1]));
}
static int unmap(uint64_t address, size_t bytes) {
    for (struct range *r = ranges; r < ranges + MOST; ++r)
        if (r->allocation != NULL && r->at == (char *)address && r->bytes == bytes) {
            munmap(r->behind, bytes);
            forget(r->allocation);
            r->allocation = NULL;
            return OK;
        }
    return INVALID_VALUE;
}
int cuMemUnmap(uint64_t address, size_t bytes) { LOCKED(unmap(address, bytes)); }
int cuMemSetAccess(uint64_t address, size_t bytes, const int *rights, size_t count) {
    LOCKED(count == 1 && rights[0] == 1 && rights[2] == 3 && behind(address, bytes) != NULL ? OK : INVALID_VALUE);
}
static int dma_buf(int *fd, uint64_t address, size_t bytes) {
    if (here() != OK) return here();
    for (struct range *r = ranges; r < ranges + MOST; ++r)
        if (r->allocation != NULL && r->at == (char *)address && r->bytes == bytes && r->allocation->for_nics) {
            *fd = fcntl(r->allocation->fd, F_DUPFD_CLOEXEC, 0);
            return OK;
        }
    return INVALID_VALUE;
}
int cuMemGetHandleForAddressRange(int *fd, uint64_t address, size_t bytes, int type, unsigned long long flags) {
    if (type != 1 || flags != 0) return INVALID_VALUE;
    LOCKED(dma_buf(fd, address, bytes));
}
static int pin(char **at, size_t bytes) {
    if (here() != OK) return here();
    for (struct pinned *p = pinned; p < pinned + MOST; ++p)
        if (p->at == NULL) {
            *p = (struct pinned){*at = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), bytes};
            return OK;
        }
    return OUT_OF_MEMORY;
}
int cuMemHostAlloc(char **at, size_t bytes, unsigned flags) { (void)flags; LOCKED(pin(at, bytes)); }
static int unpin(char *at) {
    for (struct pinned *p = pinned; p < pinned + MOST; ++p)
        if (p->at == at) {
            free(at);
            p->at = NULL;
            return OK;
        }
    return INVALID_VALUE;
}
int cuMemFreeHost(char *at) { LOCKED(unpin(at)); }

int cuStreamCreate(struct stream **made, unsigned flags) {
    if (flags != 1) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    int result = here();
    if (result == OK) {
        struct stream *s = calloc(1, sizeof *s);
        s->gpu = current[depth - 1];
        s->last = &s->first;
        pthread_cond_init(&s->changed, NULL);
        pthread_create(&s->thread, NULL, run, s);
        *made = s;
    }
    pthread_mutex_unlock(&lock);
    return result;
}
int cuStreamDestroy_v2(struct stream *s) {
    pthread_mutex_lock(&lock);
    s->ended = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&lock);
    pthread_join(s->thread, NULL);
    free(s);
    return OK;
}
int cuStreamSynchronize(struct stream *s) {
    pthread_mutex_lock(&lock);
    while (s->first != NULL) pthread_cond_wait(&s->changed, &lock);
    int result = here();
    pthread_mutex_unlock(&lock);
    return result;
}
// `rest`: where its second half lies, if not behind the first one.
static int copy(struct stream *s, char *to, const char *from, const char *rest, size_t bytes, int pinned) {
    if (here() != OK) return here();
    if (to == NULL || from == NULL || !pinned) return INVALID_VALUE;
    return later(s, (struct work){.kind = COPY, .to = to, .from = from, .rest = rest ? rest : from + bytes / 2, .bytes = bytes});
}
static int is_refused(struct stream *s) {
    char once[4096];
    snprintf(once, sizeof once, "%s.%d.once", LOST, (int)(s->gpu - gpus));
    return unlink(once) == 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const char *from, size_t bytes, struct stream *s) {
    if (is_refused(s)) return INVALID_VALUE;
    LOCKED(copy(s, behind(to, bytes), from, NULL, bytes, is_pinned(from, bytes)));
}
struct side { size_t x, y; int kind; const char *host; uint64_t device; void *array; size_t pitch; };
struct rows { struct side from, to; size_t width, height; };
// Two rows, which lie side by side at the GPU.
int cuMemcpy2DAsync_v2(const struct rows *r, struct stream *s) {
    const struct side *a = &r->from, *b = &r->to;
    if (a->kind != 1 || b->kind != 2 || (a->x | a->y | b->x | b->y) != 0 || r->height != 2 || a->pitch < r->width || b->pitch != r->width) return INVALID_VALUE;
    if (is_refused(s)) return INVALID_VALUE;
    const char *rest = a->host + a->pitch;
    LOCKED(copy(s, behind(b->device, 2 * r->width), a->host, rest, 2 * r->width, is_pinned(a->host, r->width) && is_pinned(rest, r->width)));
}
int cuMemcpyDtoHAsync_v2(char *to, uint64_t from, size_t bytes, struct stream *s) {
    LOCKED(copy(s, to, behind(from, bytes), NULL, bytes, is_pinned(to, bytes)));
}
static int put(struct stream *s, struct work w) {
    if (here() != OK) return here();
    return w.to == NULL ? INVALID_VALUE : later(s, w);
}
int cuStreamWriteValue64_v2(struct stream *s, uint64_t to, uint64_t value, unsigned flags) {
    if (flags != 0 || to % 8 != 0) return INVALID_VALUE;
    LOCKED(put(s, (struct work){.kind = WORD, .to = behind(to, 8), .value = value}));
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, struct stream *s) {
    LOCKED(put(s, (struct work){.kind = FILL, .to = behind(to, bytes), .value = value, .bytes = bytes}));
}
int cuEventCreate(struct event **made, unsigned flags) {
    if (flags != 2) return INVALID_VALUE;
    *made = calloc(1, sizeof **made);
    LOCKED(here());
}
int cuEventRecord(struct event *e, struct stream *s) {
    LOCKED(here() != OK ? here() : later(s, (struct work){.kind = EVENT, .event = e, .value = (uint64_t)++e->recorded}));
}
int cuEventQuery(struct event *e) { LOCKED(here() != OK ? here() : e->done == e->recorded ? OK : NOT_READY); }
int cuEventDestroy_v2(struct event *e) { free(e); return OK; }
