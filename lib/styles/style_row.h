// A row of the table of styles: what a style does to parameters, and its steps at module boundaries per runtime.
#pragma once

#include <cstdint>
#include <string_view>

#include "sharding/placement.h"
#include "styles/boundary_steps.h"
#include "styles/style_options.h"

namespace tpplan {

// Sets of style names, as bits: a row can be in several. A dialect uses one of them (plan/dialects.h).
enum StyleSet : uint8_t { kTpplanStyles = 1, kTorchStyles = 2, kTransformersStyles = 4 };
inline constexpr std::string_view kSequenceParallel = "sequence_parallel";

// The dim of a parameter that a style shards if only the number of dims decides (transformers): an index, negative from
// the end.
using DimPosition = int8_t;
inline constexpr DimPosition kNoShardedDim = 100, kRejects = 101;

// The modules that a style fits in dialects that use dim names.
enum class StyleModules : uint8_t { Any, LinearOrEmbedding, EmbeddingOnly, WithDims };

// One value at a module boundary: its declared placement on the style's axis, and the one to which it is redistributed.
// `used` is false if the style does not change the boundary.
struct BoundaryRow {
  bool used = false;
  Placement from{};
  Placement to{};
  bool gradient_is_partial = false;  // inputs: the gradient is partial over the axis
  bool operator==(const BoundaryRow&) const = default;
};

struct StyleRow {
  std::string_view name;
  uint8_t sets = 0;                          // StyleSets in which this row defines the name
  std::string_view shard_dim{};              // name of the sharded dim; empty: parameters are replicated
  DimPosition at_one_dim = kNoShardedDim;    // transformers: in 1-D parameters
  DimPosition at_more_dims = kNoShardedDim;  // transformers: in all others
  bool is_bias_replicated = false;           // transformers: a parameter called `bias` is replicated
  uint8_t packed_segments = 1;               // number of fused segments of the sharded dim, if the model names none
  StyleModules modules = StyleModules::Any;
  bool touches_parameters = true;         // false: boundaries only, never in conflict over a parameter
  bool use_local = true;                  // outputs leave as local tensors
  bool sums_parameter_gradients = false;  // the parameters' gradients are summed over the axis
  bool counts_modules = false;            // `matches` counts modules
  bool is_for_experts = false;            // other modules have no use for it
  bool wraps_parameters =
      false;                     // transformers: makes DTensors of the module's own parameters, and takes none that are
  bool once_per_module = false;  // torch: a second such style on a module is an error
  uint16_t options = 0;
  TransformersSteps transformers{};
  TorchSteps torch{};
  TpplanSteps tpplan{};
  std::string_view torch_class{};  // torch's class
  std::string_view use{};          // its place in a model
  std::string_view beside{};       // the layers before and after it
  // What follows from the steps (styles/derive_boundary.h). A row leaves it out.
  BoundaryRow input{};
  BoundaryRow output{};
  int second_input = 0;  // another argument that enters as the first one does; 0: none
};

// Returns all options of a style: those of its row, and the dtypes of communication if it changes a boundary.
[[nodiscard]] inline uint16_t known_options(const StyleRow& style) {
  const bool moves = style.input.used || style.output.used;
  return static_cast<uint16_t>(style.options | (moves ? kForwardDtype | kBackwardDtype : 0));
}

}  // namespace tpplan
