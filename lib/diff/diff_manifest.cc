#include "diff/diff_manifest.h"

#include <algorithm>

#include "diff/diff_calls.h"
#include "diff/diff_collectives.h"
#include "diff/diff_fields.h"
#include "diff/diff_lists.h"
#include "diff/diff_rules.h"

namespace tpplan {
namespace {

RankBytes rank_bytes_of(const Manifest& m) {
  const ManifestTotals& t = m.totals;
  RankBytes bytes{.ranks = static_cast<uint64_t>(device_count(m.mesh)),
                  .min = {},
                  .max = t.max_bytes_per_rank,
                  .total = t.bytes,
                  .ideal = t.ideal_bytes_per_rank,
                  .replicated = t.replicated_bytes_per_rank};
  if (!t.bytes_per_rank.empty()) bytes.min = *std::min_element(t.bytes_per_rank.begin(), t.bytes_per_rank.end());
  return bytes;
}

bool is_same(const ListDiff& list) { return list.added.empty() && list.removed.empty() && list.changed.empty(); }

}  // namespace

// Does not compare `collectives` for `same`, because their counts follow from the lists and settings.
ManifestDiff diff_manifests(const Manifest& old_manifest, const Manifest& new_manifest) {
  ManifestDiff diff;
  diff.inputs = compare_fields(input_fields(), old_manifest, old_manifest, new_manifest, new_manifest);
  diff.settings = compare_fields(setting_fields(), old_manifest, old_manifest, new_manifest, new_manifest);
  // If only one manifest lists calls, CallsDiff reports it, so `step` is not a changed setting.
  if (old_manifest.has_collectives != new_manifest.has_collectives)
    std::erase_if(diff.settings, [](const FieldChange& change) { return change.field == "step"; });
  const RenamedRules renamed = find_renamed_rules(old_manifest, new_manifest);
  diff.rules = diff_rules(old_manifest, new_manifest, renamed);
  diff.parameters = diff_params(old_manifest, old_manifest.parameters, new_manifest, new_manifest.parameters, renamed);
  diff.buffers = diff_params(old_manifest, old_manifest.buffers, new_manifest, new_manifest.buffers, renamed);
  diff.modules = diff_modules(old_manifest, new_manifest, renamed);
  diff.collectives = diff_collectives(old_manifest, new_manifest);
  diff.calls = diff_calls(old_manifest, new_manifest);
  diff.bytes_before = rank_bytes_of(old_manifest);
  diff.bytes_after = rank_bytes_of(new_manifest);
  diff.same = diff.settings.empty() && diff.rules.empty() && is_same(diff.parameters) && is_same(diff.buffers) &&
              is_same(diff.modules) && diff.calls.changes.empty() && old_manifest.totals == new_manifest.totals;
  return diff;
}

}  // namespace tpplan
