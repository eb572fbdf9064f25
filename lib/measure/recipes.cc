#include "measure/recipes.h"

#include <algorithm>
#include <iterator>

namespace tpplan {
namespace {

using As = KeptAs;

constexpr Recipe kRecipes[] = {
    {"none", As::None, false, 0, As::None, "no training: parameters and buffers"},
    {"sgd", As::Parameter, false, 0, As::None, "torch.optim.SGD: gradients as the parameters are"},
    {"sgd_momentum", As::Parameter, false, 1, As::Parameter, "torch.optim.SGD with momentum, as the parameters are"},
    {"adamw", As::Parameter, false, 2, As::Parameter,
     "torch.optim.AdamW: gradients and two moments as the parameters are"},
    {"adamw_fp32", As::Parameter, false, 2, As::Float32, "AdamW with two float32 moments, whatever the parameters are"},
    {"adamw_mixed", As::Parameter, true, 2, As::Float32,
     "AdamW with a float32 copy of the parameters and float32 moments"},
    {"adamw_mixed_fp32_gradients", As::Float32, true, 2, As::Float32, "the same, and gradients summed in float32"},
    {"lion", As::Parameter, false, 1, As::Parameter, "Lion: one momentum as the parameters are"},
};

constexpr int kFloat32Bits = 32;

bool needs_master(DType dtype) {
  return dtypes()[dtype].kind == DTypeKind::Float && dtypes()[dtype].bits < kFloat32Bits;
}

uint64_t bytes_as(KeptAs as, DType dtype, uint64_t elements) {
  if (as == KeptAs::None) return 0;
  return byte_size(as == KeptAs::Parameter ? dtype : dtype_of("float32"), elements);
}

}  // namespace

TrainedBytes trained_bytes(const Recipe& recipe, DType dtype, uint64_t elements) {
  if (!is_trained(dtype)) return {};
  return {.gradient = bytes_as(recipe.gradient, dtype, elements),
          .master = recipe.master && needs_master(dtype) ? bytes_as(KeptAs::Float32, dtype, elements) : 0,
          .state = bytes_as(recipe.state, dtype, elements)};
}

std::span<const Recipe> recipes() { return kRecipes; }

const Recipe* find_recipe(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kRecipes), std::end(kRecipes), [&](const Recipe& row) { return row.name == name; });
  return found == std::end(kRecipes) ? nullptr : &*found;
}

}  // namespace tpplan
