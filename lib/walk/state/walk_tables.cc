#include "walk/state/walk_tables.h"

#include <unordered_map>

namespace tpplan {
namespace {

// Returns the approximate count of numbers: 4 per rank and 32 more for each layout of a dim and each size, 32 for every
// other entry.
size_t numbers_in(const WalkTables& tables, const ValueLayoutTable& table) {
  const size_t by_rank = table.maps.maps.size() + tables.numbers.size();
  return by_rank * (table.maps.ranks * 4 + 32) + (table.layouts.size() + tables.memo.size()) * 32;
}

}  // namespace

void prepare_walk_tables(WalkTables& tables, ValueLayoutTable& table, const OpGraph& graph, std::vector<size_t> axes) {
  if (tables.graph == &graph && tables.axes == axes && numbers_in(tables, table) <= tables.most) return;
  tables = {.most = tables.most, .axes = axes};
  table = {};
  reset_for_axes(table.maps, std::move(axes));
  tables.replicated_by_shape = replicated_layouts(table, graph);
  std::unordered_map<int64_t, uint32_t> traced;  // about a thousand sizes have about a dozen numbers
  tables.traced_numbers.reserve(graph.sizes.size());
  for (const SizeEntry& entry : graph.sizes) {
    const auto [known, is_new] = traced.try_emplace(entry.traced, 0);
    if (is_new) known->second = id_of_number(tables, {std::vector<int64_t>(table.maps.ranks, entry.traced), 0});
    tables.traced_numbers.push_back(known->second);
  }
  tables.graph = &graph;
}

uint32_t id_of_number(WalkTables& tables, SizeNumber number) {
  const auto [entry, is_new] = tables.number_index.try_emplace({std::move(number.local), number.axes},
                                                               static_cast<uint32_t>(tables.numbers.size()));
  if (is_new) tables.numbers.push_back({entry->first.first, entry->first.second});
  return entry->second;
}

}  // namespace tpplan
