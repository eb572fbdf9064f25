#include "match/nearest_path.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>

#include "base/text.h"

namespace tpplan {
namespace {

// A hint is worth the work of a moment: so many different ends are kept, and so many bytes of paths gone through.
// Models with a million paths, and plans with thousands of dead keys, are answered as quickly as others.
constexpr size_t kMaxCandidates = 20'000;
constexpr uint64_t kMaxPassedBytes = 64'000'000;

bool is_number(std::string_view atom) {
  return !atom.empty() && std::all_of(atom.begin(), atom.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "layers.3.wq" -> "layers.*.wq", so that 32 layers are one candidate.
std::string without_numbers(std::string_view path, char mark) {
  std::string text;
  for (const std::string_view atom : split(path, mark)) {
    if (!text.empty()) text += mark;
    text += is_number(atom) ? "*" : atom;
  }
  return text;
}

// The last `count` parts of a path.
std::string_view tail(std::string_view path, size_t count, char mark) {
  size_t at = path.size();
  while (count-- > 0) {
    at = path.substr(0, at).rfind(mark);
    if (at == std::string_view::npos) return path;
  }
  return path.substr(at + 1);
}

template <typename Visit>
void for_each_path(const ModelGraph& graph, PathsOf paths, Visit visit) {
  for (const Module& module : graph.modules) visit(module.path);
  if (paths == PathsOf::Modules) return;
  std::string path;
  for (const Param& param : graph.params) {
    assign_path(path, graph, param);
    visit(std::string_view(path));
  }
}

// Adds what one pass over the paths finds out about their last `parts` parts.
void read_ends(const ModelGraph& graph, PathsOf paths, size_t parts, PathEnds& ends) {
  const char mark = separator(graph.framework);
  for_each_path(graph, paths, [&](std::string_view path) {
    if (const std::string_view end = tail(path, parts, mark); end.size() < path.size())
      // A hash, for there is an end of each path: two ends with one hash would only make a hint wrong.
      ends.of_longer.push_back(std::hash<std::string_view>{}(end));
    if (ends.candidates.size() >= kMaxCandidates) return;
    const std::string whole = without_numbers(path, mark);
    const std::string_view end = tail(whole, parts, mark);
    PathEnds::Candidate& candidate = ends.candidates[std::string(end)];
    ++candidate.paths;
    candidate.is_whole = candidate.is_whole && end.size() == whole.size();
  });
  std::sort(ends.of_longer.begin(), ends.of_longer.end());
  for (const auto& [name, candidate] : ends.candidates) ends.names.push_back(name);
}

}  // namespace

bool spend_pass(PathHints& hints) {
  if (hints.passed_bytes >= kMaxPassedBytes) return false;
  if (hints.bytes == 0)
    for_each_path(hints.graph, PathsOf::ModulesAndParameters,
                  [&](std::string_view path) { hints.bytes += path.size() + 1; });
  hints.passed_bytes += hints.bytes;
  return true;
}

// The sure answer first: keys are whole paths, and a key that is the end of longer ones lacks its beginning. Then
// spelling. One pass over all paths serves every key of as many parts.
std::string nearest_path_help(PathHints& hints, std::string_view key, PathsOf paths) {
  const char mark = separator(hints.graph.framework);
  // A key such as "*.wq" says nothing about what stands before the first literal part.
  std::string_view literal = key;
  while (literal.starts_with('*') || literal.starts_with(mark)) literal.remove_prefix(1);
  if (literal.empty()) return "";
  const std::string wanted = without_numbers(literal, mark);
  const size_t parts = split(wanted, mark).size();
  PathEnds& ends = hints.ends[{paths, parts}];
  if (ends.names.empty()) {
    if (!spend_pass(hints)) return "";
    read_ends(hints.graph, paths, parts, ends);
  }
  const auto [first, last] =
      std::equal_range(ends.of_longer.begin(), ends.of_longer.end(), std::hash<std::string_view>{}(literal));
  const auto endings = last - first;
  if (endings > 0 && paths != PathsOf::Block)
    return fmt::format("{} in `{}{}`: keys are whole paths, `*{}{}` matches them",
                       endings == 1 ? "one path ends" : fmt::format("{} paths end", endings), mark, literal, mark,
                       literal);
  const auto [known, is_new] = ends.nearest.try_emplace(wanted);
  if (is_new) known->second = nearest_name(wanted, ends.names, hints.compared_left);
  const std::string_view nearest = known->second;
  if (nearest.empty() || nearest == wanted) return "";
  const PathEnds::Candidate& meant = ends.candidates.find(nearest)->second;
  const std::string_view prefix = literal.size() < key.size() ? key.substr(0, key.size() - literal.size()) : "";
  const std::string lead = meant.is_whole || paths == PathsOf::Block ? ""
                           : prefix.empty()                          ? std::string("*") + mark
                                                                     : std::string(prefix);
  return fmt::format("did you mean `{}{}`? ({})", lead, nearest, counted(meant.paths, "path"));
}

}  // namespace tpplan
