/* One rank's shards of a checkpoint, read into memory that is there already, or written from it: what `tpplan-exec
 * load` and `save` do, for programs that have a model of their own. C, and nothing else; no call throws, ends the
 * process or prints.
 *
 *   tpplan_load* load;
 *   tpplan_load_source source = {.size = sizeof source, .manifest = "manifest.json", .weights = "model.safetensors"};
 *   int status = tpplan_load_open(&source, &load);
 *   for (size_t i = 0; status == 0 && i < tpplan_load_count(load); ++i) {
 *     status = tpplan_load_describe(load, i, &tensor);
 *     if (tensor.is_stored) targets[count++] = (tpplan_load_target){i, malloc(tensor.bytes), tensor.bytes};
 *   }
 *   if (status == 0) status = tpplan_load_read(load, targets, count, NULL, NULL);
 *   if (status != 0) fputs(tpplan_load_error(load), stderr);
 *   tpplan_load_close(load);
 *
 * Calls on one tpplan_load come one after the other, from any thread; those on several are independent. While one reads
 * or saves, another that would is refused, also from its callbacks, which may describe tensors. Memory is the
 * host's, or a GPU's, towards which the files are read through two blocks of pinned memory a thread: while one is
 * copied, the other is read. */
#ifndef TPPLAN_LOAD_H
#define TPPLAN_LOAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#define TPPLAN_LOAD_CHECKED __attribute__((warn_unused_result))
#else
#define TPPLAN_LOAD_CHECKED
#endif

/* What functions return. TPPLAN_LOAD_WRONG to TPPLAN_LOAD_LIMIT are the exit statuses of tpplan-exec. */
enum {
  TPPLAN_LOAD_OK = 0,
  TPPLAN_LOAD_WRONG = 1, /* manifest, weights or targets are wrong, or do not fit each other; a disk reports an error */
  TPPLAN_LOAD_INPUT = 2, /* a file that cannot be read at all, an argument that makes no sense */
  TPPLAN_LOAD_LIMIT = 3, /* memory or threads are short; unforeseen */
  TPPLAN_LOAD_STOPPED = 4, /* a callback returned another value than 0 */
};

typedef struct tpplan_load tpplan_load;

/* A parameter or buffer of the manifest as the rank holds it: row major, without gaps. What is pointed to lives as long
 * as the tpplan_load. */
typedef struct {
  const char* path;     /* in the manifest */
  const char* dtype;    /* "bfloat16", as manifests say it */
  const int64_t* shape; /* of the rank's shard */
  size_t dims;
  const int64_t* full_shape; /* of the whole tensor; as many dims */
  uint64_t bytes;            /* of the shard; 0: the rank holds none of it */
  size_t same_as;            /* the first of the names that are tied to it; itself where none is */
  int is_buffer;
  int is_stored; /* 0 for a buffer that the weights lack, which cannot be read */
} tpplan_load_tensor;

/* Where a tensor goes: `bytes` is the size of the memory, and must be the shard's. */
typedef struct {
  size_t tensor; /* its number, from 0 to tpplan_load_count */
  void* data;
  uint64_t bytes;
} tpplan_load_target;

/* All may be 0 or NULL. Callbacks are called by the thread that called tpplan_load_read, while others read on; another
 * value than 0 stops the reading. */
typedef struct {
  size_t size;                                 /* sizeof(tpplan_load_options) */
  int threads;                                 /* that read; 0: one for each processor of this process */
  uint64_t staging;                            /* bytes of memory beside the targets at most; 0: 256 MiB. A tensor
                                                * that is cast takes its own bytes besides, while it is read */
  const char* checksums;                       /* a file of `tpplan-exec verify --write-checksums` for this manifest */
  int (*on_tensor)(void* user, size_t tensor); /* a target is filled, and agrees with its checksum: once for each */
  int (*on_progress)(void* user, uint64_t done_bytes, uint64_t total_bytes); /* ten times a second, and at the end */
  void* user;
} tpplan_load_options;

typedef struct {
  uint64_t read_bytes;    /* from files, with gaps that are cheaper read than skipped */
  uint64_t needed_bytes;  /* of them, that targets wanted */
  uint64_t checked_bytes; /* of these, that were held against checksums which the files keep (those of `tpplan-exec
                           * save`): of tensors of a file that the rank reads whole, as on the mesh that wrote it */
} tpplan_load_result;

