// Scales, zero points and group indices of quantized weights: which weight a parameter belongs to, and which of its
// dims follow dims of that weight. The sizes give the blocks: a weight of [384, 256] with scales of [3, 2] has blocks
// of [128, 128].
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/model_graph.h"

namespace tpplan {

// One dim of a companion.
struct CompanionDim {
  int weight_dim = -1;  // the dim of the weight that it follows; -1: its elements apply to all of the weight's dim
  int64_t block = 1;    // stored elements of the weight per element of the companion
  int64_t repeat = 1;   // elements of the companion per stored element of the weight, which packs several values
};

// A parameter that is read with a quantized weight of the same module, element by element or block by block.
struct Companion {
  ParamId weight = kNone;
  std::vector<CompanionDim> dims;  // one per dim of the companion
};

// True for dtypes that store quantized weights: integers, float8 and smaller floats.
[[nodiscard]] bool is_quantized(DType dtype);

// True if a parameter may be a quantized weight. Models without one need no search for companions.
[[nodiscard]] bool has_quantized(const ModelGraph& graph);

// Returns the weight that the parameter belongs to, by the names of the two and by their sizes. Empty if it belongs to
// none, or if sizes do not fit each other. `granularity` of the weight takes precedence over blocks that follow from
// sizes.
//
// Names: compressed-tensors and FP8 checkpoints (`weight_scale`, `weight_scale_inv`, `weight_zero_point`,
// `weight_packed`), GPTQ and AWQ (`qweight`, `scales`, `qzeros`, `g_idx`), mxfp4 of transformers (`*_blocks`,
// `*_scales`).
[[nodiscard]] std::optional<Companion> find_companion(const ModelGraph& graph, ParamId param);

// Returns the name whose rule a quantizer of transformers gives to the parameter `name`: `w` for `w_scale_inv`,
// `w_blocks` and `w_scales`; empty for other names. Source: update_parallel_plan in quantizers/base.py, with the names
// in `serialized_names` of the quantizers for FP8 and mxfp4.
[[nodiscard]] std::string_view quantizer_stem(std::string_view name);

// Returns the segments of a companion's dim that follow those of its weight's dim; empty if a block spans two segments.
[[nodiscard]] std::vector<int64_t> companion_segments(const CompanionDim& dim, std::span<const int64_t> segments);

// Names the dims of companions without names after the dims of their weights (`block0`, ... if they follow none), and
// gives them the segments of the weights.
void name_companion_dims(ModelGraph& graph);

}  // namespace tpplan
