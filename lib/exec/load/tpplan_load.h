/* C interface to load one rank's shards of a checkpoint into memory of the caller, or to save them from it, like
 * `tpplan-exec load` and `save`. No call throws, prints or ends the process.
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
 * The caller must serialize calls on one tpplan_load, from any thread; different loads are independent. During a read
 * or save a second one is rejected, also from a callback; callbacks may describe tensors. The memory is on the host or
 * on a GPU. For a GPU each thread reads files through two pinned buffers: one is read while the other is copied. */
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

/* Return values of the functions. TPPLAN_LOAD_WRONG to TPPLAN_LOAD_LIMIT are the exit statuses of tpplan-exec. */
enum {
  TPPLAN_LOAD_OK = 0,
  TPPLAN_LOAD_WRONG = 1,   /* manifest, weights or targets are invalid or do not match; a disk error */
  TPPLAN_LOAD_INPUT = 2,   /* an unreadable file or an invalid argument */
  TPPLAN_LOAD_LIMIT = 3,   /* out of memory or threads; an unexpected error */
  TPPLAN_LOAD_STOPPED = 4, /* a callback returned nonzero */
};

typedef struct tpplan_load tpplan_load;

/* Shard of a parameter or buffer on this rank: row major, contiguous. The pointers are valid until tpplan_load_close.
 */
typedef struct {
  const char* path;     /* name in the manifest */
  const char* dtype;    /* name as in manifests: "bfloat16" */
  const int64_t* shape; /* shape of the rank's shard */
  size_t dims;
  const int64_t* full_shape; /* shape of the full tensor, with the same `dims` */
  uint64_t bytes;            /* bytes of the shard; 0: this rank has no part of the tensor */
  size_t same_as;            /* index of the first tensor tied to it; its own index if it is not tied */
  int is_buffer;
  int is_stored; /* 0: the buffer is missing in the weights and cannot be read */
} tpplan_load_tensor;

/* Memory for a tensor. `bytes` is the size of the memory and must equal the shard's. */
typedef struct {
  size_t tensor; /* index, from 0 to tpplan_load_count - 1 */
  void* data;
  uint64_t bytes;
} tpplan_load_target;

/* Options of a read. Fields other than `size` may be 0 or NULL. The callbacks are called by the thread that called
 * tpplan_load_read, while other threads read; a nonzero return value stops the read. */
typedef struct {
  size_t size;                                 /* sizeof(tpplan_load_options) */
  int threads;                                 /* threads that read; 0: one per processor of this process */
  uint64_t staging;                            /* maximum bytes of buffers; 0: 256 MiB. A tensor that is cast needs
                                                * additional memory of its stored size during the read */
  const char* checksums;                       /* file from `tpplan-exec verify --write-checksums` for this manifest */
  int (*on_tensor)(void* user, size_t tensor); /* once per filled target, after its checksum was compared */
  int (*on_progress)(void* user, uint64_t done_bytes, uint64_t total_bytes); /* ten times per second, and at the end */
  void* user;
} tpplan_load_options;

typedef struct {
  uint64_t read_bytes;    /* bytes read from files, including small gaps between needed ranges */
  uint64_t needed_bytes;  /* bytes of them that the targets need */
  uint64_t checked_bytes; /* bytes of these that were compared with checksums stored in the files by `tpplan-exec
                           * save`; only tensors of a file that the rank reads completely */
} tpplan_load_result;

/* Returns the version of this interface. It increases when a struct or function is added or changes. */
TPPLAN_LOAD_CHECKED int tpplan_load_version(void);

/* Rule for fused tensors: `fused` is the concatenation of `parts` in one dim. The weights may have the fused tensor and
 * the manifest its parts, or the reverse. With `groups` > 1 the parts are interleaved: each group has one chunk of
 * every part, such as the heads of a KV group; 0 means 1. Names are complete components of manifest paths: "qkv_proj"
 * with {"q_proj", "k_proj", "v_proj"}. A tensor that the weights have under its own name takes precedence. Only needed
 * bytes are read. */
