#include "model/prove_graph.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>
#include <string>

#include "model/graph_words.h"
#include "model/number_signatures.h"
#include "model/size_ops.h"

namespace tpplan {
namespace {

// State of the validation. A position is an index into the nodes; values defined before all nodes have position 0. One
// position per value decides whether a use follows its definition, without a search.
struct Prover {
  OpGraph& graph;
  const ModelGraph& model;
  Diagnostics& diagnostics;
  std::vector<uint32_t> known_at;       // by value: the first position at which it may be used; kNoId if undefined
  std::vector<uint32_t> size_known_at;  // by size entry
  bool failed = false;
};

bool reject(Prover& p, uint32_t offset, std::string message, Code code = Code::InvalidGraph) {
  if (!p.failed)
    report_message(p.diagnostics, code, {p.model.file, offset, 1}, std::move(message),
                   "export the model and its graph together again: python -m tpplan.export");
  p.failed = true;
  return false;
}

bool is_string(Prover& p, StringId id, uint32_t offset) {
  return id < p.graph.strings.size() || reject(p, offset, fmt::format("string {} of the graph does not exist", id));
}

bool is_value(Prover& p, ValueId id, uint32_t offset) {
  return id < p.graph.values.size() || reject(p, offset, fmt::format("value {} of the graph does not exist", id));
}

// Sets the position of a value. Reports a second definition, so that the position is unique.
bool define(Prover& p, ValueId id, uint32_t position, uint32_t offset) {
  if (!is_value(p, id, offset)) return false;
  if (p.known_at[id] != kNoId) return reject(p, offset, fmt::format("value {} of the graph is defined twice", id));
  p.known_at[id] = position;
  return true;
}

bool use(Prover& p, ValueId id, uint32_t position, uint32_t offset) {
  if (!is_value(p, id, offset)) return false;
  if (p.known_at[id] == kNoId || p.known_at[id] > position)
    return reject(p, offset, fmt::format("value {} of the graph is used before it is defined", id));
  return true;
}

bool prove_values(Prover& p) {
  for (size_t i = 0; i < p.graph.values.size(); ++i) {
    const GraphValue& value = p.graph.values[i];
    if (value.shape >= p.graph.shapes.size())
      return reject(p, p.graph.offset, fmt::format("shape {} of value {} does not exist", value.shape, i));
    if (!is_string(p, value.dtype, p.graph.offset)) return false;
  }
  return true;
}

// Defines a leaf. A parameter must exist in the model with this shape; a tied one may use any of its names.
bool prove_leaf(Prover& p, const GraphLeaf& leaf) {
  if (!is_string(p, leaf.path, leaf.offset) || !define(p, leaf.value, 0, leaf.offset)) return false;
  if (leaf.kind != LeafKind::Param) return true;
  const std::string_view path = p.graph.strings[leaf.path];
  const ParamId param = find_param(p.model, path);
  if (param == kNone)
    return reject(p, leaf.offset, fmt::format("the graph uses a parameter `{}` that the model does not have", path),
                  Code::GraphModelMismatch);
  const auto in_model = shape_of(p.model, p.model.params[param]);
  const auto in_graph = shape_of(p.graph, leaf.value);
  if (std::equal(in_model.begin(), in_model.end(), in_graph.begin(), in_graph.end())) return true;
  return reject(
      p, leaf.offset,
      fmt::format("`{}` is {} in the model and {} in its graph", path, shape_text(in_model), shape_text(in_graph)),
      Code::GraphModelMismatch);
}

bool prove_operand(Prover& p, const SizeOperand& operand, size_t before, uint32_t offset, uint32_t& known_at,
                   int64_t& number) {
  if (!operand.is_entry) {
    number = operand.number;
    return true;
  }
  if (operand.number < 0 || static_cast<size_t>(operand.number) >= before)
    return reject(p, offset, fmt::format("size {} of the graph is used before it is defined", operand.number));
  known_at = std::max(known_at, p.size_known_at[static_cast<size_t>(operand.number)]);
  number = p.graph.sizes[static_cast<size_t>(operand.number)].traced;
  return true;
}

// Checks the sizes and computes their traced values and positions. @pre all values are defined.
bool prove_sizes(Prover& p) {
  p.size_known_at.resize(p.graph.sizes.size());
  for (size_t i = 0; i < p.graph.sizes.size(); ++i) {
    SizeEntry& entry = p.graph.sizes[i];
    if (entry.op == SizeOp::Size) {
      if (entry.a.is_entry || entry.b.is_entry || entry.a.number < 0 ||
          static_cast<size_t>(entry.a.number) >= p.graph.values.size())
        return reject(p, entry.offset, fmt::format("size {} of the graph refers to no value", i));
      const auto shape = shape_of(p.graph, static_cast<ValueId>(entry.a.number));
      if (entry.b.number < 0 || static_cast<size_t>(entry.b.number) >= shape.size())
        return reject(p, entry.offset,
                      fmt::format("size {} refers to dim {}, but value {} has {} dims", i, entry.b.number,
                                  entry.a.number, shape.size()));
      entry.traced = shape[static_cast<size_t>(entry.b.number)];
      p.size_known_at[i] = p.known_at[static_cast<size_t>(entry.a.number)];
      if (p.size_known_at[i] == kNoId)
        return reject(p, entry.offset,
                      fmt::format("size {} refers to value {}, which is never defined", i, entry.a.number));
      continue;
    }
    int64_t a = 0, b = 0;
    if (!prove_operand(p, entry.a, i, entry.offset, p.size_known_at[i], a) ||
        !prove_operand(p, entry.b, i, entry.offset, p.size_known_at[i], b))
      return false;
    if (!apply_size_op(entry.op, a, b, entry.traced))
      return reject(p, entry.offset,
                    fmt::format("size {} of the graph cannot be computed from its operands {} and {}", i, a, b));
  }
  return true;
}

// Checks the arguments of an op. Positional arguments, their elements and keyword arguments are consecutive in `args`
// (read_op), so no recursion is needed.
bool prove_args(Prover& p, const GraphNode& node, uint32_t position) {
  for (uint32_t i = node.args_begin; i < p.graph.args.size(); ++i) {
    const bool in_keywords = node.keywords_begin < node.keywords_end && i >= node.args_end &&
                             i < p.graph.args[p.graph.keywords[node.keywords_end - 1].arg].end;
    if (i >= node.args_end && !in_keywords) break;
    const GraphArg& arg = p.graph.args[i];
    if (arg.kind == ArgKind::Value && !use(p, arg.id, position, node.offset)) return false;
    if (arg.kind != ArgKind::Size) continue;
    if (arg.id >= p.graph.sizes.size())
      return reject(p, node.offset, fmt::format("size {} of the graph does not exist", arg.id));
    if (p.size_known_at[arg.id] > position)
      return reject(p, node.offset, fmt::format("size {} refers to a value that is not yet defined here", arg.id));
  }
  return true;
}

// Records the definitions of all values. A value may be used from the node after its definition.
bool define_all(Prover& p) {
  OpGraph& graph = p.graph;
  for (const GraphLeaf& leaf : graph.leaves) {
    if (!prove_leaf(p, leaf)) return false;
  }
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    for (uint32_t out = node.out_begin; out < node.out_end; ++out) {
      if (!define(p, graph.outs[out], i + 1, node.offset)) return false;
    }
    for (uint32_t c = node.crossing_begin; c < node.crossing_end; ++c) {
      if (!define(p, graph.crossings[c].to, i + 1, node.offset)) return false;
    }
  }
  return true;
}

bool prove_nodes(Prover& p) {
  OpGraph& graph = p.graph;
  std::vector<StringId> open;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (!is_string(p, node.name, node.offset) || !prove_args(p, node, i)) return false;
    for (uint32_t k = node.keywords_begin; k < node.keywords_end; ++k) {
      if (!is_string(p, graph.keywords[k].name, node.offset)) return false;
    }
    for (uint32_t c = node.crossing_begin; c < node.crossing_end; ++c) {
      const Crossing& crossing = graph.crossings[c];
      // If a value enters twice, the second crossing may use the id that the first one defines.
      const auto before = std::span(graph.crossings).subspan(node.crossing_begin, c - node.crossing_begin);
      const bool again =
          std::any_of(before.begin(), before.end(), [&](const Crossing& b) { return b.to == crossing.from; });
      if (!again && !use(p, crossing.from, i, node.offset)) return false;
      if (graph.values[crossing.from].shape != graph.values[crossing.to].shape)
        return reject(p, node.offset,
                      fmt::format("value {} changes its shape at the boundary of a module", crossing.from));
    }
    if (node.kind == NodeKind::Enter) {
      if (find_module(p.model, graph.strings[node.name]) == kNone)
        return reject(
            p, node.offset,
            fmt::format("the graph enters a module `{}` that the model does not have", graph.strings[node.name]),
            Code::GraphModelMismatch);
      if (open.size() == kMaxFrames)
        return reject(p, node.offset, fmt::format("modules are nested deeper than {} levels", kMaxFrames),
                      Code::NestingTooDeep);
      open.push_back(node.name);
    } else if (node.kind == NodeKind::Exit) {
      if (open.empty() || open.back() != node.name)
        return reject(p, node.offset,
                      fmt::format("the graph exits `{}`, but the innermost module is `{}`", graph.strings[node.name],
                                  open.empty() ? "" : graph.strings[open.back()]));
      open.pop_back();
    }
  }
  if (!open.empty())
    return reject(p, graph.offset, fmt::format("the graph enters `{}` but never exits it", graph.strings[open.back()]));
  for (const ValueId output : graph.outputs) {
    if (!use(p, output, static_cast<uint32_t>(graph.nodes.size()), graph.offset)) return false;
  }
  return true;
}

// Checks the guards. A guard has no position in the trace, so it may use every size.
bool prove_guards(Prover& p) {
  for (const GraphGuard& guard : p.graph.guards) {
    uint32_t known_at = 0;
    int64_t number = 0;
    if (!prove_operand(p, guard.a, p.graph.sizes.size(), guard.offset, known_at, number) ||
        !prove_operand(p, guard.b, p.graph.sizes.size(), guard.offset, known_at, number))
      return false;
  }
  return true;
}

}  // namespace

// The order matters: leaves compare shapes, sizes need the positions of values, and nodes need the positions of sizes.
bool prove_graph(OpGraph& graph, const ModelGraph& model, Diagnostics& diagnostics) {
  Prover p{.graph = graph,
           .model = model,
           .diagnostics = diagnostics,
           .known_at = std::vector<uint32_t>(graph.values.size(), kNoId),
           .size_known_at = {}};
  if (!prove_values(p) || !define_all(p) || !prove_sizes(p) || !prove_nodes(p) || !prove_guards(p)) return false;
  number_signatures(graph);
  return true;
}

}  // namespace tpplan
