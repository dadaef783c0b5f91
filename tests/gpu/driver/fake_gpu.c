/* A GPU driver that takes launches and runs nothing: Triton's own launcher and ours are linked against it in tests.

   What is put into a stream stays there until the stream is waited for, as on a GPU, so that whoever reads too early
   reads what was there before. The functions have the makers' prototypes, from the headers that Triton brings along.
   Launches are shown to Python twice: when they are made (to look at the parameters) and when their turn comes. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ZERO, WRITE, READ, LAUNCH, EVENT };
struct event { double at; };
struct op { int kind; void *stream; char *to; char *from; size_t size; int64_t id; struct op *next; };

typedef int64_t (*take_t)(void *function, const unsigned *shape, void *stream, void **parameters);
typedef double (*run_t)(int64_t id); /* returns nanoseconds */
typedef void (*loaded_t)(void *module, const void *image);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct op *first, **end = &first;
static take_t take;
static run_t run;
static loaded_t loaded;
static double now_ns;
static size_t allocated, limit = (size_t)1 << 34;
static void *captured; /* the stream that is being captured */

#ifdef NVIDIA
static __thread void *context;
#endif
static uintptr_t handles = 0x1000;

void fake_setup(take_t t, run_t r, loaded_t l) { take = t, run = r, loaded = l; }
void fake_limit(size_t bytes) { limit = bytes; }
void fake_capture(void *stream) { captured = stream; }
void fake_reset(void) { first = NULL, end = &first, captured = NULL, limit = (size_t)1 << 34; }
size_t fake_allocated(void) { return allocated; }
int fake_pending(void) { int n = 0; for (struct op *o = first; o; o = o->next) n++; return n; }

static void *handle(void) { return (void *)(handles += 0x10); }

static void put(int kind, void *stream, void *to, const void *from, size_t size, int64_t id) {
  struct op *op = calloc(1, sizeof *op);
  *op = (struct op){kind, stream, to, (char *)from, size, id, NULL};
  pthread_mutex_lock(&lock);
  *end = op, end = &op->next;
  pthread_mutex_unlock(&lock);
}

static struct op *turn(void *stream) {
  pthread_mutex_lock(&lock);
  struct op **at = &first, *op;
  while (*at && (*at)->stream != stream) at = &(*at)->next;
  if ((op = *at)) {
    *at = op->next;
    if (!op->next) end = at;
  }
  pthread_mutex_unlock(&lock);
  return op;
}

static void drain(void *stream) {
  for (struct op *op; (op = turn(stream)); free(op)) {
    if (op->kind == ZERO) memset(op->to, 0, op->size);
    if (op->kind == WRITE) memcpy(op->to, op->from, op->size), free(op->from);
    if (op->kind == READ) memcpy(op->to, op->from, op->size);
    if (op->kind == LAUNCH) now_ns += run(op->id);
    if (op->kind == EVENT) ((struct event *)op->to)->at = now_ns;
  }
}

static int allocate(void **address, size_t size) {
#ifdef NVIDIA
  if (!context) return 201; /* CUDA_ERROR_INVALID_CONTEXT */
#endif
  if (allocated + size > limit) return 2;
  if (posix_memalign(address, 256, size)) return 2;
  memset(*address, 0xAB, size); /* what was there before */
  allocated += size;
  return 0;
}

static int write_there(void *to, const void *from, size_t size, void *stream) {
  void *staged = malloc(size);
  memcpy(staged, from, size);
  put(WRITE, stream, to, staged, size, 0);
  return 0;
}

