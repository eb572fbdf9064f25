#include "model/graph_layout.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

#include "model/size_ops.h"

namespace tpplan {
namespace {

constexpr uint32_t kMostInline = 8;  // operations and operands of a size without a name

// The printed size entries and their positions. All vectors are indexed by size entry.
struct SizePlaces {
  std::vector<SizeEntry> entries;  // an operand refers to the first of equal entries
  std::vector<uint32_t> first_equal;
  std::vector<bool> is_needed, is_named;
  std::vector<uint32_t> known_at;  // the first position at which all its values are defined
};

// The operands of a size entry that are size entries.
struct EntryOperands {
  uint32_t entries[2];
  size_t count = 0;
};

EntryOperands operands_in(const SizeEntry& entry) {
  EntryOperands operands{};
  if (entry.op == SizeOp::Size) return operands;
  for (const SizeOperand& operand : {entry.a, entry.b}) {
    if (operand.is_entry) operands.entries[operands.count++] = static_cast<uint32_t>(operand.number);
  }
  return operands;
}

std::span<const uint32_t> list_of(const EntryOperands& operands) { return {operands.entries, operands.count}; }

// Operands precede their entries, so the operands of equal entries are already equal when the entries are compared.
void find_equal(const OpGraph& graph, SizePlaces& places) {
  std::map<std::tuple<SizeOp, bool, int64_t, bool, int64_t>, uint32_t> known;
  places.entries = graph.sizes;
  for (uint32_t id = 0; id < graph.sizes.size(); ++id) {
    SizeEntry& entry = places.entries[id];
    for (SizeOperand* operand : {&entry.a, &entry.b}) {
      if (operand->is_entry) operand->number = places.first_equal[static_cast<size_t>(operand->number)];
    }
    const auto key = std::tuple(entry.op, entry.a.is_entry, entry.a.number, entry.b.is_entry, entry.b.number);
    places.first_equal.push_back(known.try_emplace(key, id).first->second);
  }
}

uint32_t entry_of(const SizePlaces& places, int64_t id) { return places.first_equal[static_cast<size_t>(id)]; }

void find_frames(const OpGraph& graph, GraphLayout& layout) {
  layout.frames.push_back({});
  layout.frame_of.assign(graph.values.size(), 0);
  for (const GraphLeaf& leaf : graph.leaves) {
    if (leaf.kind != LeafKind::Input) layout.frame_of[leaf.value] = kNoId;
  }
  uint32_t frame = 0;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    layout.frame_at.push_back(frame);
    if (node.kind == NodeKind::Enter) {
      layout.frames.push_back({.parent = frame, .depth = layout.frames[frame].depth + 1, .enter = i});
      frame = static_cast<uint32_t>(layout.frames.size() - 1);
    } else if (node.kind == NodeKind::Exit) {
      layout.frames[frame].exit = i;
      frame = layout.frames[frame].parent;
    }
    for (uint32_t out = node.out_begin; out < node.out_end; ++out) layout.frame_of[graph.outs[out]] = frame;
    for (uint32_t c = node.crossing_begin; c < node.crossing_end; ++c) layout.frame_of[graph.crossings[c].to] = frame;
  }
  layout.frame_at.push_back(frame);
}

std::vector<uint32_t> value_positions(const OpGraph& graph) {
  std::vector<uint32_t> known_at(graph.values.size(), 0);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    for (uint32_t out = node.out_begin; out < node.out_end; ++out) known_at[graph.outs[out]] = i + 1;
    for (uint32_t c = node.crossing_begin; c < node.crossing_end; ++c) known_at[graph.crossings[c].to] = i + 1;
  }
  return known_at;
}

// Operands precede their entries, so one pass suffices.
void find_positions(const OpGraph& graph, SizePlaces& places) {
  const std::vector<uint32_t> values = value_positions(graph);
  std::vector<uint32_t> lengths(graph.sizes.size(), 1);
  for (uint32_t id = 0; id < graph.sizes.size(); ++id) {
    const SizeEntry& entry = places.entries[id];
    if (entry.op == SizeOp::Size) places.known_at[id] = values[static_cast<size_t>(entry.a.number)];
    const EntryOperands operands = operands_in(entry);
    for (const uint32_t operand : list_of(operands)) {
      lengths[id] += places.is_named[operand] ? 1 : lengths[operand];
      places.known_at[id] = std::max(places.known_at[id], places.known_at[operand]);
    }
    places.is_named[id] = lengths[id] > kMostInline;
  }
}

