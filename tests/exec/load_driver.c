/* Calls libtpplan_load from C: load_driver MANIFEST WEIGHTS RANK [OPTION=VALUE]...
 * Fills memory with 0xa5, reads into it, and prints each tensor's bytes in hex; last status and error. Options:
 *   only=PATH     reads only this tensor
 *   short=PATH    its target has a byte less
 *   twice=PATH    it has two targets
 *   null=PATH     its target is NULL
 *   stop=N        the N-th callback stops the read
 *   text=1        passes the manifest's text
 *   checksums=F   passes this file of checksums
 *   threads=N staging=N size=N
 *   shared=1      tied names share memory
 *   again=1       reads a second time
 *   kept=1        prints memory also after a failure
 *   malloc=N      from the open on, the N-th allocation fails; repeats with N + 1 and so on until none fails
 *   inside=1      callbacks read, save and close
 *   at_once=N     N threads read with one handle, until one is rejected
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/load/tpplan_load.h"

extern void* __libc_malloc(size_t bytes);
static long failing = -1; /* number of allocations before one fails; -1: none fails */

#ifdef LOAD_DRIVER_FAILS
void* malloc(size_t bytes) {
  if (failing >= 0 && __atomic_fetch_sub(&failing, 1, __ATOMIC_RELAXED) == 0) return NULL;
  return __libc_malloc(bytes);
}
#endif

struct run {
  tpplan_load* load;
  long stop, calls;
  unsigned long long progress_calls, done, total;
  int quiet, inside;
};

static const char* option(int argc, char** argv, const char* name) {
  for (int i = 4; i < argc; ++i) {
    if (strncmp(argv[i], name, strlen(name)) == 0 && argv[i][strlen(name)] == '=') return argv[i] + strlen(name) + 1;
  }
  return NULL;
}

/* Makes the calls that are not permitted during a read. Returns 1 if each is rejected without an effect. */
static int is_refused_inside(struct run* run) {
  const int read = tpplan_load_read(run->load, NULL, 0, NULL, NULL);
  const int said = strstr(tpplan_load_error(run->load), "another call with this handle") != NULL;
  const int save = tpplan_load_save(run->load, ".", NULL, 0);
  tpplan_load_close(run->load);
  return read == TPPLAN_LOAD_INPUT && said && save == TPPLAN_LOAD_INPUT && tpplan_load_count(run->load) != 0;
}

static int on_tensor(void* user, size_t tensor) {
  struct run* run = user;
  if (run->inside && !is_refused_inside(run)) return 1;
  tpplan_load_tensor told;
  if (tpplan_load_describe(run->load, tensor, &told) == 0 && !run->quiet) printf("filled %s\n", told.path);
  return run->stop != 0 && ++run->calls == run->stop;
}

static int on_progress(void* user, uint64_t done, uint64_t total) {
  struct run* run = user;
  ++run->progress_calls;
  run->done = done;
  run->total = total;
  return 0;
}

static const char* without_prefix(void* user, const char* stored) {
  const size_t length = strlen(user);
  return strncmp(stored, user, length) == 0 ? stored + length : NULL;
}

/* Reads with one tpplan_load from several threads: each call either succeeds or is rejected. */
struct together {
  tpplan_load* load;
  const tpplan_load_target* targets;
  size_t count;
  int done, refused, wrong;
};