#ifdef NVIDIA
#include "cuda.h"
CUresult cuInit(unsigned f) { return getenv("FAKE_GPU") ? 0 : 100; }  // no device, while nobody uses it
CUresult cuDriverGetVersion(int *v) { *v = 12090; return 0; }
CUresult cuDeviceGetCount(int *n) { *n = 1; return 0; }
CUresult cuDeviceGet(CUdevice *d, int n) { *d = n; return 0; }
CUresult cuDeviceGetName(char *text, int size, CUdevice d) { strncpy(text, "Fake GPU", size); return 0; }
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d) {
  *v = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? atoi(getenv("FAKE_GPU") ? getenv("FAKE_GPU") : "90") / 10
     : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
     : a == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? 227 * 1024
     : a == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 132
     : a == CU_DEVICE_ATTRIBUTE_WARP_SIZE ? 32
     : a == CU_DEVICE_ATTRIBUTE_CLOCK_RATE ? 1755000
     : 65536;
  return 0;
}
CUresult cuCtxGetCurrent(CUcontext *c) { *c = context; return 0; }
CUresult cuCtxSetCurrent(CUcontext c) { context = c; return 0; }
CUresult cuCtxGetDevice(CUdevice *d) { *d = 0; return context ? 0 : 201; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { *c = (CUcontext)8; return 0; }
CUresult cuCtxGetLimit(size_t *v, CUlimit l) { *v = 0; return 0; }
CUresult cuCtxSetLimit(CUlimit l, size_t v) { return 0; }
CUresult cuGetErrorString(CUresult e, const char **text) { *text = "a fake error"; return 0; }
CUresult cuModuleLoadData(CUmodule *m, const void *image) { *m = handle(); loaded(*m, image); return 0; }
CUresult cuModuleUnload(CUmodule m) { return 0; }
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) { *f = (CUfunction)m; return 0; }
CUresult cuFuncGetAttribute(int *v, CUfunction_attribute a, CUfunction f) {
  *v = a == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return 0;
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) { return 0; }
CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache c) { return 0; }
CUresult cuOccupancyMaxActiveClusters(int *n, CUfunction f, const CUlaunchConfig *c) { *n = 1; return 0; }
CUresult cuPointerGetAttribute(void *to, CUpointer_attribute a, CUdeviceptr p) { *(CUdeviceptr *)to = p; return 0; }
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType t, cuuint32_t rank, void *address,
                                const cuuint64_t *dim, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave i, CUtensorMapSwizzle s,
                                CUtensorMapL2promotion p, CUtensorMapFloatOOBfill f) {
  uint64_t *words = (uint64_t *)map;
  memset(map, 0, sizeof *map);
  words[0] = (uint64_t)address, words[1] = rank, words[2] = dim[0], words[3] = dim[1], words[4] = box[0], words[5] = s;
  return 0;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **parameters, void **extra) {
  unsigned shape[] = {c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->sharedMemBytes, c->numAttrs};
  int64_t id = take(f, shape, c->hStream, parameters);
  if (id < 0) return 700; /* CUDA_ERROR_ILLEGAL_ADDRESS */
  put(LAUNCH, c->hStream, NULL, NULL, 0, id);
  return 0;
}
#undef cuMemAlloc
#undef cuMemFree
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b);
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t size) { return allocate((void **)p, size); }
CUresult cuMemFree_v2(CUdeviceptr p) { free((void *)p); return 0; }
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s) {
  put(ZERO, s, (void *)p, NULL, n, 0);
  return 0;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr p, const void *from, size_t n, CUstream s) {
  return write_there((void *)p, from, n, s);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr p, size_t n, CUstream s) {
  put(READ, s, to, (void *)p, n, 0);
  return 0;
}
CUresult cuStreamSynchronize(CUstream s) { drain(s); return 0; }
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status) {
  *status = captured && (void *)s == captured;
  return 0;
}
CUresult cuEventCreate(CUevent *e, unsigned f) { *e = calloc(1, sizeof(struct event)); return 0; }
CUresult cuEventRecord(CUevent e, CUstream s) { put(EVENT, s, e, NULL, 0, 0); return 0; }
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
  *ms = (((struct event *)b)->at - ((struct event *)a)->at) * 1e-6;
  return 0;
}
CUresult cuEventDestroy_v2(CUevent e) { free(e); return 0; }
#endif