typedef struct {
  const char* fused;
  const char* const* parts;
  size_t count;
  uint64_t groups;
} tpplan_load_fuse;

/* Input of tpplan_load_open. Fields that are 0 or NULL are unset. */
typedef struct {
  size_t size;          /* sizeof(tpplan_load_source) */
  const char* manifest; /* path of the manifest, */
  const char* text;     /* or its text with `length` bytes */
  size_t length;
  const char* weights; /* a safetensors file, an index or a folder of such files; a folder written by `tpplan-exec save`
                        * or by torch's distributed checkpoint for Hugging Face, for any mesh. NULL: nothing can be
                        * read, and the fields below are only for tpplan_load_save */
  int rank;
  const char* (*rename)(
      void* user, const char* stored); /* returns the manifest's name of a tensor in the weights; NULL skips the tensor.
                                        * It is called for each tensor during the open; the text is copied */
  void* user;
  const tpplan_load_fuse* fuse; /* rules; the first that matches a tensor applies */
  size_t fuse_count;
  const char* dtype;  /* NULL: the weights must have the manifest's dtypes. "manifest": tensors with a floating-point
                       * dtype of 16 bits or more are cast from another such dtype. A dtype of this kind replaces the
                       * manifest's dtype in memory. A warning reports lost precision. */
  const char* device; /* device of the targets, as in `tpplan-exec --device`; NULL: "cpu" */
  int device_number;
} tpplan_load_source;

/* Opens and checks the manifest and the weights, and finds every parameter of the manifest in the weights. After an
 * error `*load` has the text (tpplan_load_error) and must be closed; it is NULL if memory ran out. */
TPPLAN_LOAD_CHECKED int tpplan_load_open(const tpplan_load_source* source, tpplan_load** load);

TPPLAN_LOAD_CHECKED size_t tpplan_load_count(const tpplan_load* load);
TPPLAN_LOAD_CHECKED int tpplan_load_describe(tpplan_load* load, size_t number, tpplan_load_tensor* tensor);

/* Fills the targets with any subset of the tensors, each at most once, in file order. Every byte is read once, directly
 * into the target if rows are long enough. Target sizes, file headers and the checksum file are checked before the
 * first byte is written. After a later error (disk, changed file, checksum, callback) the targets that on_tensor has
 * reported are complete, and the contents of the others are undefined. If the file server does not reply, the call does
 * not return; on_progress shows that. `options` and `result` may be NULL. */
TPPLAN_LOAD_CHECKED int tpplan_load_read(tpplan_load* load, const tpplan_load_target* targets, size_t count,
                                         const tpplan_load_options* options, tpplan_load_result* result);

/* Writes this rank's files of a sharded checkpoint, like `tpplan-exec save`, into the existing `folder`. Rank 0 also
 * writes the note that identifies the folder. Every tensor must be passed once, as for reading; a replicated element is
 * written by the first rank that has it. Fails if the load was opened with a `dtype` that changes the manifest's. The
 * folder is complete when the call has succeeded on every rank: the caller must synchronize the ranks, and should
 * rename the folder only then. */
TPPLAN_LOAD_CHECKED int tpplan_load_save(tpplan_load* load, const char* folder, const tpplan_load_target* sources,
                                         size_t count);

/* Return the error of the last call, and the warnings of the open. The text has codes, places and help, like the output
 * of tpplan-exec; it is "" after success. For NULL the error is that memory ran out. The texts are valid until the next
 * call on `load`. */
TPPLAN_LOAD_CHECKED const char* tpplan_load_error(const tpplan_load* load);
TPPLAN_LOAD_CHECKED const char* tpplan_load_warnings(const tpplan_load* load);

/* Frees the load; NULL is allowed. It does nothing during a read or save: call it after that call has returned. */
void tpplan_load_close(tpplan_load* load);

#ifdef __cplusplus
}
#endif
#endif
