#include "judge/phase.h"

#include <algorithm>
#include <iterator>

namespace tpplan {

static_assert(std::size(kPhaseNames) == static_cast<size_t>(Phase::Manifest) + 1);

bool find_phase(std::string_view name, Phase& phase) {
  const auto found = std::find(std::begin(kPhaseNames), std::end(kPhaseNames), name);
  phase = static_cast<Phase>(found - std::begin(kPhaseNames));
  return found != std::end(kPhaseNames);
}

}  // namespace tpplan
