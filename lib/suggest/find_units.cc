#include "suggest/find_units.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "model/attention_names.h"
#include "model/module_kinds.h"
#include "resolve/heuristics/neighbours.h"
#include "resolve/match/glob.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Returns the name before a layer number of Keras: "decoder_block_3" -> "decoder_block_"; empty for other names.
std::string_view numbered_stem(const ModelGraph& graph, ModuleId id) {
  if (graph.framework != Framework::Keras) return {};
  const std::string_view leaf = leaf_of(graph, graph.modules[id].path);
  const size_t line = leaf.rfind('_');
  return line == std::string_view::npos || !is_digits(leaf.substr(line + 1)) ? std::string_view{}
                                                                             : leaf.substr(0, line + 1);
}

// Returns, by module, whether its number becomes a star in keys. This includes a list with a single module, if a list
// with the same starred path has repeated blocks of that type: their keys match it too.
std::vector<bool> numbered_blocks(const ModelGraph& graph) {
  std::vector<bool> blocks(graph.modules.size());
  for (ModuleId id = 0; id < graph.modules.size(); ++id) blocks[id] = is_repeated_block(graph, id);
  for (bool is_done = false; !is_done;) {
    is_done = true;
    std::vector<std::string> starred(graph.modules.size());
    std::set<std::pair<std::string, uint32_t>> lists;  // starred path of a list, type of its modules
    const auto list_of = [&](ModuleId id) {
      const ModuleId parent = parent_of(graph, id);
      return std::pair(parent == kNone ? std::string{} : starred[parent], graph.modules[id].type);
    };
    for (ModuleId id = 0; id < graph.modules.size(); ++id) {
      const std::string_view leaf = leaf_of(graph, graph.modules[id].path);
      starred[id] = list_of(id).first + separator(graph.framework) + (blocks[id] ? "*" : std::string(leaf));
      if (blocks[id]) lists.insert(list_of(id));
    }
    for (ModuleId id = 0; id < graph.modules.size(); ++id) {
      if (blocks[id] || !is_digits(leaf_of(graph, graph.modules[id].path)) || !lists.contains(list_of(id))) continue;
      blocks[id] = true;
      is_done = false;
    }
  }
  return blocks;
}

struct UnitFinder {
  const ModelGraph& graph;
  uint64_t large;
  std::vector<bool> blocks;             // numbered_blocks
  std::set<ModuleId> attentions, mlps;  // modules found by find_scopes
  std::vector<DraftUnit> units;
  std::map<std::string, size_t> known;  // index of the unit, by kind and scope
};

// Returns the path of a module, or of its parameter `param`, with stars for repeated blocks. The number of a layer
// itself remains, because it distinguishes siblings; the numbers of its ancestors become stars.
DraftKey key_of_path(const UnitFinder& finder, ModuleId id, bool is_layer = true, std::string_view param = {}) {
  const ModelGraph& graph = finder.graph;
  std::vector<ModuleId> line;
  for (ModuleId at = id; at != kNone; at = parent_of(graph, at)) line.push_back(at);
  std::reverse(line.begin(), line.end());
  DraftKey key;
  const char dot = separator(graph.framework);
  const auto append = [dot](std::string& path, std::string_view atom) {
    if (!path.empty()) path += dot;
    path += atom;
  };
  for (const ModuleId at : line) {
    const std::string_view leaf = leaf_of(graph, graph.modules[at].path);
    if (leaf.empty()) continue;
    const bool is_last = at == id && is_layer && param.empty();
    const std::string_view stem = is_last ? std::string_view{} : numbered_stem(graph, at);
    const bool is_block = !is_last && (finder.blocks[at] || !stem.empty());
    append(key.name, is_block ? glob_of_name(stem) + "*" : glob_of_name(leaf));
    if (!is_block) continue;
    if (!key.block.empty()) key.block += dot;
    key.block += key.name;
    key.name.clear();
  }
  if (!param.empty()) append(key.name, glob_of_name(param));
  return key;
}

// Returns the module that a layer belongs to: its nearest ancestor that is not a mere wrapper.
ModuleId scope_of(const ModelGraph& graph, ModuleId id) {
  ModuleId scope = parent_of(graph, id);
  while (scope != kNone) {
    const ModuleId above = parent_of(graph, scope);
    if (above == kNone) return scope;
    if (!is_wrapper_module(leaf_of(graph, graph.modules[above].path), leaf_of(graph, graph.modules[scope].path)))
      return scope;
    scope = above;
  }
  return scope;
}

uint64_t largest_tensor(const ModelGraph& graph, const Module& module) {
  uint64_t largest = 0;
  for (const Param& param : params_of(graph, module)) largest = std::max(largest, elements_of(shape_of(graph, param)));
  return largest;
}

