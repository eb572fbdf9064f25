#include "measure/optimizers.h"

#include <algorithm>
#include <iterator>

namespace tpplan {
namespace {

constexpr Optimizer kOptimizers[] = {
    {"none", 0, "no optimizer state, as for inference"},
    {"sgd", 4, "SGD with momentum: one float32 momentum for each element"},
    {"adamw", 8, "AdamW: two float32 moments for each element"},
};

}  // namespace

std::span<const Optimizer> optimizers() { return kOptimizers; }

const Optimizer* find_optimizer(std::string_view name) {
  const auto found = std::find_if(std::begin(kOptimizers), std::end(kOptimizers),
                                  [&](const Optimizer& row) { return row.name == name; });
  return found == std::end(kOptimizers) ? nullptr : &*found;
}

}  // namespace tpplan
