// Finds the stored bytes of each tensor of a manifest from the headers of weight files.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/shards/weight_source.h"
#include "manifest/manifest.h"

namespace tpplan {

// Maps a stored name to the name in the manifest; nullopt skips the tensor.
using Rename = std::function<std::optional<std::string>(std::string_view stored)>;

// `fused` is the concatenation of `parts` in one dim, or, with `groups`, that many times the next chunk of each part,
// as when the heads of a group are adjacent. Names are full components of paths.
struct FuseRule {
  std::string fused;
  std::vector<std::string> parts;
  uint64_t groups = 1;
};

// Permitted differences between the weights and the manifest.
struct PlaceOptions {
  Rename rename;
  std::vector<FuseRule> fuse;  // the weights have the fused tensor and the manifest its parts, or vice versa
  bool cast = false;           // floating point dtypes can differ (can_cast)
};

// Fills `tensors`, `missing` and `sums` of `source` from its headers. Every tensor of the manifest must be stored under
// its name or that of a tied tensor, with the manifest's shape and dtype, up to the differences that `options` permit.
// Other differences are errors in source.findings (`path` names the weights). Returns false after any error. Reads no
// file.
[[nodiscard]] bool place_tensors(const std::string& path, const Manifest& manifest, WeightSource& source,
                                 const PlaceOptions& options = {});

// True for buffers that no checkpoint has, so that their absence is not reported: rotary frequencies, which
// transformers registers as not persistent.
[[nodiscard]] bool is_never_saved(std::string_view path);

// Returns the warning TP8025 that `count` buffers are not stored.
[[nodiscard]] Fault missing_buffers(const std::string& path, size_t count);

}  // namespace tpplan