/* Grows when a struct or function changes its meaning, or comes: 3. */
TPPLAN_LOAD_CHECKED int tpplan_load_version(void);

/* `fused` of one of weights and manifest is `parts` of the other, one behind the other in one dim: of each all of it,
 * or `groups` times the next piece of each (the heads of a group together); 0 is 1. Names are whole atoms of paths, as
 * the manifest has them: "qkv_proj" and {"q_proj", "k_proj", "v_proj"}. What the weights have under a tensor's own name
 * comes first. Only bytes that are needed are read. */
typedef struct {
  const char* fused;
  const char* const* parts;
  size_t count;
  uint64_t groups;
} tpplan_load_fuse;

/* What is opened. Members that are 0 or NULL are not given. */
typedef struct {
  size_t size;          /* sizeof(tpplan_load_source) */
  const char* manifest; /* its path, */
  const char* text;     /* or its text, of `length` bytes */
  size_t length;
  const char* weights; /* a safetensors file, an index of several, a folder of them, or one that `tpplan-exec save` or
                        * torch's distributed checkpoint for Hugging Face wrote, for any mesh; NULL: nothing is read,
                        * what follows is for tpplan_load_save */
  int rank;
  const char* (*rename)(
      void* user,
      const char* stored); /* what the manifest calls a tensor that the weights have under this
                            * name: called with each while they are opened; the text is copied; NULL leaves it out */
  void* user;
  const tpplan_load_fuse* fuse; /* rules, of which the first that fits a tensor counts */
  size_t fuse_count;
  const char* dtype; /* NULL: the weights have the manifest's types. "manifest": where it is a floating point type of 16
                      * bits or more, the weights may have another such, which is cast; or such a type, which memory
                      * has then in place of the manifest's. A warning says where precision is lost. */
  const char* device; /* whose memory targets are, as `tpplan-exec --device` names it; NULL: "cpu" */
  int device_number;
} tpplan_load_source;

/* Reads and proves the manifest, opens the weights, and finds every parameter of the manifest in them. `*load` is NULL
 * only where there was no memory for it; else it says what is wrong (tpplan_load_error), and is to be closed. */
TPPLAN_LOAD_CHECKED int tpplan_load_open(const tpplan_load_source* source, tpplan_load** load);

TPPLAN_LOAD_CHECKED size_t tpplan_load_count(const tpplan_load* load);
TPPLAN_LOAD_CHECKED int tpplan_load_describe(tpplan_load* load, size_t number, tpplan_load_tensor* tensor);

/* Fills the targets: any of the tensors, each once, in the order of the files. Every byte is read once, straight into
 * its place where rows are long enough. What can be checked is checked before the first byte is written: sizes of
 * targets, headers of all files, the file of checksums. What fails later (a disk, a file that is written meanwhile, a
 * wrong checksum, a callback) leaves targets whole that on_tensor has named, and anything in the others. A read that
 * does not come back from its file server keeps the call from returning; on_progress shows it. `options` and `result`
 * may be NULL. */
TPPLAN_LOAD_CHECKED int tpplan_load_read(tpplan_load* load, const tpplan_load_target* targets, size_t count,
                                         const tpplan_load_options* options, tpplan_load_result* result);

/* Writes what this rank writes of a folder as `tpplan-exec save` makes it, into `folder`, which is there: files of its
 * own, and rank 0 the note by which others know the folder. One that was opened with a `dtype` that is not the
 * manifest's writes none. Of elements that several ranks hold the first of them
 * writes. Every tensor is given once, as for reading. The folder is whole when this has succeeded for every rank; who
 * calls it brings them together, and gives the folder its name only then. */
TPPLAN_LOAD_CHECKED int tpplan_load_save(tpplan_load* load, const char* folder, const tpplan_load_target* sources,
                                         size_t count);

/* Why the last call on it failed, with codes, places and help, as tpplan-exec says it, lines of text; "" after success.
 * Of NULL: that memory is short. And what was warned of when it was opened. They live until the next call on it. */
TPPLAN_LOAD_CHECKED const char* tpplan_load_error(const tpplan_load* load);
TPPLAN_LOAD_CHECKED const char* tpplan_load_warnings(const tpplan_load* load);

/* NULL is fine. While a call reads or saves, it does nothing: close it when that has come back. */
void tpplan_load_close(tpplan_load* load);

#ifdef __cplusplus
}
#endif
#endif
