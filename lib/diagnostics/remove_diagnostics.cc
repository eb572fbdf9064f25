#include "diagnostics/remove_diagnostics.h"

#include <vector>

namespace tpplan {

void remove_diagnostics(Diagnostics& diagnostics, const std::function<bool(const Diagnostic&)>& is_replaced) {
  std::vector<size_t> place(diagnostics.list.size());  // new index by old index; a removed one has that of the next
  size_t kept = 0;
  for (size_t i = 0; i < diagnostics.list.size(); ++i) {
    place[i] = kept;
    if (is_replaced(diagnostics.list[i])) continue;
    if (kept != i) diagnostics.list[kept] = std::move(diagnostics.list[i]);
    ++kept;
  }
  if (kept == diagnostics.list.size()) return;
  const auto is_gone = [&](size_t i) { return i + 1 < place.size() ? place[i + 1] == place[i] : kept == place[i]; };
  std::erase_if(diagnostics.causes, [&](const auto& cause) { return is_gone(cause.second); });
  for (auto& [cause, index] : diagnostics.causes) index = place[index];
  diagnostics.list.resize(kept);
  diagnostics.tallies.assign(diagnostics.tallies.size(), {});
  for (size_t i = 0; i < kept; ++i) {
    CodeTally& tally = diagnostics.tallies[static_cast<size_t>(diagnostics.list[i].code)];
    ++tally.listed;
    tally.last = i;
  }
}

}  // namespace tpplan