// Returns the size of a named dim of the module's weight matrix; 0 if it has none.
int64_t size_of(const ModelGraph& graph, const Module& module, std::string_view dim_name) {
  for (const Param& param : params_of(graph, module)) {
    const int dim = find_dim(dims_of(graph, module, param), dim_name);
    if (dim >= 0 && param.ndim >= 2) return shape_of(graph, param)[static_cast<size_t>(dim)];
  }
  return 0;
}

void add_layer(UnitFinder& finder, UnitKind kind, const DraftKey& scope, DraftLayer layer) {
  const std::string name = std::to_string(static_cast<int>(kind)) + "|" + scope.block + "|" + scope.name;
  const auto [at, is_new] = finder.known.emplace(name, finder.units.size());
  if (is_new) finder.units.push_back({.kind = kind, .scope = scope, .layers = {}});
  std::vector<DraftLayer>& layers = finder.units[at->second].layers;
  layer.modules = {layer.module};
  const auto there = std::ranges::find(layers, layer.key, &DraftLayer::key);
  if (there == layers.end()) {
    layers.push_back(std::move(layer));
    return;
  }
  there->elements = std::max(there->elements, layer.elements);
  there->modules.push_back(layer.module);
}

void add_module(UnitFinder& finder, UnitKind kind, ModuleId scope, ModuleId id, DraftRole role) {
  const DraftKey key = key_of_path(finder, id);
  const DraftKey place = scope == kNone ? key : key_of_path(finder, scope, false);
  add_layer(finder, kind, place,
            {.key = key,
             .role = role,
             .module = id,
             .modules = {},
             .param = {},
             .elements = largest_tensor(finder.graph, finder.graph.modules[id])});
}

bool is_linear(const ModelGraph& graph, const Module& module) {
  return module.kind == ModuleKind::Linear && module.param_count > 0 && size_of(graph, module, kDimOut) > 0;
}

// Returns {num_heads, num_kv_heads} of the nearest module, including `id`, that declares heads; empty if there is none.
std::vector<int64_t> heads_above(const ModelGraph& graph, ModuleId id) {
  for (ModuleId at = id; at != kNone; at = parent_of(graph, at)) {
    if (graph.modules[at].attributes == kNone) continue;
    const ModuleAttributes& a = graph.attributes[graph.modules[at].attributes];
    if (a.num_heads > 0) return {a.num_heads, a.num_kv_heads > 0 ? a.num_kv_heads : a.num_heads};
  }
  return {};
}

// Returns the head counts around an attention projection; empty for other modules. Projections of Keras and flax have
// an unnamed dim of heads, which is found by these sizes.
std::vector<int64_t> heads_of_linear(const ModelGraph& graph, ModuleId id) {
  const Module& module = graph.modules[id];
  const DraftRole role = linear_role(graph, id);
  const bool is_projection = module.kind == ModuleKind::Linear && (role == DraftRole::Query || role == DraftRole::Key ||
                                                                   role == DraftRole::Value || role == DraftRole::Out);
  return is_projection ? heads_above(graph, id) : std::vector<int64_t>{};
}

void find_scopes(UnitFinder& finder) {
  for (ModuleId id = 0; id < finder.graph.modules.size(); ++id) {
    const Module& module = finder.graph.modules[id];
    if (!is_linear(finder.graph, module) && heads_of_linear(finder.graph, id).empty()) continue;
    const ModuleId scope = scope_of(finder.graph, id);
    switch (linear_role(finder.graph, id)) {
      case DraftRole::Query:
      case DraftRole::Fused:
      case DraftRole::FromLatent:
        finder.attentions.insert(scope);
        break;
      case DraftRole::Up:
      case DraftRole::FusedUp:
        finder.mlps.insert(scope);
        break;
      default:
        break;
    }
  }
}

bool is_inside(const ModelGraph& graph, const std::set<ModuleId>& scopes, ModuleId id, ModuleId& scope) {
  for (ModuleId at = id; at != kNone; at = parent_of(graph, at)) {
    if (!scopes.contains(at)) continue;
    scope = at;
    return true;
  }
  return false;
}

// Returns a module and all modules that are tied to it.
std::set<ModuleId> tied_to(const ModelGraph& graph, ModuleId id) {
  std::set<ModuleId> modules{id};
  for (const Tie& tie : graph.ties) {
    const auto is_of_module = [&](ParamId param) { return graph.params[param].module == id; };
    if (std::ranges::none_of(tie.params, is_of_module)) continue;
    for (const ParamId param : tie.params) modules.insert(graph.params[param].module);
  }
  return modules;
}

bool is_repeated(const UnitFinder& finder, ModuleId id) { return !key_of_path(finder, id).block.empty(); }

