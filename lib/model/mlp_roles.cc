#include "model/mlp_roles.h"

#include <algorithm>

#include "model/module_kinds.h"

namespace tpplan {
namespace {

MlpRole role_by_name(const ModelGraph& graph, ModuleId id) {
  const ModuleId parent = parent_of(graph, id);
  const std::string_view parent_leaf =
      parent == kNone ? std::string_view{} : leaf_of(graph, graph.modules[parent].path);
  return mlp_role(parent_leaf, leaf_of(graph, graph.modules[id].path));
}

bool goes_up(MlpRole role) { return role == MlpRole::Gate || role == MlpRole::Up || role == MlpRole::FusedUp; }

// True if a layer whose name is that of a down projection has the sizes of an up projection beside it.
bool has_sizes_of_up(const ModelGraph& graph, ModuleId id, const LinearSizes& sizes) {
  for (const MlpName& name : mlp_names()) {
    if (!goes_up(name.role) || !name.parent.empty()) continue;
    const ModuleId up = find_sibling(graph, id, name.leaf);
    if (up == kNone || up == id) continue;
    const LinearSizes of_up = sizes_of_linear(graph, up);
    if (of_up.in == sizes.in && of_up.out == sizes.out) return true;
  }
  return false;
}

// True if a layer beside it is the gate whose output is multiplied with this layer's.
bool has_gate(const ModelGraph& graph, ModuleId id) {
  const std::string_view leaf = leaf_of(graph, graph.modules[id].path);
  return std::ranges::any_of(mlp_names(), [&](const MlpName& name) {
    return name.role == MlpRole::Gate && name.up == leaf && find_sibling(graph, id, name.leaf) != kNone;
  });
}

}  // namespace

LinearSizes sizes_of_linear(const ModelGraph& graph, ModuleId id) {
  const Module& module = graph.modules[id];
  if (module.kind != ModuleKind::Linear) return {};
  for (const Param& param : params_of(graph, module)) {
    if (param.ndim != 2 || !is_trainable(param.dtype)) continue;  // integers may pack several values
    const auto dims = dims_of(graph, module, param);
    const int in = find_dim(dims, kDimIn), out = find_dim(dims, kDimOut);
    const auto shape = shape_of(graph, param);
    if (in >= 0 && out >= 0) return {shape[static_cast<size_t>(in)], shape[static_cast<size_t>(out)]};
  }
  return {};
}

ModuleId find_down(const ModelGraph& graph, ModuleId id) {
  for (const MlpName& name : mlp_names()) {
    if (name.role != MlpRole::Down || !name.parent.empty()) continue;
    const ModuleId down = find_sibling(graph, id, name.leaf);
    if (down != kNone && down != id && sizes_of_linear(graph, down).in > 0 && !is_up_by_size(graph, down)) return down;
  }
  return kNone;
}

bool is_up_by_size(const ModelGraph& graph, ModuleId id) {
  if (role_by_name(graph, id) != MlpRole::Down) return false;
  const LinearSizes sizes = sizes_of_linear(graph, id);
  return sizes.out > sizes.in && has_sizes_of_up(graph, id, sizes);
}

MlpRole mlp_role_of(const ModelGraph& graph, ModuleId id) {
  const MlpRole role = role_by_name(graph, id);
  if (role == MlpRole::None || role == MlpRole::Gate || has_gate(graph, id)) return role;
  if (role == MlpRole::Down) return is_up_by_size(graph, id) ? MlpRole::Up : MlpRole::Down;
  const ModuleId down = find_down(graph, id);
  if (down == kNone) return role;
  const int64_t hidden = sizes_of_linear(graph, down).in, out = sizes_of_linear(graph, id).out;
  return hidden == out ? MlpRole::Up : hidden * 2 == out ? MlpRole::FusedUp : role;
}

}  // namespace tpplan
