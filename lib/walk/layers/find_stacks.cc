#include "walk/layers/find_stacks.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace tpplan {
namespace {

// Shorter stacks are not worth it, because three layers are walked before others can be skipped.
constexpr uint32_t kFewestLayers = 4;
// Longer periods are not detected.
constexpr size_t kLongestTurn = 6;

struct StackSearch {
  const ModelGraph& model;
  const OpGraph& graph;
  std::span<const ModuleId> module_of_string;
  std::span<const ParamId> param_of_leaf;
};

// The begins of layers with one path prefix, and the end of the last one.
struct Siblings {
  std::string_view stack;  // the path without the layer number
  std::vector<uint32_t> begins;
  uint32_t end = 0;
};

std::vector<Siblings> find_siblings(const OpGraph& graph) {
  std::vector<Siblings> found;
  std::vector<size_t> open_modules;  // by open module: index into `found`, or kNoLayer
  constexpr auto kNoLayer = static_cast<size_t>(-1);
  size_t inside = 0;  // number of open modules with a layer number
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (node.kind == NodeKind::Exit && !open_modules.empty()) {
      if (open_modules.back() != kNoLayer) {
        found[open_modules.back()].end = i + 1;
        --inside;
      }
      open_modules.pop_back();
    }
    if (node.kind != NodeKind::Enter) continue;
    open_modules.push_back(kNoLayer);
    const std::string_view path = graph.strings[node.name];
    const size_t dot = path.rfind('.');
    if (inside > 0 || dot == std::string_view::npos || !is_digits(path.substr(dot + 1))) continue;
    ++inside;
    const std::string_view stack = path.substr(0, dot);
    if (found.empty() || found.back().stack != stack) found.push_back({stack, {}, 0});
    found.back().begins.push_back(i);
    open_modules.back() = found.size() - 1;
  }
  return found;
}

ValueId first_value(const OpGraph& graph, uint32_t begin, uint32_t end) {
  ValueId first = kNoId;
  for (uint32_t i = begin; i < end; ++i) {
    const GraphNode& node = graph.nodes[i];
    for (uint32_t o = node.out_begin; o < node.out_end; ++o) first = std::min(first, graph.outs[o]);
    for (uint32_t c = node.crossing_begin; c < node.crossing_end; ++c) first = std::min(first, graph.crossings[c].to);
  }
  return first;
}

// The first ids of a layer.
struct Origin {
  uint32_t node = 0, value = 0, size = 0, module = 0, param = 0, leaf = 0;
};

Origin origin_of(const StackSearch& f, uint32_t begin, uint32_t end) {
  const OpGraph& g = f.graph;
  Origin o{.node = begin, .value = first_value(g, begin, end), .module = f.module_of_string[g.nodes[begin].name]};
  const auto is_size_of_layer = [&](const SizeEntry& e) { return e.op == SizeOp::Size && e.a.number >= o.value; };
  o.size = static_cast<uint32_t>(std::find_if(g.sizes.begin(), g.sizes.end(), is_size_of_layer) - g.sizes.begin());
  o.leaf = static_cast<uint32_t>(
      std::find_if(g.leaves.begin(), g.leaves.end(), [&](const GraphLeaf& l) { return l.value >= o.value; }) -
      g.leaves.begin());
  o.param = static_cast<uint32_t>(f.model.params.size());
  for (ModuleId m = o.module; m < f.model.modules.size(); ++m) {
    if (f.model.modules[m].param_count == 0) continue;
    o.param = f.model.modules[m].first_param;
    break;
  }
  return o;
}

// Returns the extent of one layer, from its first ids to those of the next.
LayerStack between(const Origin& a, const Origin& b) {
  return {.count = 1,
          .node = a.node,
          .nodes = b.node - a.node,
          .value = a.value,
          .values = b.value - a.value,
          .size = a.size,
          .sizes = b.size - a.size,
          .module = a.module,
          .modules = b.module - a.module,
          .param = a.param,
          .params = b.param - a.param,
          .leaf = a.leaf,
          .leaves = b.leaf - a.leaf,
          .since = 0,
          .taken = {}};
}

bool same_extent(const LayerStack& a, const LayerStack& b) {
  return a.nodes == b.nodes && a.values == b.values && a.sizes == b.sizes && a.modules == b.modules &&
         a.params == b.params && a.leaves == b.leaves;
}

