#include "emit/write_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "emit/emit_text.h"
#include "emit/path_groups.h"

namespace tpplan {
namespace {

// Comparisons of a glob with a path in all; beyond them, globs that need none are written.
constexpr size_t kMaxComparisons = 20'000'000;

// YAML takes a key for one only when its colon follows within 1024 bytes, unless `?` announces it.
constexpr size_t kMaxSimpleKey = 1000;

struct PlanWriter {
  const SpecsFile& specs;
  std::vector<std::string_view> paths;
  std::vector<uint32_t> sorted;    // paths in alphabetical order
  std::vector<uint32_t> group_of;  // by path
  size_t comparisons = 0;
};

// The glob that matches this text alone. A path without these characters is an exact key.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[')
      out += fmt::format("[{}]", c);
    else
      out += c;
  }
  return out;
}

// The path's glob, with `wildcard(number)` for the numbers that vary.
template <typename Wildcard>
std::string glob_of(std::string_view path, const std::vector<bool>& varies, Wildcard wildcard) {
  const NumberedPath split = split_numbers(path);
  std::string glob = escaped(split.texts[0]);
  for (size_t i = 0; i < split.numbers.size(); ++i) {
    glob += varies[i] ? wildcard(split.numbers[i]) : std::string(split.numbers[i]);
    glob += escaped(split.texts[i + 1]);
  }
  return glob;
}

// True when `path` is these pieces with anything between them: what `*` between the pieces matches.
bool matches_pieces(std::string_view path, const std::vector<std::string>& pieces) {
  if (!path.starts_with(pieces.front())) return false;
  size_t at = pieces.front().size();
  for (size_t i = 1; i + 1 < pieces.size(); ++i) {
    at = path.find(pieces[i], at);
    if (at == std::string_view::npos) return false;
    at += pieces[i].size();
  }
  return path.size() >= at + pieces.back().size() && path.ends_with(pieces.back());
}

// The texts between the stars.
std::vector<std::string> pieces_of(std::string_view path, const std::vector<bool>& varies) {
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

// True when stars for the numbers that vary match no path outside the group: only paths that start alike can be
// matched.
bool stars_are_exact(PlanWriter& writer, const PathGroup& group) {
  const std::vector<std::string> pieces = pieces_of(writer.paths[group.members[0]], group.varies);
  const std::string_view prefix = pieces.front();
  const auto starts_before = [&](uint32_t i, std::string_view text) {
    return writer.paths[i].substr(0, text.size()) < text;
  };
  auto at = std::lower_bound(writer.sorted.begin(), writer.sorted.end(), prefix, starts_before);
  for (; at != writer.sorted.end() && writer.paths[*at].starts_with(prefix); ++at) {
    const bool is_member = writer.group_of[*at] == writer.group_of[group.members[0]];
    if (++writer.comparisons > kMaxComparisons) return false;
    if (!is_member && matches_pieces(writer.paths[*at], pieces)) return false;
  }
  return true;
}

// Globs with one class for each digit, one glob for each combination of lengths: they match numbers and nothing else.
std::vector<std::string> digit_globs(const PlanWriter& writer, const PathGroup& group) {
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

std::vector<std::string> keys_of(PlanWriter& writer, const PathGroup& group) {
  const std::string_view path = writer.paths[group.members[0]];
  if (group.members.size() == 1) return {escaped(path)};
  if (stars_are_exact(writer, group))
    return {glob_of(path, group.varies, [](std::string_view) { return std::string("*"); })};
  return digit_globs(writer, group);
}

// Names that YAML reads as text without quotes.
std::string name_text(std::string_view name) {
  static constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz";
  static constexpr std::string_view words[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "none"};
  const bool plain = !name.empty() && letters.find(name[0]) != std::string_view::npos &&
                     name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
  return plain && std::find(std::begin(words), std::end(words), name) == std::end(words) ? std::string(name)
                                                                                         : quoted(name);
}

// An axis called `...` would be the ellipsis, were it not in a list.
std::string entry_text(const DimAxes& axes, const Mesh& mesh) {
  if (axes.empty()) return "null";
  std::vector<std::string> names;
  for (const AxisId axis : axes) names.push_back(name_text(mesh.axes[axis].name));
  return names.size() == 1 && mesh.axes[axes[0]].name != "..." ? names[0] : list_text(names);
}

std::string rule_text(const NamedSpec& named, const SpecsFile& specs) {
  std::vector<std::string> entries;
  for (const DimAxes& axes : named.spec) entries.push_back(entry_text(axes, specs.mesh));
  if (!specs.has_all_dims) entries.push_back("...");
  const bool cuts = std::ranges::any_of(named.spec, [](const DimAxes& axes) { return !axes.empty(); });
  return fmt::format("{{spec: {}{}}}", list_text(entries), cuts && !named.has_segments ? ", contiguous: true" : "");
}

std::string head_text(const SpecsFile& specs, std::string_view format) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : specs.mesh.axes) axes.push_back(fmt::format("{}: {}", name_text(axis.name), axis.size));
  return fmt::format("# Written by tpplan import --from {}.\nformat: tpplan.plan/1\nmesh: {{{}}}\n{}tp_plan:\n", format,
                     fmt::join(axes, ", "), specs.uneven == UnevenPolicy::Torch ? "uneven: torch\n" : "");
}

}  // namespace

std::string plan_text(const SpecsFile& specs, std::string_view format) {
  PlanWriter writer{.specs = specs,
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
  std::string out = head_text(specs, format);
  for (const PathGroup& group : groups) {
    const std::string rule = rule_text(specs.specs[group.members[0]], specs);
    for (const std::string& key : keys_of(writer, group)) {
      const std::string name = quoted(key);
      out += name.size() > kMaxSimpleKey ? fmt::format("  ? {}\n  : {}\n", name, rule)
                                         : fmt::format("  {}: {}\n", name, rule);
    }
  }
  return out;
}

}  // namespace tpplan