#ifdef AMD
#include <stdbool.h>
#define __HIP_PLATFORM_AMD__
#include "hip/hip_runtime_api.h"
#include <dlfcn.h>
hipError_t hipDriverGetVersion(int *v) { *v = 70000000; return 0; }
hipError_t hipGetProcAddress(const char *name, void **found, int v, uint64_t f, hipDriverProcAddressQueryResult *s) {
  *found = dlsym(RTLD_DEFAULT, name);
  return *found ? 0 : 1;
}
hipError_t hipGetLastError(void) { return 0; }
const char *hipGetErrorString(hipError_t e) { return "a fake error"; }
#undef hipGetDeviceProperties
hipError_t hipGetDeviceProperties(hipDeviceProp_t *p, int n) {
  memset(p, 0, sizeof *p);
  strcpy(p->gcnArchName, getenv("FAKE_GPU") ? getenv("FAKE_GPU") : "gfx942");
  p->multiProcessorCount = 304, p->clockRate = 2100000, p->warpSize = 64, p->sharedMemPerBlock = 65536;
  return 0;
}
hipError_t hipDeviceGetName(char *text, int size, hipDevice_t d) { strncpy(text, "Fake GPU", size); return 0; }
hipError_t hipModuleLoadDataEx(hipModule_t *m, const void *image, unsigned n, hipJitOption *o, void **v) {
  *m = handle();
  loaded(*m, image);
  return 0;
}
hipError_t hipModuleUnload(hipModule_t m) { return 0; }
hipError_t hipModuleGetFunction(hipFunction_t *f, hipModule_t m, const char *name) { *f = (hipFunction_t)m; return 0; }
hipError_t hipFuncGetAttribute(int *v, hipFunction_attribute a, hipFunction_t f) { *v = 1024; return 0; }
hipError_t hipPointerGetAttribute(void *to, hipPointer_attribute a, hipDeviceptr_t p) { *(void **)to = p; return 0; }
hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared, hipStream_t s, void **parameters, void **extra) {
  unsigned shape[] = {gx, gy, gz, bx, shared, 0};
  int64_t id = take(f, shape, s, parameters);
  if (id < 0) return 700;
  put(LAUNCH, s, NULL, NULL, 0, id);
  return 0;
}
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                            unsigned by, unsigned bz, unsigned shared, hipStream_t s, void **p) {
  return hipModuleLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, s, p, NULL);
}
hipError_t hipMalloc(void **p, size_t size) { return allocate(p, size); }
hipError_t hipFree(void *p) { free(p); return 0; }
hipError_t hipMemsetD8Async(hipDeviceptr_t p, unsigned char v, size_t n, hipStream_t s) {
  put(ZERO, s, p, NULL, n, 0);
  return 0;
}
#define FROM const /* of older and newer headers */
hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t p, FROM void *from, size_t n, hipStream_t s) {
  return write_there(p, from, n, s);
}
hipError_t hipMemcpyDtoHAsync(void *to, hipDeviceptr_t p, size_t n, hipStream_t s) {
  put(READ, s, to, p, n, 0);
  return 0;
}
hipError_t hipStreamSynchronize(hipStream_t s) { drain(s); return 0; }
hipError_t hipStreamIsCapturing(hipStream_t s, hipStreamCaptureStatus *status) {
  *status = captured && (void *)s == captured;
  return 0;
}
hipError_t hipEventCreateWithFlags(hipEvent_t *e, unsigned f) { *e = calloc(1, sizeof(struct event)); return 0; }
hipError_t hipEventRecord(hipEvent_t e, hipStream_t s) { put(EVENT, s, e, NULL, 0, 0); return 0; }
hipError_t hipEventElapsedTime(float *ms, hipEvent_t a, hipEvent_t b) {
  *ms = (((struct event *)b)->at - ((struct event *)a)->at) * 1e-6;
  return 0;
}
hipError_t hipEventDestroy(hipEvent_t e) { free(e); return 0; }
#endif
