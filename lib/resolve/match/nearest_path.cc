#include "resolve/match/nearest_path.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>

#include "base/keyed_hash.h"
#include "base/text.h"
#include "resolve/match/key_parts.h"

namespace tpplan {
namespace {

// Limits on the work for hints, in distinct path shapes, parts of a path and bytes of scanned paths. They bound the
// time for models with a million paths and for plans with thousands of dead keys.
constexpr size_t kMaxShapes = 4'000;
constexpr size_t kMaxParts = 40;
constexpr uint64_t kMaxPassedBytes = 64'000'000;

// Costs of edits that turn the parts of a key into those of a path, in hundredths of a part.
constexpr int kMissingInFront = 30, kMissing = 60, kTooMany = 60, kTooManyInFront = 40, kOther = 100, kOtherName = 250,
              kLastTooMany = 150;
constexpr int kUnderStar = 15;                 // a part that matches a `*` of the key
constexpr int kNear = 150, kNearPerPart = 10;  // a path is near up to kNear + kNearPerPart * parts of the key

// ---- the paths of a model ----

template <typename Visit>
void for_each_path(const PathHints& hints, Visit visit) {
  const ModelGraph& graph = hints.graph;
  const auto is_free = [&](ParamId param) {
    return hints.matches == nullptr || hints.matches->params[param].rule == kNoRule;
  };
  std::string path;
  for (const Module& module : graph.modules) {
    bool is_module_free = module.param_count == 0;
    for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param)
      is_module_free = is_module_free || is_free(param);
    visit(module.path, PathShape{.has_parameters = module.param_count > 0, .is_free = is_module_free});
    for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
      assign_path(path, graph, graph.params[param]);
      visit(std::string_view(path), PathShape{.is_parameter = true, .has_parameters = true, .is_free = is_free(param)});
    }
  }
}

const PathShapes* shapes_below(PathHints& hints, ModuleId base) {
  const auto known = std::find_if(hints.shapes.begin(), hints.shapes.end(),
                                  [base](const PathShapes& shapes) { return shapes.base == base; });
  if (known != hints.shapes.end()) return &*known;
  if (!charge_pass(hints)) return nullptr;
  const ModelGraph& graph = hints.graph;
  const char mark = separator(graph.framework);
  PathShapes& shapes = hints.shapes.emplace_back();
  shapes.base = base;
  const std::string_view scope = base == kNone ? std::string_view{} : graph.modules[base].path;
  TextMap<std::string, size_t> at;
  for_each_path(hints, [&](std::string_view path, PathShape shape) {
    if (!scope.empty()) {
      if (path.size() <= scope.size() || !path.starts_with(scope) || path[scope.size()] != mark) return;
      path.remove_prefix(scope.size() + 1);
    }
    if (path.empty() || std::count(path.begin(), path.end(), mark) >= static_cast<std::ptrdiff_t>(kMaxParts)) return;
    shape.paths = 1;
    std::string joined;
    for (const std::string_view part : split(path, mark)) {
      shape.parts.push_back(without_number(part, graph.framework));
      joined += shape.parts.back() + mark;
    }
    const auto [found, is_new] = at.try_emplace(std::move(joined), shapes.list.size());
    if (!is_new) {
      ++shapes.list[found->second].paths;
      shapes.list[found->second].is_free |= shape.is_free;
    } else if (shapes.list.size() < kMaxShapes) {
      shapes.list.push_back(std::move(shape));
    } else {
      at.erase(found);
    }
  });
  return &shapes;
}

// ---- distances ----

int part_cost(std::string_view wanted, std::string_view part, bool is_last) {
  if (wanted == part) return 0;
  if (wanted == "*") return kUnderStar;
  const std::string a = fold_name(wanted), b = fold_name(part);
  if (a == b) return 10;
  if (is_same_leaf(wanted, part)) return 50;
  const size_t limit = std::max<size_t>(1, std::min(a.size(), b.size()) / 3);
  const size_t distance = edit_distance(a, b, limit);
  if (distance <= limit && std::max(a.size(), b.size()) > 1)
    return 20 + static_cast<int>(100 * distance / std::max<size_t>(1, b.size()));
  return is_last ? kOtherName : kOther;
}

