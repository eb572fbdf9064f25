// What stands behind a tpplan_load of the C interface (tpplan_load.h), and what its calls end with.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "load/tpplan_load.h"
#include "manifest/manifest.h"
#include "shards/open_weights.h"
#include "shards/shard_store.h"

// Views point from one member into those before it: it stays where it was made.
struct tpplan_load {
  tpplan::SourceFile file;
  tpplan::Manifest manifest;
  std::string sha256;
  tpplan::WeightSource source;
  tpplan::ShardStore store;  // data: while something is read
  std::vector<uint32_t> first;
  std::vector<std::string> paths, dtypes;  // that end with a zero byte
  bool is_open = false, has_weights = false;
  bool has_own_types = false;  // in memory: not the manifest's
  int device_number = 0;
  std::string error, warnings;
  std::atomic<const char*> said = "";  // the error, or a text that takes no memory
  std::atomic<bool> is_busy = false;   // a call reads or writes
};

namespace tpplan {

// What a caller asked for and cannot have: no finding about a file, so that it has no code.
struct Refusal {
  std::string text;
  int status = TPPLAN_LOAD_INPUT;
};

// A callback has asked for the end.
struct Stopped {};

// True where the weights have the tensor in another type than memory does.
[[nodiscard]] bool is_cast(const tpplan_load& load, size_t tensor);

// The first name of what a tensor's name is tied to; its own number where it is tied to none.
[[nodiscard]] uint32_t first_of(const tpplan_load& load, size_t tensor);

// A Refusal where it was not opened.
void need_open(const tpplan_load& load);

}  // namespace tpplan
