#include "ops/prove_shapes.h"

#include <spdlog/fmt/fmt.h>

#include <string>

#include "base/keyed_hash.h"
#include "ops/notation.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

// A step on one rank, which holds the full tensors.
struct FullStep {
  const OpGraph& graph;
  ValueLayoutTable table;
  std::vector<ValueLayoutId> layout_of;  // by value
  std::vector<SizeNumber> numbers;       // by size entry
  std::vector<uint32_t> size_numbers;    // by size entry: its index
};

FullStep full_step(const OpGraph& graph) {
  FullStep full{.graph = graph, .table = {}, .layout_of = {}, .numbers = {}, .size_numbers = {}};
  const std::vector<ValueLayoutId> layout_of_shape = replicated_layouts(full.table, graph);
  for (const GraphValue& value : graph.values) full.layout_of.push_back(layout_of_shape[value.shape]);
  for (uint32_t id = 0; id < graph.sizes.size(); ++id) {
    full.numbers.push_back({{graph.sizes[id].traced}, kAllAxes});
    full.size_numbers.push_back(id);
  }
  return full;
}

// Appends what identical operations have in common: shapes and sizes, besides the signature with name and literals.
void append_arg(const OpGraph& graph, uint32_t begin, uint32_t end, std::string& key) {
  for (uint32_t i = begin; i < end; ++i) {
    const GraphArg& arg = graph.args[i];
    int64_t number = -1;
    if (arg.kind == ArgKind::Value) number = graph.values[arg.id].shape;
    if (arg.kind == ArgKind::Size) number = graph.sizes[arg.id].traced;
    if (number >= 0 || arg.kind == ArgKind::Size) key.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
}

std::string key_of(const OpGraph& graph, const GraphNode& node) {
  std::string key(reinterpret_cast<const char*>(&node.signature), sizeof node.signature);
  append_arg(graph, node.args_begin, node.args_end, key);
  for (uint32_t k = node.keywords_begin; k < node.keywords_end; ++k)
    append_arg(graph, graph.keywords[k].arg, graph.args[graph.keywords[k].arg].end, key);
  return key;
}

// Returns why the node cannot be as traced; empty if it can, or if it has no rule.
std::string contradiction(FullStep& full, const GraphNode& node) {
  OpCall call{.graph = full.graph,
              .node = node,
              .table = full.table,
              .layouts = full.layout_of,
              .numbers = full.numbers,
              .size_numbers = full.size_numbers,
              .name = {},
              .args = {}};
  const OpResult result = run_rule(call);
  if (!result.crash.empty()) return result.crash;
  if (!result.wrong.empty()) return result.wrong;
  if (result.unknown) return {};
  for (size_t out = 0; out < result.outs.size(); ++out) {
    const std::span<const int64_t> traced = out_shape(call, out);
    for (size_t dim = 0; dim < traced.size(); ++dim) {
      const int64_t size = full.table.maps.maps[result.outs[out].dims[dim]].size;
      if (size != traced[dim])
        return fmt::format("{} returns {} elements in dim {}, but the file declares {}", name_of(call), size, dim,
                           traced[dim]);
    }
  }
  return {};
}

}  // namespace

bool prove_shapes(const OpGraph& graph, FileId file, Diagnostics& diagnostics) {
  if (!graph.is_there) return true;
  for (const auto& [op, rule] : graph.rules) {
    if (is_notation(rule)) continue;
    report_message(diagnostics, Code::InvalidGraph, {file, graph.offset, 1},
                   fmt::format("the rule `{}` of `{}` has invalid syntax", rule, op),
                   "write the dims of operands and result, and the dims that must be replicated: \"b.. k, o k | o -> "
                   "b.. o; whole k\"");
    return false;
  }
  FullStep full = full_step(graph);
  TextSet<std::string> proven;
  for (const GraphNode& node : graph.nodes) {
    if (node.kind != NodeKind::Op || !proven.insert(key_of(graph, node)).second) continue;
    const std::string reason = contradiction(full, node);
    if (reason.empty()) continue;
    report_message(diagnostics, Code::InvalidGraph, {file, node.offset, 1},
                   fmt::format("the traced {} is inconsistent: {}", graph.strings[node.name], reason),
                   "export the model and its graph again in one run: python -m tpplan.export");
    return false;
  }
  return true;
}

}  // namespace tpplan