// Returns the edit distance from the parts of a key to those of a path.
int distance_of(const std::vector<std::string>& key, const std::vector<std::string>& path) {
  std::vector<int> last(path.size() + 1), current(path.size() + 1);
  for (size_t j = 1; j <= path.size(); ++j) last[j] = last[j - 1] + kMissingInFront / (j == 1 ? 1 : 2);
  for (size_t i = 1; i <= key.size(); ++i) {
    const bool star = key[i - 1] == "*";
    const int unmatched_cost = star ? kUnderStar : i == key.size() ? kLastTooMany : kTooMany;
    current[0] = last[0] + (star ? kUnderStar : kTooManyInFront);
    for (size_t j = 1; j <= path.size(); ++j) {
      const bool is_last = i == key.size() && j == path.size();
      const int missing = current[j - 1] + (star ? kUnderStar : kMissing);
      const int too_many = last[j] + unmatched_cost;
      current[j] = std::min({last[j - 1] + part_cost(key[i - 1], path[j - 1], is_last), missing, too_many});
    }
    std::swap(last, current);
  }
  return last[path.size()];
}

// True if a part of the key, other than `*`, is similar to a part of the path. A path that matches only stars is not a
// useful hint.
bool share_a_name(const std::vector<std::string>& key, const std::vector<std::string>& path) {
  return std::ranges::any_of(key, [&path](const std::string& wanted) {
    return wanted != "*" && std::ranges::any_of(path, [&](const std::string& part) {
             return part != "*" && part_cost(wanted, part, false) < kOther;
           });
  });
}

// ---- hints ----

std::string written(const PathShape& shape, char mark, KeySyntax syntax) {
  std::string text;
  for (const std::string& part : shape.parts) {
    if (!text.empty()) text += syntax == KeySyntax::Regex && mark == '.' ? "\\." : std::string(1, mark);
    if (syntax == KeySyntax::Regex && part.ends_with('*'))
      text += part.substr(0, part.size() - 1) + "\\d+";
    else
      text += part;
  }
  return text;
}

bool may_name(const PathSearch& search, const PathShape& shape) { return search.parameters || !shape.is_parameter; }

// True if the path has parameters, or the search does not need them.
bool is_of_use(const PathSearch& search, const PathShape& shape) {
  return !search.needs_parameters || shape.has_parameters;
}

bool is_meant(const PathSearch& search, const PathShape& shape) { return !search.needs_parameters || shape.is_free; }

PathHint end_of_paths(const PathShapes& shapes, const std::vector<std::string>& parts, const PathSearch& search,
                      char mark) {
  PathHint hint;
  size_t found = 0;
  for (const PathShape& shape : shapes.list) {
    if (shape.parts.size() <= parts.size() || !may_name(search, shape)) continue;
    if (!std::equal(parts.rbegin(), parts.rend(), shape.parts.rbegin())) continue;
    ++found;
    hint.paths += shape.paths;
  }
  if (found < 2) return {};
  hint.key = (search.syntax == KeySyntax::Regex ? mark == '.' ? ".*\\." : ".*/" : std::string("*") + mark) +
             written({.parts = parts}, mark, search.syntax);
  return hint.key == search.key ? PathHint{} : hint;
}

// Returns the difference of a key from the proposed one as text: an added or removed prefix, or the separator;
// otherwise an empty text.
std::string change_of(std::string_view key, const std::string& proposal) {
  if (proposal.size() > key.size() && proposal.ends_with(key))
    return fmt::format("the prefix `{}`", proposal.substr(0, proposal.size() - key.size()));
  if (key.size() > proposal.size() && key.ends_with(proposal))
    return fmt::format("no prefix `{}`", key.substr(0, key.size() - proposal.size()));
  std::string dotted(key);
  std::replace(dotted.begin(), dotted.end(), '/', '.');
  if (dotted == proposal) return "`.` instead of `/`";
  std::replace(dotted.begin(), dotted.end(), '.', '/');
  if (dotted == proposal) return "`/` instead of `.`";
  return {};
}

}  // namespace

bool charge_pass(PathHints& hints) {
  if (hints.passed_bytes >= kMaxPassedBytes) return false;
  if (hints.bytes == 0)
    for_each_path(hints, [&](std::string_view path, const PathShape&) { hints.bytes += path.size() + 1; });
  hints.passed_bytes += hints.bytes;
  return true;
}