// True if `other` is the value of the next layer that corresponds to `value` of layer `a`, or the same value from
// before the stack. `a` uses no values of layers before the previous one, which begins at `oldest`.
bool is_next_value(const LayerStack& a, ValueId since, ValueId oldest, ValueId value, ValueId other) {
  if (value < since) return other == value;
  return value >= oldest && other == value + a.values;
}

bool same_operand(const LayerStack& a, uint32_t since, const SizeOperand& x, const SizeOperand& y) {
  if (x.is_entry != y.is_entry) return false;
  const bool moves = x.is_entry && x.number >= since;
  return y.number == x.number + (moves ? a.sizes : 0);
}

// The layer `a` and the next one.
struct Pair {
  const StackSearch& f;
  const LayerStack& a;
  ValueId since = 0, oldest = 0;
  uint32_t since_size = 0;
};

bool same_values(const Pair& p) {
  const OpGraph& g = p.f.graph;
  for (ValueId v = p.a.value; v < p.a.value + p.a.values; ++v) {
    if (v + p.a.values >= g.values.size()) return false;
    const GraphValue &x = g.values[v], &y = g.values[v + p.a.values];
    if (x.shape != y.shape || x.dtype != y.dtype || x.requires_grad != y.requires_grad) return false;
  }
  return true;
}

bool same_sizes(const Pair& p) {
  const OpGraph& g = p.f.graph;
  for (uint32_t i = p.a.size; i < p.a.size + p.a.sizes; ++i) {
    if (i + p.a.sizes >= g.sizes.size()) return false;
    const SizeEntry &x = g.sizes[i], &y = g.sizes[i + p.a.sizes];
    if (x.op != y.op || x.traced != y.traced) return false;
    if (x.op == SizeOp::Size) {
      const auto from = static_cast<ValueId>(x.a.number), to = static_cast<ValueId>(y.a.number);
      if (!is_next_value(p.a, p.since, p.oldest, from, to) || x.b.number != y.b.number) return false;
    } else if (!same_operand(p.a, p.since_size, x.a, y.a) || !same_operand(p.a, p.since_size, x.b, y.b)) {
      return false;
    }
  }
  return true;
}

bool same_leaves(const Pair& p) {
  const OpGraph& g = p.f.graph;
  for (uint32_t i = p.a.leaf; i < p.a.leaf + p.a.leaves; ++i) {
    if (i + p.a.leaves >= g.leaves.size()) return false;
    const GraphLeaf &x = g.leaves[i], &y = g.leaves[i + p.a.leaves];
    if (x.kind != y.kind || x.value < p.a.value || x.value >= p.a.value + p.a.values) return false;
    if (y.value != x.value + p.a.values) return false;
    if (x.kind != LeafKind::Param) continue;
    const ParamId from = p.f.param_of_leaf[i], to = p.f.param_of_leaf[i + p.a.leaves];
    if (from < p.a.param || from >= p.a.param + p.a.params || to != from + p.a.params) return false;
  }
  return true;
}

bool same_modules(const Pair& p) {
  const ModelGraph& m = p.f.model;
  for (ModuleId i = p.a.module; i < p.a.module + p.a.modules; ++i) {
    if (i + p.a.modules >= m.modules.size()) return false;
    const Module &x = m.modules[i], &y = m.modules[i + p.a.modules];
    if (x.type != y.type || x.param_count != y.param_count || x.kind != y.kind || x.features != y.features)
      return false;
    if (x.param_count > 0 && y.first_param != x.first_param + p.a.params) return false;
  }
  for (ParamId i = p.a.param; i < p.a.param + p.a.params; ++i) {
    if (i + p.a.params >= m.params.size()) return false;
    const Param &x = m.params[i], &y = m.params[i + p.a.params];
    const auto shape = shape_of(m, x), other = shape_of(m, y);
    if (x.name != y.name || x.dtype != y.dtype || x.is_buffer != y.is_buffer) return false;
    if (y.module != x.module + p.a.modules || !std::equal(shape.begin(), shape.end(), other.begin(), other.end()))
      return false;
  }
  return true;
}

