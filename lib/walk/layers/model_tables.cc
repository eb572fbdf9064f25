#include "walk/layers/model_tables.h"

#include <algorithm>
#include <string_view>

namespace tpplan {

namespace {

// True if the operations are those of one rank of jax.shard_map, with the collectives that it calls itself.
bool is_shard_map_graph(const OpGraph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const GraphNode& node) { return node.kind == NodeKind::Op && node.op == OpId::InSpec; });
}

}  // namespace

ModelTables make_model_tables(const ModelGraph& model) {
  const OpGraph& graph = model.operations;
  ModelTables tables;
  tables.module_of_string.assign(graph.strings.size(), kNone);
  for (const GraphNode& node : graph.nodes) {
    if (node.kind != NodeKind::Op && tables.module_of_string[node.name] == kNone)
      tables.module_of_string[node.name] = find_module(model, graph.strings[node.name]);
  }
  tables.param_of_leaf.reserve(graph.leaves.size());
  for (const GraphLeaf& leaf : graph.leaves)
    tables.param_of_leaf.push_back(leaf.kind == LeafKind::Param ? find_param(model, graph.strings[leaf.path]) : kNone);
  for (const Module& module : model.modules) {
    if (module.attributes != kNone)
      tables.rope_dim = std::max(tables.rope_dim, model.attributes[module.attributes].rope_dim);
  }
  tables.is_shard_map = is_shard_map_graph(graph);
  tables.stacks = find_stacks(model, tables.module_of_string, tables.param_of_leaf);
  return tables;
}

}  // namespace tpplan