static void* read_together(void* user) {
  struct together* all = user;
  for (int i = 0; i < 100000 && !__atomic_load_n(&all->refused, __ATOMIC_RELAXED); ++i) {
    const int status = tpplan_load_read(all->load, all->targets, all->count, NULL, NULL);
    int* counted = status == 0 ? &all->done : status == TPPLAN_LOAD_INPUT ? &all->refused : &all->wrong;
    __atomic_fetch_add(counted, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void read_at_once(struct together all, int threads) {
  pthread_t started[64];
  for (int i = 0; i < threads; ++i) pthread_create(&started[i], NULL, read_together, &all);
  for (int i = 0; i < threads; ++i) pthread_join(started[i], NULL);
  printf("at once: %s\n", all.done > 0 && all.refused > 0 && all.wrong == 0 ? "one" : "wrong");
}

static int is(const char* path, const char* wanted) { return wanted != NULL && strcmp(path, wanted) == 0; }

static int run_once(int argc, char** argv, int quiet) {
  struct run run = {.stop = option(argc, argv, "stop") ? atol(option(argc, argv, "stop")) : 0,
                    .quiet = quiet,
                    .inside = option(argc, argv, "inside") != NULL};
  tpplan_load_source source = {
      .size = sizeof source, .weights = argv[2], .rank = atoi(argv[3]), .user = (void*)option(argc, argv, "prefix")};
  static char text[1 << 20];
  if (option(argc, argv, "text")) {
    FILE* file = fopen(argv[1], "rb");
    source.text = text;
    source.length = file == NULL ? 0 : fread(text, 1, sizeof text, file);
    if (file != NULL) fclose(file);
  } else {
    source.manifest = argv[1];
  }
  if (source.user != NULL) source.rename = without_prefix;
  int status = tpplan_load_open(&source, &run.load);
  const size_t tensors = tpplan_load_count(run.load);
  tpplan_load_target* targets = calloc(2 * tensors + 1, sizeof *targets);
  void** owned = calloc(tensors + 1, sizeof *owned);
  size_t count = 0;
  for (size_t i = 0; i < tensors && status == 0; ++i) {
    tpplan_load_tensor told;
    status = tpplan_load_describe(run.load, i, &told);
    const char* only = option(argc, argv, "only");
    if (status != 0 || !told.is_stored || (only != NULL && !is(told.path, only))) continue;
    void* memory = owned[i] = memset(calloc(1, told.bytes + 1), 0xa5, told.bytes + 1);
    for (size_t t = 0; t < count && option(argc, argv, "shared"); ++t) {
      if (targets[t].tensor == told.same_as && told.same_as != i) memory = targets[t].data;
    }
    targets[count++] = (tpplan_load_target){i, is(told.path, option(argc, argv, "null")) ? NULL : memory,
                                            told.bytes - (uint64_t)is(told.path, option(argc, argv, "short"))};
    if (is(told.path, option(argc, argv, "twice"))) targets[count] = targets[count - 1], ++count;
  }
  tpplan_load_options options = {
      .size = sizeof options,
      .threads = option(argc, argv, "threads") ? atoi(option(argc, argv, "threads")) : 0,
      .staging = option(argc, argv, "staging") ? strtoull(option(argc, argv, "staging"), NULL, 10) : 0,
      .checksums = option(argc, argv, "checksums"),
      .on_tensor = on_tensor,
      .on_progress = on_progress,
      .user = &run};
  if (option(argc, argv, "size")) options.size = strtoull(option(argc, argv, "size"), NULL, 10);
  tpplan_load_result result = {0, 0};
  const char* at_once = option(argc, argv, "at_once");
  if (status == 0 && at_once) read_at_once((struct together){run.load, targets, count, 0, 0, 0}, atoi(at_once));
  if (status == 0) status = tpplan_load_read(run.load, targets, count, &options, &result);
  if (status == 0 && option(argc, argv, "again")) status = tpplan_load_read(run.load, targets, count, NULL, &result);
  if ((status == 0) != (tpplan_load_error(run.load)[0] == '\0')) status = 99;
  if (!quiet) fprintf(stderr, "%s%s", tpplan_load_warnings(run.load), tpplan_load_error(run.load));
  for (size_t t = 0; t < count && !quiet && (status == 0 || option(argc, argv, "kept")); ++t) {
    tpplan_load_tensor told;
    if (tpplan_load_describe(run.load, targets[t].tensor, &told) != 0) break;
    if (targets[t].data == NULL) continue;
    printf("tensor %s %s %d %d [", told.path, told.dtype, told.is_buffer, (int)told.same_as);
    for (size_t d = 0; d < told.dims; ++d) printf("%s%lld", d == 0 ? "" : ", ", (long long)told.shape[d]);
    printf("] [");
    for (size_t d = 0; d < told.dims; ++d) printf("%s%lld", d == 0 ? "" : ", ", (long long)told.full_shape[d]);
    printf("] ");
    for (uint64_t i = 0; i < told.bytes; ++i) printf("%02x", ((unsigned char*)targets[t].data)[i]);
    printf(" %02x\n", ((unsigned char*)targets[t].data)[told.bytes]);
  }
  if (!quiet) {
    if (status == 0)
      printf("read %llu %llu\n", (unsigned long long)result.read_bytes, (unsigned long long)result.needed_bytes);
    if (run.progress_calls != 0) printf("progress %llu of %llu\n", run.done, run.total);
  }
  tpplan_load_close(run.load);
  for (size_t i = 0; i < tensors; ++i) free(owned[i]);
  free(owned);
  free(targets);
  return status;
}

int main(int argc, char** argv) {
  if (argc < 4) return 98;
  if (option(argc, argv, "malloc") == NULL) return run_once(argc, argv, 0);
  for (long n = atol(option(argc, argv, "malloc"));; ++n) { /* until N exceeds the number of allocations */
    failing = n;
    const int status = run_once(argc, argv, 1);
    if (status == 0 && failing >= 0) return printf("%ld allocations\n", n), 0;
    if (status != 0 && status != TPPLAN_LOAD_LIMIT) return printf("allocation %ld: status %d\n", n, status), 97;
  }
}
