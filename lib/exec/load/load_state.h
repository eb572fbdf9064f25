// State of a tpplan_load of the C interface (tpplan_load.h), and the exceptions that end its calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/load/tpplan_load.h"
#include "exec/shards/shard_store.h"
#include "exec/shards/weight_source.h"
#include "manifest/manifest.h"

// State of one load. Not movable: some fields are views of earlier ones.
struct tpplan_load {
  tpplan::SourceFile file;
  tpplan::Manifest manifest;
  std::string shardings_sha256;  // manifest/shardings_digest.h
  tpplan::WeightSource source;
  tpplan::ShardStore store;  // its data is set during a read
  std::vector<uint32_t> first;
  std::vector<std::string> paths, dtypes;  // copies of the tensors' names for C, zero-terminated
  bool is_open = false, has_weights = false;
  bool has_other_dtypes = false;  // `dtype` of the source changed dtypes of the manifest
  int device_number = 0;
  std::string error, warnings;
  std::atomic<const char*> said = "";  // text of `error`, or a static text
  std::atomic<bool> is_busy = false;   // a read or save is in progress
};

namespace tpplan {

// Error in the caller's arguments. It has no error code, because it is not a diagnostic about a file.
struct RequestError {
  std::string text;
  int status = TPPLAN_LOAD_INPUT;
};

// Exception after a callback has returned nonzero.
struct StoppedByCallback {};

// True if the dtypes of the tensor in the weights and in memory differ.
[[nodiscard]] bool needs_cast(const tpplan_load& load, size_t tensor);

// Returns the first name that is tied to the tensor's name; the tensor's own index if it is not tied.
[[nodiscard]] uint32_t first_tied(const tpplan_load& load, size_t tensor);

// Throws a RequestError if the manifest was not opened.
void require_open(const tpplan_load& load);

}  // namespace tpplan