bool same_args(const Pair& p, const GraphNode& x, const GraphNode& y) {
  const OpGraph& g = p.f.graph;
  const auto same_range = [&](uint32_t from, uint32_t end, uint32_t to) {
    for (uint32_t i = from; i < end; ++i) {
      const GraphArg &a = g.args[i], &b = g.args[to + i - from];
      if (a.kind != b.kind) return false;
      if (a.kind == ArgKind::Value && !is_next_value(p.a, p.since, p.oldest, a.id, b.id)) return false;
      if (a.kind == ArgKind::Size && b.id != a.id + (a.id >= p.since_size ? p.a.sizes : 0)) return false;
    }
    return true;
  };
  if (x.args_end - x.args_begin != y.args_end - y.args_begin) return false;
  if (x.keywords_end - x.keywords_begin != y.keywords_end - y.keywords_begin) return false;
  if (!same_range(x.args_begin, x.args_end, y.args_begin)) return false;
  for (uint32_t k = 0; k < x.keywords_end - x.keywords_begin; ++k) {
    const uint32_t from = g.keywords[x.keywords_begin + k].arg, to = g.keywords[y.keywords_begin + k].arg;
    if (g.args[from].end - from != g.args[to].end - to || !same_range(from, g.args[from].end, to)) return false;
  }
  return true;
}

bool same_crossings(const Pair& p, const GraphNode& x, const GraphNode& y) {
  const OpGraph& g = p.f.graph;
  if (x.crossing_end - x.crossing_begin != y.crossing_end - y.crossing_begin) return false;
  for (uint32_t i = 0; i < x.crossing_end - x.crossing_begin; ++i) {
    const Crossing &a = g.crossings[x.crossing_begin + i], &b = g.crossings[y.crossing_begin + i];
    if (a.position != b.position || a.key != b.key || a.depth != b.depth || a.parameter != b.parameter) return false;
    if (!is_next_value(p.a, p.since, p.oldest, a.from, b.from) || b.to != a.to + p.a.values) return false;
  }
  return true;
}

bool same_nodes(const Pair& p) {
  const OpGraph& g = p.f.graph;
  for (uint32_t i = p.a.node; i < p.a.node + p.a.nodes; ++i) {
    const GraphNode &x = g.nodes[i], &y = g.nodes[i + p.a.nodes];
    if (x.kind != y.kind || x.no_grad != y.no_grad || x.positional != y.positional) return false;
    if (x.out_end - x.out_begin != y.out_end - y.out_begin) return false;
    for (uint32_t o = 0; o < x.out_end - x.out_begin; ++o) {
      if (g.outs[y.out_begin + o] != g.outs[x.out_begin + o] + p.a.values) return false;
    }
    if (x.kind == NodeKind::Op) {
      if (x.signature != y.signature || !same_args(p, x, y)) return false;
      continue;
    }
    const ModuleId from = p.f.module_of_string[x.name], to = p.f.module_of_string[y.name];
    if (from < p.a.module || from >= p.a.module + p.a.modules || to != from + p.a.modules) return false;
    if (!same_crossings(p, x, y)) return false;
  }
  return true;
}

bool are_equal_layers(const Pair& p) {
  return same_nodes(p) && same_values(p) && same_sizes(p) && same_leaves(p) && same_modules(p);
}

// Returns the values from before the stack that its first layer uses.
std::vector<ValueId> taken_values(const OpGraph& graph, const LayerStack& stack) {
  std::vector<ValueId> taken;
  const auto take = [&](ValueId value) {
    if (value < stack.value) taken.push_back(value);
  };
  for (uint32_t i = stack.node; i < stack.node + stack.nodes; ++i) {
    const GraphNode& node = graph.nodes[i];
    const uint32_t end = node.keywords_begin < node.keywords_end
                             ? graph.args[graph.keywords[node.keywords_end - 1].arg].end
                             : node.args_end;
    for (uint32_t a = node.args_begin; a < end; ++a) {
      if (graph.args[a].kind == ArgKind::Value) take(graph.args[a].id);
    }
    for (uint32_t c = node.crossing_begin; c < node.crossing_end; ++c) take(graph.crossings[c].from);
  }
  for (uint32_t s = stack.size; s < stack.size + stack.sizes; ++s) {
    if (graph.sizes[s].op == SizeOp::Size) take(static_cast<ValueId>(graph.sizes[s].a.number));
  }
  std::sort(taken.begin(), taken.end());
  taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
  return taken;
}

