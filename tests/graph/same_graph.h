// Compares two graphs independently of the ids of their values, strings, shapes and sizes.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/op_graph.h"

namespace tpplan {

// The first pair of values at the same place become partners. Later they may only occur with each other.
struct GraphComparison {
  const OpGraph &a, &b;
  std::vector<uint32_t> partner_of_a, partner_of_b;  // by value; kNoId: not seen yet
  std::vector<uint32_t> leaf_of_a, leaf_of_b;
  std::set<std::pair<uint32_t, uint32_t>> same_sizes;
};

using LeafWords = std::tuple<LeafKind, std::string_view, std::vector<int64_t>, std::string_view, bool>;

inline LeafWords words_of(const OpGraph& graph, const GraphLeaf& leaf) {
  const auto shape = shape_of(graph, leaf.value);
  const GraphValue& value = graph.values[leaf.value];
  return {leaf.kind,
          graph.strings[leaf.path],
          {shape.begin(), shape.end()},
          graph.strings[value.dtype],
          value.requires_grad};
}

inline bool is_same_type(const GraphComparison& c, ValueId a, ValueId b) {
  const auto left = shape_of(c.a, a), right = shape_of(c.b, b);
  return std::equal(left.begin(), left.end(), right.begin(), right.end()) &&
         c.a.strings[c.a.values[a].dtype] == c.b.strings[c.b.values[b].dtype] &&
         c.a.values[a].requires_grad == c.b.values[b].requires_grad;
}

inline bool pair_values(GraphComparison& c, ValueId a, ValueId b) {
  if (c.partner_of_a[a] != kNoId || c.partner_of_b[b] != kNoId) return false;
  c.partner_of_a[a] = b;
  c.partner_of_b[b] = a;
  return is_same_type(c, a, b);
}

inline bool is_same_value(GraphComparison& c, ValueId a, ValueId b) {
  if (c.partner_of_a[a] != kNoId) return c.partner_of_a[a] == b;
  const uint32_t left = c.leaf_of_a[a], right = c.leaf_of_b[b];
  return left != kNoId && right != kNoId && pair_values(c, a, b) &&
         words_of(c.a, c.a.leaves[left]) == words_of(c.b, c.b.leaves[right]);
}

inline bool is_same_size(GraphComparison& c, SizeOperand a, SizeOperand b) {
  std::vector<std::pair<SizeOperand, SizeOperand>> pending{{a, b}};
  while (!pending.empty()) {
    const auto [left, right] = pending.back();
    pending.pop_back();
    if (left.is_entry != right.is_entry) return false;
    if (!left.is_entry) {
      if (left.number != right.number) return false;
      continue;
    }
    const auto x = static_cast<uint32_t>(left.number), y = static_cast<uint32_t>(right.number);
    if (!c.same_sizes.insert({x, y}).second) continue;
    const SizeEntry &from = c.a.sizes[x], &to = c.b.sizes[y];
    if (from.op != to.op) return false;
    if (from.op == SizeOp::Size) {
      if (!is_same_value(c, static_cast<ValueId>(from.a.number), static_cast<ValueId>(to.a.number)) ||
          from.b.number != to.b.number)
        return false;
      continue;
    }
    pending.emplace_back(from.a, to.a);
    pending.emplace_back(from.b, to.b);
  }
  return true;
}

inline bool is_same_arg(GraphComparison& c, const GraphArg& a, const GraphArg& b) {
  const auto is_text = [](ArgKind kind) {
    return kind == ArgKind::Text || kind == ArgKind::TypeName || kind == ArgKind::Float || kind == ArgKind::Other;
  };
  if (a.kind != b.kind || a.integer != b.integer) return false;
  if (is_text(a.kind)) return c.a.texts[a.id] == c.b.texts[b.id];
  if (a.kind == ArgKind::Value) return is_same_value(c, a.id, b.id);
  if (a.kind == ArgKind::Size) return is_same_size(c, {true, a.id}, {true, b.id});
  return std::memcmp(&a.number, &b.number, sizeof a.number) == 0;
}

// True if the arguments of two ranges and their parts are equal.
inline bool is_same_args(GraphComparison& c, uint32_t x, uint32_t x_end, uint32_t y, uint32_t y_end) {
  if (x_end - x != y_end - y) return false;
  for (; x < x_end; ++x, ++y) {
    if (!is_same_arg(c, c.a.args[x], c.b.args[y]) || x_end - c.a.args[x].end != y_end - c.b.args[y].end) return false;
  }
  return true;
}

inline bool is_same_node(GraphComparison& c, const GraphNode& x, const GraphNode& y) {
  if (x.kind != y.kind || c.a.strings[x.name] != c.b.strings[y.name] || x.positional != y.positional ||
      x.no_grad != y.no_grad || !is_same_args(c, x.args_begin, x.args_end, y.args_begin, y.args_end))
    return false;
  const uint32_t keywords = x.keywords_end - x.keywords_begin, outs = x.out_end - x.out_begin;
  const uint32_t crossings = x.crossing_end - x.crossing_begin;
  if (keywords != y.keywords_end - y.keywords_begin || outs != y.out_end - y.out_begin ||
      crossings != y.crossing_end - y.crossing_begin)
    return false;
  for (uint32_t i = 0; i < keywords; ++i) {
    const GraphKeyword &k = c.a.keywords[x.keywords_begin + i], &l = c.b.keywords[y.keywords_begin + i];
    if (c.a.strings[k.name] != c.b.strings[l.name] ||
        !is_same_args(c, k.arg, c.a.args[k.arg].end, l.arg, c.b.args[l.arg].end))
      return false;
  }
  for (uint32_t i = 0; i < outs; ++i) {
    if (!pair_values(c, c.a.outs[x.out_begin + i], c.b.outs[y.out_begin + i])) return false;
  }
  for (uint32_t i = 0; i < crossings; ++i) {
    const Crossing &k = c.a.crossings[x.crossing_begin + i], &l = c.b.crossings[y.crossing_begin + i];
    if (std::tie(k.position, k.key, k.depth, k.parameter) != std::tie(l.position, l.key, l.depth, l.parameter) ||
        !is_same_value(c, k.from, l.from) || !pair_values(c, k.to, l.to))
      return false;
  }
  return true;
}

inline bool is_same_leaves(const GraphComparison& c) {
  std::multiset<LeafWords> left, right;
  std::vector<LeafWords> left_inputs, right_inputs;
  const auto add = [](const OpGraph& graph, std::multiset<LeafWords>& all, std::vector<LeafWords>& inputs) {
    for (const GraphLeaf& leaf : graph.leaves) {
      all.insert(words_of(graph, leaf));
      if (leaf.kind == LeafKind::Input) inputs.push_back(words_of(graph, leaf));
    }
  };
  add(c.a, left, left_inputs);
  add(c.b, right, right_inputs);
  return left == right && left_inputs == right_inputs;
}

// Returns the first difference, empty if the graphs are equal.
inline std::string graph_difference(const OpGraph& a, const OpGraph& b) {
  const auto leaves = [](const OpGraph& graph) {
    std::vector<uint32_t> leaf_of(graph.values.size(), kNoId);
    for (uint32_t i = 0; i < graph.leaves.size(); ++i) leaf_of[graph.leaves[i].value] = i;
    return leaf_of;
  };
  GraphComparison c{.a = a,
                    .b = b,
                    .partner_of_a = std::vector<uint32_t>(a.values.size(), kNoId),
                    .partner_of_b = std::vector<uint32_t>(b.values.size(), kNoId),
                    .leaf_of_a = leaves(a),
                    .leaf_of_b = leaves(b),
                    .same_sizes = {}};
  if (std::tie(a.mode, a.attention, a.experts, a.dtype, a.batch, a.sequence, a.rules) !=
      std::tie(b.mode, b.attention, b.experts, b.dtype, b.batch, b.sequence, b.rules))
    return "settings or rules";
  if (a.nodes.size() != b.nodes.size()) return "the number of nodes";
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    if (!is_same_node(c, a.nodes[i], b.nodes[i])) return "node " + std::to_string(i);
  }
  if (a.guards.size() != b.guards.size()) return "the number of guards";
  for (size_t i = 0; i < a.guards.size(); ++i) {
    const GraphGuard &x = a.guards[i], &y = b.guards[i];
    if (x.op != y.op || x.held != y.held || !is_same_size(c, x.a, y.a) || !is_same_size(c, x.b, y.b))
      return "guard " + std::to_string(i);
  }
  if (a.outputs.size() != b.outputs.size()) return "the number of outputs";
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if (!is_same_value(c, a.outputs[i], b.outputs[i])) return "output " + std::to_string(i);
  }
  return is_same_leaves(c) ? "" : "leaves";
}

}  // namespace tpplan
