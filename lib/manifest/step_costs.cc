#include "manifest/step_costs.h"

#include <algorithm>

namespace tpplan {

std::vector<MatmulWork> work_of(const StepCosts& costs) {
  std::vector<MatmulWork> sums;
  for (const LayerCosts& layer : costs.layers) {
    for (const MatmulWork& work : layer.work) {
      auto sum = std::find_if(sums.begin(), sums.end(), [&](const MatmulWork& s) { return s.dtype == work.dtype; });
      if (sum == sums.end()) sum = sums.insert(sums.end(), {.dtype = work.dtype});
      sum->forward += work.forward * layer.count;
      sum->backward += work.backward * layer.count;
      sum->again += work.again * layer.count;
    }
  }
  return sums;
}

}  // namespace tpplan