// Adds the token embeddings, the output heads tied to them, and other output heads of the vocabulary's size.
void add_vocabulary(UnitFinder& finder, std::set<ModuleId>& done) {
  const ModelGraph& graph = finder.graph;
  int64_t vocabulary = 0;
  for (const Module& module : graph.modules) {
    if (module.kind == ModuleKind::Embedding && !is_position_table(leaf_of(graph, module.path)))
      vocabulary = std::max(vocabulary, size_of(graph, module, kDimIn));
  }
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    if (module.kind != ModuleKind::Embedding || size_of(graph, module, kDimIn) != vocabulary || done.contains(id))
      continue;
    if (is_repeated(finder, id)) continue;
    for (const ModuleId tied : tied_to(graph, id)) {
      if (!done.insert(tied).second) continue;
      const bool is_table = graph.modules[tied].kind == ModuleKind::Embedding;
      add_module(finder, UnitKind::Vocabulary, id, tied, is_table ? DraftRole::Tokens : DraftRole::Head);
    }
  }
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    if (vocabulary == 0 || !is_linear(graph, module) || done.contains(id) || is_repeated(finder, id)) continue;
    if (size_of(graph, module, kDimOut) != vocabulary) continue;
    done.insert(id);
    add_module(finder, UnitKind::Head, kNone, id, DraftRole::Head);
  }
}

void add_linear(UnitFinder& finder, ModuleId id) {
  const ModelGraph& graph = finder.graph;
  const Module& module = graph.modules[id];
  const ModuleId scope = scope_of(graph, id);
  const DraftRole role = linear_role(graph, id);
  const bool is_attention = finder.attentions.contains(scope), is_mlp = finder.mlps.contains(scope);
  const bool is_out = role == DraftRole::Out || (role == DraftRole::None && is_down_projection(graph, id));
  const bool is_large = largest_tensor(graph, module) > finder.large;
  if (role == DraftRole::Up || role == DraftRole::FusedUp)
    add_module(finder, UnitKind::Mlp, scope, id, role);
  else if (is_mlp && is_down_projection(graph, id))
    add_module(finder, UnitKind::Mlp, scope, id, DraftRole::Down);
  else if (is_attention && is_out)
    add_module(finder, UnitKind::Attention, scope, id, DraftRole::Out);
  else if (is_attention && role != DraftRole::None && role != DraftRole::Router)
    add_module(finder, UnitKind::Attention, scope, id, role);
  else if (is_large && role == DraftRole::Router)
    add_module(finder, UnitKind::Whole, kNone, id, role);
  else if (is_large)
    add_module(finder, UnitKind::Single, kNone, id, DraftRole::Single);
}

// Adds a norm. A norm of queries or keys is FullNorm if its size is the output size of the projection, else HeadNorm.
void add_norm(UnitFinder& finder, ModuleId id) {
  const ModelGraph& graph = finder.graph;
  const Module& module = graph.modules[id];
  const ModuleId scope = scope_of(graph, id);
  if (!finder.attentions.contains(scope) || norm_role(leaf_of(graph, module.path)) == DraftRole::None) {
    if (largest_tensor(graph, module) > finder.large) add_module(finder, UnitKind::Whole, kNone, id, DraftRole::Whole);
    return;
  }
  const auto size = static_cast<int64_t>(largest_tensor(graph, module));
  const bool norm_spans_heads = std::ranges::any_of(attention_names(), [&](const AttentionName& row) {
    if (row.role != HeadRole::Query && row.role != HeadRole::Key) return false;
    std::string path(graph.modules[scope].path);
    if (!path.empty()) path += separator(graph.framework);
    const ModuleId sibling = find_module(graph, path.append(row.leaf));
    return sibling != kNone && size_of(graph, graph.modules[sibling], kDimOut) == size;
  });
  add_module(finder, UnitKind::Attention, scope, id, norm_spans_heads ? DraftRole::FullNorm : DraftRole::HeadNorm);
}

void add_table(UnitFinder& finder, ModuleId id) {
  const ModelGraph& graph = finder.graph;
  const Module& module = graph.modules[id];
  ModuleId scope = kNone;
  const bool is_large = largest_tensor(graph, module) > finder.large;
  if (is_inside(graph, finder.attentions, parent_of(graph, id), scope))
    add_module(finder, UnitKind::Attention, scope, id, DraftRole::HeadTable);
  else if (is_large && is_position_table(leaf_of(graph, module.path)))
    add_module(finder, UnitKind::Whole, kNone, id, DraftRole::Table);
  else if (is_large)
    add_module(finder, UnitKind::Table, kNone, id, DraftRole::Table);
}

