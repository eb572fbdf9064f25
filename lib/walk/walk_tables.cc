#include "walk/walk_tables.h"

#include <unordered_map>

namespace tpplan {
namespace {

// What stands in maps and sizes takes a number a rank and more; the rest some dozens each.
size_t numbers_in(const WalkTables& tables) {
  const size_t by_rank = tables.table.maps.maps.size() + tables.numbers.size();
  return by_rank * (tables.table.maps.ranks * 4 + 32) + (tables.table.layouts.size() + tables.memo.size()) * 32;
}

}  // namespace

void use_tables(WalkTables& tables, const OpGraph& graph, std::vector<size_t> axes) {
  if (tables.graph == &graph && tables.axes == axes && numbers_in(tables) <= tables.most) return;
  tables = {.most = tables.most, .axes = axes};
  set_axes(tables.table.maps, std::move(axes));
  tables.whole_of_shape = whole_layouts(tables.table, graph);
  std::unordered_map<int64_t, uint32_t> traced;  // a thousand sizes, a dozen numbers
  tables.traced_numbers.reserve(graph.sizes.size());
  for (const SizeEntry& entry : graph.sizes) {
    const auto [known, is_new] = traced.try_emplace(entry.traced, 0);
    if (is_new) known->second = number_id(tables, {std::vector<int64_t>(tables.table.maps.ranks, entry.traced), 0});
    tables.traced_numbers.push_back(known->second);
  }
  tables.graph = &graph;
}

uint32_t number_id(WalkTables& tables, SizeNumber number) {
  const auto [entry, is_new] = tables.number_index.try_emplace({std::move(number.local), number.axes},
                                                               static_cast<uint32_t>(tables.numbers.size()));
  if (is_new) tables.numbers.push_back({entry->first.first, entry->first.second});
  return entry->second;
}

}  // namespace tpplan
