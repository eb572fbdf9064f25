#include "match/nearest_path.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "base/text.h"

namespace tpplan {
namespace {

constexpr size_t kMaxCandidates = 20'000;

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

}  // namespace

std::string nearest_path_help(const ModelGraph& graph, std::string_view key, PathsOf paths) {
  const char mark = separator(graph.framework);
  // A key such as "*.wq" says nothing about what stands before the first literal part.
  std::string_view literal = key;
  while (literal.starts_with('*') || literal.starts_with(mark)) literal.remove_prefix(1);
  if (literal.empty()) return "";
  const std::string wanted = without_numbers(literal, mark);
  const size_t parts = split(wanted, mark).size();
  size_t endings = 0;
  struct Candidate {
    size_t paths = 0;
    bool is_whole = true;  // every such path is no longer than this
  };
  std::map<std::string, Candidate> candidates;
  for_each_path(graph, paths, [&](std::string_view path) {
    if (path.size() > literal.size() && path.ends_with(literal) && path[path.size() - literal.size() - 1] == mark) ++endings;
    if (candidates.size() >= kMaxCandidates) return;
    const std::string whole = without_numbers(path, mark);
    const std::string_view end = tail(whole, parts, mark);
    Candidate& candidate = candidates[std::string(end)];
    ++candidate.paths;
    candidate.is_whole = candidate.is_whole && end.size() == whole.size();
  });
  if (endings > 0 && paths != PathsOf::Block) return fmt::format("{} in `{}{}`: keys are whole paths, `*{}{}` matches them", endings == 1 ? "one path ends" : fmt::format("{} paths end", endings), mark, literal, mark, literal);
  std::vector<std::string_view> names;
  for (const auto& [name, candidate] : candidates) names.push_back(name);
  const std::string_view nearest = nearest_name(wanted, names);
  if (nearest.empty() || nearest == wanted) return "";
  const Candidate& meant = candidates[std::string(nearest)];
  const std::string_view prefix = literal.size() < key.size() ? key.substr(0, key.size() - literal.size()) : "";
  const std::string lead = meant.is_whole || paths == PathsOf::Block ? "" : prefix.empty() ? std::string("*") + mark : std::string(prefix);
  return fmt::format("did you mean `{}{}`? ({})", lead, nearest, counted(meant.paths, "path"));
}

}  // namespace tpplan