// Adds parameters of an attention module, or of a projection with a dim of heads, each with a separate key.
void add_head_params(UnitFinder& finder, ModuleId id) {
  const ModelGraph& graph = finder.graph;
  const Module& module = graph.modules[id];
  const bool is_projection = !finder.attentions.contains(id);
  const ModuleId scope = is_projection ? scope_of(graph, id) : id;
  const std::vector<int64_t> heads = heads_above(graph, id);
  bool has_head_params = false;  // the attention module has parameters with a dim of heads
  for (const Param& param : params_of(graph, module)) {
    const std::span<const int64_t> shape = shape_of(graph, param);
    const auto dim = std::ranges::find_first_of(shape, heads);
    const bool has_heads = dim != shape.end() && (!is_projection || shape.size() > 1);
    DraftRole role = has_heads ? DraftRole::HeadParam : DraftRole::HeadOther;
    if (is_projection) role = linear_role(graph, id);
    has_head_params |= role == DraftRole::HeadParam;
    if (is_projection && !has_heads) continue;  // such as the bias of the output projection
    add_layer(finder, UnitKind::Attention, key_of_path(finder, scope, false),
              {.key = key_of_path(finder, id, true, param.name),
               .role = role,
               .module = id,
               .modules = {},
               .param = param.name,
               .elements = elements_of(shape),
               .ndim = has_heads ? shape.size() : 0,
               .heads_at = has_heads ? static_cast<size_t>(dim - shape.begin()) : 0});
  }
  if (!has_head_params) return;
  const DraftKey key = key_of_path(finder, id);
  add_layer(finder, UnitKind::Attention, key_of_path(finder, scope, false),
            {.key = key, .role = DraftRole::HeadsModule, .module = id, .modules = {}, .param = {}});
}

// Adds the experts module and its parameters, each with a separate key.
void add_experts(UnitFinder& finder, ModuleId id) {
  const ModelGraph& graph = finder.graph;
  const Module& module = graph.modules[id];
  const DraftKey scope = key_of_path(finder, id);
  for (const Param& param : params_of(graph, module)) {
    add_layer(finder, UnitKind::Experts, scope,
              {.key = key_of_path(finder, id, true, param.name),
               .role = expert_role(param.name),
               .module = id,
               .modules = {},
               .param = param.name,
               .elements = elements_of(shape_of(graph, param))});
  }
  add_layer(finder, UnitKind::Experts, scope,
            {.key = scope, .role = DraftRole::ExpertsModule, .module = id, .modules = {}, .param = {}});
}

// Marks units that the traced step does not use, such as a vision tower for a text input.
void mark_unseen(UnitFinder& finder) {
  const ModelGraph& graph = finder.graph;
  if (!graph.operations.is_there) return;
  std::set<std::string_view> used;
  for (const GraphLeaf& leaf : graph.operations.leaves) used.insert(graph.operations.strings[leaf.path]);
  std::set<ModuleId> modules;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    for (const Param& param : params_of(graph, graph.modules[id])) {
      std::string path(graph.modules[id].path);
      if (!path.empty()) path += separator(graph.framework);
      if (used.contains(path.append(param.name))) modules.merge(tied_to(graph, id));
    }
  }
  for (DraftUnit& unit : finder.units) {
    unit.is_unseen = std::ranges::none_of(unit.layers, [&](const DraftLayer& layer) {
      return std::ranges::any_of(layer.modules, [&](ModuleId id) { return modules.contains(id); });
    });
  }
}

}  // namespace

std::vector<DraftUnit> find_units(const ModelGraph& graph, uint64_t large) {
  UnitFinder finder{.graph = graph,
                    .large = large,
                    .blocks = numbered_blocks(graph),
                    .attentions = {},
                    .mlps = {},
                    .units = {},
                    .known = {}};
  std::set<ModuleId> done;
  find_scopes(finder);
  add_vocabulary(finder, done);
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    if (module.param_count == 0 || done.contains(id)) continue;
    if (is_linear(graph, module))
      add_linear(finder, id);
    else if (module.kind == ModuleKind::Norm)
      add_norm(finder, id);
    else if (module.kind == ModuleKind::Embedding)
      add_table(finder, id);
    else if (module.kind == ModuleKind::Experts)
      add_experts(finder, id);
    else if (finder.attentions.contains(id) || !heads_of_linear(graph, id).empty())
      add_head_params(finder, id);
    else if (is_activation_name(leaf_of(graph, module.path)) && finder.mlps.contains(scope_of(graph, id)))
      add_module(finder, UnitKind::Mlp, scope_of(graph, id), id, DraftRole::Activation);
    else if (largest_tensor(graph, module) > large)
      add_module(finder, UnitKind::Whole, kNone, id,
                 linear_role(graph, id) == DraftRole::Router ? DraftRole::Router : DraftRole::Whole);
  }
  mark_unseen(finder);
  return std::move(finder.units);
}

}  // namespace tpplan