bool is_tied(const ModelGraph& model, const LayerStack& stack) {
  const ParamId end = stack.param + stack.count * stack.params;
  return std::any_of(model.ties.begin(), model.ties.end(), [&](const Tie& tie) {
    return std::any_of(tie.params.begin(), tie.params.end(), [&](ParamId id) { return id >= stack.param && id < end; });
  });
}

// True if the first layer uses a parameter or another leaf of the layer before the stack.
bool reads_earlier_leaf(const OpGraph& graph, const LayerStack& stack) {
  return std::any_of(graph.leaves.begin(), graph.leaves.end(), [&](const GraphLeaf& leaf) {
    return leaf.value >= stack.since && std::binary_search(stack.taken.begin(), stack.taken.end(), leaf.value);
  });
}

// Adds the origin after the last layer, assuming that its period has the extent of the previous period;
// are_equal_layers checks that. Adds nothing if the nodes do not fit.
void add_end(const OpGraph& graph, std::vector<Origin>& origins, size_t turn, uint32_t end) {
  if (origins.size() <= turn) return;
  const Origin &last = origins.back(), &before = origins[origins.size() - 1 - turn],
               &after = origins[origins.size() - turn];
  const Origin next{.node = last.node + after.node - before.node,
                    .value = last.value + after.value - before.value,
                    .size = last.size + after.size - before.size,
                    .module = last.module + after.module - before.module,
                    .param = last.param + after.param - before.param,
                    .leaf = last.leaf + after.leaf - before.leaf};
  const bool fits = next.node == end && next.size <= graph.sizes.size() && next.leaf <= graph.leaves.size();
  if (fits) origins.push_back(next);
}

// Returns the stack from layer `first` on, with `turn` layers per period; count 0 if they differ.
LayerStack stack_from(const StackSearch& f, const std::vector<Origin>& origins, size_t first, size_t turn) {
  LayerStack stack;
  const ValueId since = origins[first - turn].value;
  const uint32_t since_size = origins[first - turn].size;
  for (size_t at = first; at + 2 * turn < origins.size(); at += turn) {
    const LayerStack a = between(origins[at], origins[at + turn]),
                     b = between(origins[at + turn], origins[at + 2 * turn]);
    if (!same_extent(a, b)) break;
    if (!are_equal_layers(
            {.f = f, .a = a, .since = since, .oldest = origins[at - turn].value, .since_size = since_size}))
      break;
    const uint32_t repeats = stack.count == 0 ? 2 : stack.count + 1;  // the first match has two layers
    if (stack.count == 0) stack = a;
    stack.count = repeats;
  }
  stack.since = since;
  return stack;
}

}  // namespace

std::vector<LayerStack> find_stacks(const ModelGraph& model, std::span<const ModuleId> module_of_string,
                                    std::span<const ParamId> param_of_leaf) {
  const StackSearch f{model, model.operations, module_of_string, param_of_leaf};
  std::vector<LayerStack> stacks;
  for (const Siblings& siblings : find_siblings(model.operations)) {
    if (siblings.begins.size() <= kFewestLayers) continue;
    std::vector<Origin> origins;
    bool known = true;
    for (size_t i = 0; i < siblings.begins.size() && known; ++i) {
      const uint32_t end = i + 1 < siblings.begins.size() ? siblings.begins[i + 1] : siblings.end;
      known = module_of_string[model.operations.nodes[siblings.begins[i]].name] != kNone;
      if (known) origins.push_back(origin_of(f, siblings.begins[i], end));
    }
    LayerStack best;
    size_t covered = 0;  // number of layers in `best`
    for (size_t turn = 1; turn <= kLongestTurn && known; ++turn) {
      std::vector<Origin> with_end = origins;
      add_end(model.operations, with_end, turn, siblings.end);
      for (size_t first = turn; first <= 3 * turn && first < with_end.size(); ++first) {
        if ((with_end.size() - 1 - first) / turn * turn <= covered) break;
        LayerStack stack = stack_from(f, with_end, first, turn);
        if (stack.count < kFewestLayers || stack.count * turn <= covered) continue;
        stack.taken = taken_values(model.operations, stack);
        if (is_tied(model, stack) || reads_earlier_leaf(model.operations, stack)) continue;
        covered = stack.count * turn;
        best = std::move(stack);
      }
    }
    if (best.count > 0) stacks.push_back(std::move(best));
  }
  return stacks;
}

}  // namespace tpplan