PathHint nearest_key(PathHints& hints, const PathSearch& search) {
  const ModelGraph& graph = hints.graph;
  const std::vector<std::string> parts = parts_of_key(search.key, graph.framework);
  const bool is_blank_or_comment =
      std::all_of(parts.begin(), parts.end(), [](const std::string& p) { return p == "*"; });
  if (parts.empty() || is_blank_or_comment || parts.size() > kMaxParts) return {};
  const PathShapes* shapes = shapes_below(hints, search.base);
  if (shapes == nullptr) return {};
  // If the key is a suffix of several path shapes, the hint matches all of them.
  const PathHint ends = end_of_paths(*shapes, parts, search, separator(graph.framework));
  if (!ends.key.empty()) return ends;
  const PathShape* nearest = nullptr;
  int best = kNear + kNearPerPart * static_cast<int>(parts.size()) + 1;
  for (const PathShape& shape : shapes->list) {
    if (!may_name(search, shape) || !is_meant(search, shape)) continue;
    const uint64_t work = parts.size() * shape.parts.size();
    if (hints.comparisons_left < work) {
      hints.comparisons_left = 0;
      return {};
    }
    hints.comparisons_left -= work;
    const int distance = distance_of(parts, shape.parts);
    // A path that differs only in notation or spelling is always proposed; a farther one only if the rule can use it.
    if (distance >= kOther && !is_of_use(search, shape)) continue;
    if (distance >= best || !share_a_name(parts, shape.parts)) continue;
    best = distance;
    nearest = &shape;
  }
  if (nearest == nullptr) return {};
  // If the key starts with a star, it matches suffixes of paths, and so should the hint.
  if (parts.front() == "*" && search.key.starts_with('*') && nearest->parts.size() >= parts.size()) {
    const std::vector<std::string> end(nearest->parts.end() - static_cast<std::ptrdiff_t>(parts.size() - 1),
                                       nearest->parts.end());
    if (PathHint ending = end_of_paths(*shapes, end, search, separator(graph.framework)); !ending.key.empty())
      return ending;
  }
  PathHint hint{.key = written(*nearest, separator(graph.framework), search.syntax),
                .paths = nearest->paths,
                .is_far = best >= kOther,
                .change = {}};
  if (hint.key == search.key) return {};
  hint.change = change_of(search.key, hint.key);
  return hint;
}

std::string nearby_names_help(PathHints& hints, const PathSearch& search) {
  constexpr size_t kMostNames = 8;
  const Framework framework = hints.graph.framework;
  std::vector<std::string> parts = parts_of_key(search.key, framework);
  const PathShapes* shapes = shapes_below(hints, search.base);
  if (shapes == nullptr || parts.size() < 2 || hints.comparisons_left < shapes->list.size()) return {};
  hints.comparisons_left -= shapes->list.size();
  parts.pop_back();
  const auto parent = std::ranges::find_if(
      shapes->list, [&](const PathShape& shape) { return !shape.is_parameter && shape.parts == parts; });
  if (parent == shapes->list.end()) return {};
  std::vector<std::string> names;
  for (const PathShape& shape : shapes->list) {
    const bool is_below = shape.parts.size() == parent->parts.size() + 1 && may_name(search, shape) &&
                          is_of_use(search, shape) && is_meant(search, shape) &&
                          std::equal(parent->parts.begin(), parent->parts.end(), shape.parts.begin());
    if (is_below) names.push_back(shape.parts.back());
  }
  if (names.empty() || names.size() > kMostNames) return {};
  return fmt::format("write a name that exists in `{}`: `{}`", written(*parent, separator(framework), search.syntax),
                     join(names, "`, `"));
}

std::string pattern_of_path(std::string_view path, Framework framework, KeySyntax syntax) {
  PathShape shape;
  for (const std::string_view part : split(path, separator(framework)))
    shape.parts.push_back(without_number(part, framework));
  return written(shape, separator(framework), syntax);
}

std::string examples_of_paths(PathHints& hints, KeySyntax syntax) {
  constexpr size_t kExamples = 3;
  const PathShapes* shapes = shapes_below(hints, kNone);
  if (shapes == nullptr) return {};
  std::vector<std::string> examples;
  const char mark = separator(hints.graph.framework);
  for (const PathShape& shape : shapes->list) {
    if (shape.is_parameter && examples.size() < kExamples) examples.push_back(written(shape, mark, syntax));
  }
  return fmt::format("`{}`", join(examples, "`, `"));
}

std::string nearest_path_help(PathHints& hints, const PathSearch& search) {
  const PathHint hint = nearest_key(hints, search);
  return hint.key.empty() ? "" : fmt::format("did you mean `{}`? ({})", hint.key, counted(hint.paths, "path"));
}

}  // namespace tpplan
