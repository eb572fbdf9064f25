#include "manifest/coverage_gate.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/path_patterns.h"
#include "base/starred_path.h"
#include "base/text.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

double share_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

bool parse_share(std::string_view text, double& share) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if (percent) share /= 100;
  return share >= 0 && (share < 1 || (percent && share == 1));
}

// Sorts by pattern, then stably by bytes, so that groups of equal size have the same order on every machine.
std::vector<ReplicatedGroup> largest_replicated(const Manifest& manifest, size_t most) {
  struct Gathered {
    ReplicatedGroup group;
    std::vector<std::string_view> paths;
  };
  std::map<std::string, Gathered> groups;
  const std::vector<bool> counted = untied_params(manifest);
  for (size_t i = 0; i < manifest.parameters.size(); ++i) {
    const ManifestParam& param = manifest.parameters[i];
    const ParamLayout& layout = layout_of(manifest, param);
    if (!counted[i] || !is_fully_replicated(layout.sharding.spec, manifest.mesh)) continue;
    const std::string_view path = path_of(manifest, param);
    Gathered& gathered = groups[starred_path(path)];
    gathered.paths.push_back(path);
    ++gathered.group.count;
    gathered.group.bytes += bytes_of(layout.dtype, layout.shape);
  }
  std::vector<const Gathered*> sorted;
  for (const auto& [pattern, gathered] : groups) sorted.push_back(&gathered);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Gathered* a, const Gathered* b) { return a->group.bytes > b->group.bytes; });
  if (sorted.size() > most) sorted.resize(most);
  std::vector<ReplicatedGroup> largest;
  for (const Gathered* gathered : sorted) {
    largest.push_back(gathered->group);
    largest.back().pattern = ranged_path(gathered->paths);
  }
  return largest;
}

// A mesh of one device always passes, because no plan can shard there.
std::optional<Diagnostic> check_replicated(const Manifest& manifest, double limit) {
  const ManifestTotals& t = manifest.totals;
  const double share = share_of(t.replicated_bytes_per_rank, t.bytes);
  if (share <= limit || device_count(manifest.mesh) == 1) return std::nullopt;
  Diagnostic d;
  d.code = Code::TooMuchReplicated;
  d.message = fmt::format(
      "{:.3g} % of the model is replicated, but the limit is {:.3g} %: each rank holds {} ({:.1f} %), the ideal is {} "
      "({:.1f} %)",
      100 * share, 100 * limit, human_bytes(t.max_bytes_per_rank), 100 * share_of(t.max_bytes_per_rank, t.bytes),
      human_bytes(t.ideal_bytes_per_rank), 100 * share_of(t.ideal_bytes_per_rank, t.bytes));
  for (const ReplicatedGroup& group : largest_replicated(manifest, 5)) {
    const std::string count = group.count == 1 ? "" : fmt::format(", {} in all", group.count);
    d.notes.push_back({fmt::format("`{}` {}{}", group.pattern, human_bytes(group.bytes), count), {}});
  }
  // Parameters over axes of size 1 have a rule already, so more rules would not help.
  std::string lone;
  for (size_t axis = 0; axis < manifest.mesh.axes.size(); ++axis) {
    const bool is_named = std::ranges::any_of(manifest.layouts, [&](const ParamLayout& layout) {
      return uses_axis(layout.sharding.spec, static_cast<AxisId>(axis));
    });
    if (is_named && manifest.mesh.axes[axis].size == 1)
      lone += fmt::format("{}`{}`", lone.empty() ? "" : ", ", axis_name(manifest.mesh, axis));
  }
  if (!lone.empty()) d.notes.push_back({fmt::format("a sharding over only {} has no effect: its size is 1", lone), {}});
  d.help = lone.empty() ? "add rules for these, or raise --max-replicated"
                        : "add rules for these, enlarge the axis of size 1, or raise --max-replicated";
  return d;
}

}  // namespace tpplan
