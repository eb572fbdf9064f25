// What every style does, as rows. A new style is a row (two, where torch and transformers mean different things by it).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sharding/placement.h"

namespace tpplan {

// Whose meaning a style's name has, as bits: a row may be of several. A dialect goes by one of them (plan/dialects.h).
enum StyleSet : uint8_t { kOwnStyles = 1, kTorchStyles = 2, kTransformersStyles = 4 };
inline constexpr std::string_view kSequenceParallel = "sequence_parallel";

// Options that a rule may carry beside its style, as bits, from 1 on without a gap.
enum StyleOption : uint16_t {
  kInputLayouts = 1,
  kDesiredInputLayouts = 2,
  kInputKwargLayouts = 4,
  kDesiredInputKwargLayouts = 8,
  kOutputLayouts = 16,
  kDesiredOutputLayouts = 32,
  kUseLocalInput = 64,
  kUseLocalOutput = 128,
  kSequenceDim = 256,
  kForwardDtype = 512,
  kBackwardDtype = 1024,
};

// Which dim of a parameter a style cuts when only the number of dims decides (transformers): an index, from the end
// when negative.
using DimPosition = int8_t;
inline constexpr DimPosition kCutsNothing = 100, kRefuses = 101;

// Which modules a style fits in the dialects that go by dim names.
enum class StyleModules : uint8_t { Any, LinearOrEmbedding, EmbeddingOnly, WithDims };

// One value at a module's boundary: the layout it is taken to have on the style's axis, and the one it is brought to.
// `from` absent: the style leaves the boundary alone.
struct BoundaryRow {
  bool used = false;
  Placement from{};
  Placement to{};
  bool gradient_is_partial = false;  // inputs: the module leaves a sum over the axis open in this gradient
};

struct StyleRow {
  std::string_view name;
  uint8_t sets = 0;                         // StyleSets in which this row is the meaning of the name
  std::string_view cut_dim{};               // dim name that is cut; empty: parameters stay whole
  DimPosition at_one_dim = kCutsNothing;    // transformers: in 1-D parameters
  DimPosition at_more_dims = kCutsNothing;  // transformers: in all others
  bool bias_stays_whole = false;            // transformers: a parameter called `bias` is not cut
  uint8_t packed_segments = 1;              // the cut dim is this many fused segments, where the model names none
  StyleModules modules = StyleModules::Any;
  bool touches_parameters = true;  // false: boundaries only, never in conflict over a parameter
  BoundaryRow input{};
  BoundaryRow output{};
  int second_input = 0;                   // another argument that enters as the first one does; 0: none
  bool use_local = true;                  // outputs leave as local tensors
  bool sums_parameter_gradients = false;  // the parameters' gradients are summed over the axis
  bool counts_modules = false;            // `matches` counts modules
  bool is_for_experts = false;            // other modules have no use for it
  bool wraps_parameters =
      false;                     // transformers: makes DTensors of the module's own parameters, and takes none that are
  bool once_per_module = false;  // torch: a second such style on a module is an error
  uint16_t options = 0;
};

[[nodiscard]] std::span<const StyleRow> style_table();

// The row of a style in a set, nullptr when the set lacks it.
[[nodiscard]] const StyleRow* find_style(std::string_view name, StyleSet set);

// True when any set has it.
[[nodiscard]] bool is_style(std::string_view name);

// All options of a style: its own, and the types that what it moves is moved in, where it has a boundary.
[[nodiscard]] inline uint16_t known_options(const StyleRow& style) {
  const bool moves = style.input.used || style.output.used;
  return static_cast<uint16_t>(style.options | (moves ? kForwardDtype | kBackwardDtype : 0));
}

inline constexpr uint16_t kLastOption = kBackwardDtype;
[[nodiscard]] std::string_view option_name(StyleOption option);
// 0 when there is no such option.
[[nodiscard]] uint16_t find_option(std::string_view name);

}  // namespace tpplan
