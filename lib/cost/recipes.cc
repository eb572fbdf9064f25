#include "cost/recipes.h"

#include <algorithm>
#include <iterator>

namespace tpplan {
namespace {

using As = ElementDtype;

constexpr Recipe kRecipes[] = {
    {"none", As::None, false, 0, As::None, "no training: parameters and buffers"},
    {"sgd", As::Parameter, false, 0, As::None, "torch.optim.SGD: gradients in the parameter dtype"},
    {"sgd_momentum", As::Parameter, false, 1, As::Parameter, "torch.optim.SGD with momentum in the parameter dtype"},
    {"adamw", As::Parameter, false, 2, As::Parameter,
     "torch.optim.AdamW: gradients and two moments in the parameter dtype"},
    {"adamw_fp32", As::Parameter, false, 2, As::Float32, "AdamW with two float32 moments for any parameter dtype"},
    {"adamw_mixed", As::Parameter, true, 2, As::Float32,
     "AdamW with a float32 copy of the parameters and float32 moments"},
    {"adamw_mixed_fp32_gradients", As::Float32, true, 2, As::Float32, "adamw_mixed with gradients summed in float32"},
    {"lion", As::Parameter, false, 1, As::Parameter, "Lion: one momentum in the parameter dtype"},
};

constexpr int kFloat32Bits = 32;

bool needs_master(DType dtype) {
  return dtypes()[dtype].kind == DTypeKind::Float && dtypes()[dtype].bits < kFloat32Bits;
}

uint64_t bytes_as(ElementDtype as, DType dtype, uint64_t elements) {
  if (as == ElementDtype::None) return 0;
  return byte_size(as == ElementDtype::Parameter ? dtype : dtype_of("float32"), elements);
}

}  // namespace

TrainedBytes trained_bytes(const Recipe& recipe, DType dtype, uint64_t elements) {
  if (!is_trainable(dtype)) return {};
  return {.gradient = bytes_as(recipe.gradient, dtype, elements),
          .master = recipe.master && needs_master(dtype) ? bytes_as(ElementDtype::Float32, dtype, elements) : 0,
          .state = bytes_as(recipe.state, dtype, elements)};
}

bool keeps_float32_shard(const Recipe& recipe, bool has_fsdp, DType dtype) {
  return has_fsdp && recipe.master && dtypes()[dtype].bits < kFloat32Bits;
}

std::span<const Recipe> recipes() { return kRecipes; }

std::vector<std::string_view> recipe_names() {
  std::vector<std::string_view> names;
  for (const Recipe& recipe : kRecipes) names.push_back(recipe.name);
  return names;
}

const Recipe* find_recipe(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kRecipes), std::end(kRecipes), [&](const Recipe& row) { return row.name == name; });
  return found == std::end(kRecipes) ? nullptr : &*found;
}

}  // namespace tpplan
