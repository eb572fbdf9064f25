#include "emit/plan_from_specs.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "emit/path_groups.h"

namespace tpplan {
namespace {

// The budget of comparisons of a glob with a path. After it, only globs that need no comparison are written.
constexpr size_t kMaxComparisons = 20'000'000;

struct KeyWriter {
  const SpecsFile& specs;
  std::vector<std::string_view> paths;
  std::vector<uint32_t> sorted;    // paths in alphabetical order
  std::vector<uint32_t> group_of;  // by path
  size_t comparisons = 0;
};

// Returns a glob that matches only this text.
std::string literal_glob(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[')
      out += fmt::format("[{}]", c);
    else
      out += c;
  }
  return out;
}

// Returns the glob of a path with `wildcard(number)` in place of varying numbers.
template <typename Wildcard>
std::string glob_of(std::string_view path, const std::vector<bool>& varies, Wildcard wildcard) {
  const NumberedPath split = split_numbers(path);
  std::string glob = literal_glob(split.texts[0]);
  for (size_t i = 0; i < split.numbers.size(); ++i) {
    glob += varies[i] ? wildcard(split.numbers[i]) : std::string(split.numbers[i]);
    glob += literal_glob(split.texts[i + 1]);
  }
  return glob;
}

// True if `path` has these texts in order with anything between them, as a glob with `*` between them. Each text is
// matched at its first occurrence: if a later one leads to a match, the first does, too.
bool matches_parts(std::string_view path, const std::vector<std::string>& pieces) {
  if (!path.starts_with(pieces.front())) return false;
  size_t at = pieces.front().size();
  for (size_t i = 1; i + 1 < pieces.size(); ++i) {
    at = path.find(pieces[i], at);
    if (at == std::string_view::npos) return false;
    at += pieces[i].size();
  }
  return path.size() >= at + pieces.back().size() && path.ends_with(pieces.back());
}

// Returns the texts between the stars.
std::vector<std::string> fixed_parts(std::string_view path, const std::vector<bool>& varies) {
  const NumberedPath split = split_numbers(path);
  std::vector<std::string> pieces = {std::string(split.texts[0])};
  for (size_t i = 0; i < split.numbers.size(); ++i) {
    if (varies[i])
      pieces.emplace_back();
    else
      pieces.back() += split.numbers[i];
    pieces.back() += split.texts[i + 1];
  }
  return pieces;
}

// True if stars for the varying numbers match no path outside the group. Only paths with the same prefix are compared.
bool stars_are_exact(KeyWriter& writer, const PathGroup& group) {
  const std::vector<std::string> pieces = fixed_parts(writer.paths[group.members[0]], group.varies);
  const std::string_view prefix = pieces.front();
  const auto starts_before = [&](uint32_t i, std::string_view text) {
    return writer.paths[i].substr(0, text.size()) < text;
  };
  auto at = std::lower_bound(writer.sorted.begin(), writer.sorted.end(), prefix, starts_before);
  for (; at != writer.sorted.end() && writer.paths[*at].starts_with(prefix); ++at) {
    const bool is_in_group = writer.group_of[*at] == writer.group_of[group.members[0]];
    if (++writer.comparisons > kMaxComparisons) return false;
    if (!is_in_group && matches_parts(writer.paths[*at], pieces)) return false;
  }
  return true;
}

// Returns globs with a class for each digit, one for each combination of lengths. They match numbers only.
std::vector<std::string> digit_globs(const KeyWriter& writer, const PathGroup& group) {
  std::vector<std::string> globs;
  const auto classes = [](std::string_view number) {
    std::string out;
    for (size_t i = 0; i < number.size(); ++i) out += "[0-9]";
    return out;
  };
  for (const uint32_t i : group.members) {
    std::string glob = glob_of(writer.paths[i], group.varies, classes);
    if (std::find(globs.begin(), globs.end(), glob) == globs.end()) globs.push_back(std::move(glob));
  }
  return globs;
}

// Prefers stars, which are short. Classes of digits are always exact, but need one glob for each length.
std::vector<std::string> keys_of(KeyWriter& writer, const PathGroup& group) {
  const std::string_view path = writer.paths[group.members[0]];
  if (group.members.size() == 1) return {literal_glob(path)};
  if (stars_are_exact(writer, group))
    return {glob_of(path, group.varies, [](std::string_view) { return std::string("*"); })};
  return digit_globs(writer, group);
}

PlanRule rule_of(const NamedSpec& named, const SpecsFile& specs, std::string key) {
  const bool cuts = std::ranges::any_of(named.spec, [](const DimAxes& axes) { return !axes.empty(); });
  PlanRule rule;
  rule.key = std::move(key);
  rule.spec = SpecTemplate{.before = named.spec, .after = {}, .has_ellipsis = !specs.has_all_dims};
  rule.contiguous = cuts && !named.has_segments;
  return rule;
}

}  // namespace

TpPlan plan_from_specs(const SpecsFile& specs) {
  KeyWriter writer{.specs = specs,
                   .paths = {},
                   .sorted = std::vector<uint32_t>(specs.specs.size()),
                   .group_of = std::vector<uint32_t>(specs.specs.size())};
  std::map<std::pair<PartitionSpec, bool>, uint32_t> known;
  std::vector<uint32_t> values;
  for (const NamedSpec& named : specs.specs) {
    writer.paths.push_back(named.path);
    values.push_back(
        known.emplace(std::pair(named.spec, named.has_segments), static_cast<uint32_t>(known.size())).first->second);
  }
  std::iota(writer.sorted.begin(), writer.sorted.end(), 0u);
  std::sort(writer.sorted.begin(), writer.sorted.end(),
            [&](uint32_t a, uint32_t b) { return writer.paths[a] < writer.paths[b]; });
  const std::vector<PathGroup> groups = group_paths(writer.paths, values);
  for (uint32_t g = 0; g < groups.size(); ++g) {
    for (const uint32_t i : groups[g].members) writer.group_of[i] = g;
  }
  TpPlan plan;
  plan.mesh = specs.mesh;
  plan.uneven = specs.uneven;
  for (const PathGroup& group : groups) {
    const NamedSpec& named = specs.specs[group.members[0]];
    for (std::string& key : keys_of(writer, group)) plan.rules.push_back(rule_of(named, specs, std::move(key)));
  }
  return plan;
}

}  // namespace tpplan