void find_needed(const OpGraph& graph, SizePlaces& places) {
  for (const GraphArg& arg : graph.args) {
    if (arg.kind == ArgKind::Size) places.is_needed[entry_of(places, arg.id)] = true;
  }
  for (const GraphGuard& guard : graph.guards) {
    for (const SizeOperand& operand : {guard.a, guard.b}) {
      if (operand.is_entry) places.is_needed[entry_of(places, operand.number)] = true;
    }
  }
  for (size_t id = graph.sizes.size(); id-- > 0;) {
    if (!places.is_needed[id]) continue;
    const EntryOperands operands = operands_in(places.entries[id]);
    for (const uint32_t operand : list_of(operands)) places.is_needed[operand] = true;
  }
}

// Names the sizes of values that have no name in `frame`. Stops at a named entry: its `size` line handles its operands.
void name_hidden(const GraphLayout& layout, SizePlaces& places, uint32_t id, uint32_t frame) {
  if (places.is_named[id]) return;
  const SizeEntry& entry = places.entries[id];
  if (entry.op == SizeOp::Size) {
    const uint32_t home = layout.frame_of[static_cast<size_t>(entry.a.number)];
    places.is_named[id] = home != frame && home != kNoId;
    return;
  }
  const EntryOperands operands = operands_in(entry);
  for (const uint32_t operand : list_of(operands)) name_hidden(layout, places, operand, frame);
}

void place_guards(const OpGraph& graph, const SizePlaces& places, GraphLayout& layout) {
  uint32_t position = 0;
  for (const GraphGuard& guard : graph.guards) {
    for (const SizeOperand& operand : {guard.a, guard.b}) {
      if (operand.is_entry) position = std::max(position, places.known_at[static_cast<size_t>(operand.number)]);
    }
    layout.guard_positions.push_back(position);
  }
}

void name_all_hidden(const OpGraph& graph, const GraphLayout& layout, SizePlaces& places) {
  const auto name = [&](int64_t id, uint32_t position) {
    name_hidden(layout, places, entry_of(places, id), layout.frame_at[position]);
  };
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    const uint32_t end = node.keywords_begin == node.keywords_end
                             ? node.args_end
                             : graph.args[graph.keywords[node.keywords_end - 1].arg].end;
    for (uint32_t arg = node.args_begin; arg < end; ++arg) {
      if (graph.args[arg].kind == ArgKind::Size) name(graph.args[arg].id, i);
    }
  }
  for (size_t i = 0; i < graph.guards.size(); ++i) {
    for (const SizeOperand& operand : {graph.guards[i].a, graph.guards[i].b}) {
      if (operand.is_entry) name(operand.number, layout.guard_positions[i]);
    }
  }
  for (uint32_t id = 0; id < graph.sizes.size(); ++id) {
    if (!places.is_needed[id] || !places.is_named[id]) continue;
    const EntryOperands operands = operands_in(places.entries[id]);
    for (const uint32_t operand : list_of(operands)) name(operand, places.known_at[id]);
  }
}

}  // namespace

GraphLayout lay_out_graph(const OpGraph& graph) {
  GraphLayout layout;
  SizePlaces places{.entries = {},
                    .first_equal = {},
                    .is_needed = std::vector<bool>(graph.sizes.size()),
                    .is_named = std::vector<bool>(graph.sizes.size()),
                    .known_at = std::vector<uint32_t>(graph.sizes.size())};
  find_frames(graph, layout);
  find_equal(graph, places);
  find_positions(graph, places);
  find_needed(graph, places);
  place_guards(graph, places, layout);
  name_all_hidden(graph, layout, places);
  for (uint32_t id = 0; id < graph.sizes.size(); ++id) {
    if (places.is_needed[id] && places.is_named[id]) layout.size_lines.emplace_back(places.known_at[id], id);
  }
  std::sort(layout.size_lines.begin(), layout.size_lines.end());
  layout.is_named = std::move(places.is_named);
  layout.first_equal = std::move(places.first_equal);
  return layout;
}

}  // namespace tpplan
