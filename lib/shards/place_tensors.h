// Headers and a manifest -> where the bytes of each of its tensors stand.
#pragma once

#include <string>
#include <string_view>

#include "manifest/manifest.h"
#include "shards/open_weights.h"

namespace tpplan {

// Fills tensors and missing of `source` from its headers: every tensor of the manifest stands under its name or one
// that is tied to it, with the manifest's shape and dtype, or as `options` have it. What does not is noted in its
// findings (`path` names the whole source); false after any error. No file is touched.
[[nodiscard]] bool place_tensors(const std::string& path, const Manifest& manifest, WeightSource& source,
                                 const PlaceOptions& options = {});

// Whether a buffer is one that no checkpoint has, so that nothing need be said where it is left out: the frequencies of
// rotary positions, which transformers registers as not persistent.
[[nodiscard]] bool is_never_saved(std::string_view path);

// The warning that as many buffers stand nowhere.
[[nodiscard]] Fault missing_buffers(const std::string& path, size_t count);

}  // namespace tpplan
