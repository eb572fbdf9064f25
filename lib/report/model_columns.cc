#include "report/model_columns.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/path_patterns.h"
#include "base/starred_path.h"

namespace tpplan {
namespace {

constexpr std::string_view kBetween = "./";  // separators of path parts in torch and in Keras

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns the length of the column's path: up to the first part that ends in a digit, else all parts except the last.
size_t column_length(std::string_view path) {
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find_first_of(kBetween, begin), path.size());
    if (end > begin && end < path.size() && is_digit(path[end - 1])) return end;
    begin = end + 1;
  }
  const size_t last = path.find_last_of(kBetween);
  return last == std::string_view::npos ? path.size() : last;
}

// Returns a path without its trailing number: "model.layers.17" becomes "model.layers.". Merged layers must share it.
std::string_view without_number(std::string_view path) {
  while (!path.empty() && is_digit(path.back())) path.remove_suffix(1);
  return path;
}

void add(uint64_t& sum, uint64_t bytes) {
  if (__builtin_add_overflow(sum, bytes, &sum)) sum = ~uint64_t{0};
}

bool are_equal(const ModelColumn& a, const ModelColumn& b) {
  return a.bytes == b.bytes && without_number(a.path) == without_number(b.path) &&
         std::equal(a.cells.begin(), a.cells.end(), b.cells.begin(), b.cells.end(),
                    [](const ModelCell& x, const ModelCell& y) {
                      return x.group == y.group && x.count == y.count && x.path == y.path;
                    });
}

// Returns one column for each layer and module, before equal neighbors are merged.
std::vector<ModelColumn> single_columns(const Manifest& manifest, std::span<const ShardGroup> groups) {
  std::vector<uint32_t> group_of(manifest.parameters.size());
  for (uint32_t g = 0; g < groups.size(); ++g) {
    for (const uint32_t param : groups[g].params) group_of[param] = g;
  }
  const std::vector<bool> counted = untied_params(manifest);
  std::vector<ModelColumn> columns;
  std::map<std::string_view, size_t> known;
  std::vector<std::map<std::pair<std::string, uint32_t>, size_t>> cells_of;
  for (uint32_t i = 0; i < manifest.parameters.size(); ++i) {
    if (!counted[i]) continue;
    const std::string_view path = path_of(manifest, manifest.parameters[i]);
    const size_t length = column_length(path);
    const auto [entry, is_new] = known.emplace(path.substr(0, length), columns.size());
    if (is_new) {
      columns.push_back({.path = std::string(path.substr(0, length)),
                         .between = std::string(path.substr(std::min(length, path.size()), 1)),
                         .cells = {}});
      cells_of.emplace_back();
    }
    ModelColumn& column = columns[entry->second];
    std::string rest = starred_path(path.substr(std::min(length + 1, path.size())));
    const auto [cell, is_new_cell] = cells_of[entry->second].emplace(std::pair(rest, group_of[i]), column.cells.size());
    if (is_new_cell) column.cells.push_back({.path = std::move(rest), .group = group_of[i]});
    const uint64_t bytes = global_bytes(layout_of(manifest, manifest.parameters[i]));
    ++column.cells[cell->second].count;
    ++column.tensors;
    add(column.cells[cell->second].bytes, bytes);
    add(column.bytes, bytes);
  }
  return columns;
}

}  // namespace

std::vector<ModelColumn> model_columns(const Manifest& manifest, std::span<const ShardGroup> groups) {
  std::vector<ModelColumn> columns = single_columns(manifest, groups);
  std::vector<ModelColumn> merged;
  for (size_t begin = 0, end = 0; begin < columns.size(); begin = end) {
    std::vector<std::string_view> paths;
    for (end = begin; end < columns.size() && are_equal(columns[begin], columns[end]); ++end)
      paths.push_back(columns[end].path);
    std::string path = path_patterns(paths)[0].text;
    merged.push_back(std::move(columns[begin]));
    merged.back().path = std::move(path);
    merged.back().count = end - begin;
  }
  return merged;
}

}  // namespace tpplan
