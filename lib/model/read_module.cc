#include "model/read_module.h"

#include <spdlog/fmt/fmt.h>

#include "model/module_kinds.h"
#include "model/read_params.h"

namespace tpplan {
namespace {

constexpr size_t kMaxModules = size_t{2} << 20;
constexpr size_t kMaxTypes = size_t{64} << 10;
constexpr std::string_view kModuleKeys[] = {"path", "type", "kind", "features", "parameters", "buffers", "attributes"};
constexpr std::pair<std::string_view, int64_t ModuleAttributes::*> kAttributes[] = {
    {"num_heads", &ModuleAttributes::num_heads},       {"num_kv_heads", &ModuleAttributes::num_kv_heads},
    {"head_dim", &ModuleAttributes::head_dim},         {"num_experts", &ModuleAttributes::num_experts},
    {"qk_rope_head_dim", &ModuleAttributes::rope_dim},
};

// Attributes are free: those that no check knows are left unread, and nothing is said of them.
void read_attributes(ModelReader& reader, const JsonTree& tree, uint32_t at, Module& module) {
  const JsonNode& map = tree.nodes[at];
  if (!expect(reader, map, JsonKind::Object, "`attributes`")) return;
  ModuleAttributes attributes;
  for (uint32_t i = at + 1; i < map.end; i = tree.nodes[i].end) {
    for (const auto& [name, attribute] : kAttributes) {
      if (tree.nodes[i].key != name) continue;
      if (!expect(reader, tree.nodes[i], JsonKind::Integer, fmt::format("attribute `{}`", name))) return;
      if (tree.nodes[i].integer < 1) {
        return fault(reader, Code::TP2003, tree.nodes[i], fmt::format("attribute `{}` is below 1", name));
      }
      attributes.*attribute = tree.nodes[i].integer;
    }
  }
  module.attributes = static_cast<uint32_t>(reader.graph.attributes.size());
  reader.graph.attributes.push_back(attributes);
}

uint32_t intern_type(ModelReader& reader, std::string_view type) {
  std::vector<std::string_view>& types = reader.graph.types;
  const auto name_of = [&types](uint32_t i) { return types[i]; };
  const uint32_t known = find(reader.type_index, type, name_of);
  if (known != kNotFound) return known;
  types.push_back(type);
  insert(reader.type_index, type, static_cast<uint32_t>(types.size() - 1), name_of);
  return static_cast<uint32_t>(types.size() - 1);
}

}  // namespace

void read_module(ModelReader& reader, const JsonTree& tree) {
  ModelGraph& graph = reader.graph;
  const JsonNode& entry = tree.nodes[0];
  if (!expect(reader, entry, JsonKind::Object, "a module")) return;
  if (graph.modules.size() >= kMaxModules) {
    return fault(reader, Code::TP1007, {reader.graph.file, entry.offset, 1},
                 fmt::format("the model has more than {} modules", kMaxModules));
  }
  const auto [path, type, kind, features, parameters, buffers, attributes] =
      find_members(reader, tree, 0, "a module", kModuleKeys);
  for (const auto& [name, index] : {std::pair{"path", path}, std::pair{"type", type}}) {
    if (index == 0)
      return fault(reader, Code::TP2002, {reader.graph.file, entry.offset, 1},
                   fmt::format("a module has no `{}`", name));
    if (!expect(reader, tree.nodes[index], JsonKind::String, fmt::format("`{}`", name))) return;
    if (!good_length(reader, tree.nodes[index].text, {reader.graph.file, tree.nodes[index].offset, 1})) return;
  }
  Module module{.path = tree.nodes[path].text,
                .offset = static_cast<uint32_t>(tree.nodes[path].offset),
                .type = intern_type(reader, tree.nodes[type].text),
                .first_param = static_cast<ParamId>(graph.params.size())};
  if (kind != 0) {
    if (!expect(reader, tree.nodes[kind], JsonKind::String, "`kind`")) return;
    module.kind_is_given = true;
    if (!find_module_kind(tree.nodes[kind].text, module.kind)) {
      return fault(reader, Code::TP2011, tree.nodes[kind], fmt::format("unknown kind `{}`", tree.nodes[kind].text),
                   "kinds are linear, embedding, norm, experts and other");
    }
  }
  if (features != 0) {
    if (!expect(reader, tree.nodes[features], JsonKind::String, "`features`")) return;
    if (!find_features(tree.nodes[features].text, module.features)) {
      return fault(reader, Code::TP2011, tree.nodes[features],
                   fmt::format("unknown features `{}`", tree.nodes[features].text),
                   "features are in, out, both and none");
    }
  }
  if (attributes != 0) read_attributes(reader, tree, attributes, module);
  const auto id = static_cast<ModuleId>(graph.modules.size());
  const auto path_of_module = [&graph](uint32_t i) { return graph.modules[i].path; };
  if (graph.types.size() > kMaxTypes) {
    return fault(reader, Code::TP1007, tree.nodes[type],
                 fmt::format("the model has more than {} module types", kMaxTypes));
  }
  // Before it is known to be the first of its path: the index asks for paths by id.
  graph.modules.push_back(module);
  if (const uint32_t earlier = insert(graph.module_index, module.path, id, path_of_module); earlier != kNotFound) {
    ++reader.faults;
    Diagnostic& d = report_message(reader.diagnostics, Code::TP2005, value_span(reader.graph.file, tree.nodes[path]),
                                   fmt::format("module `{}` is declared twice", module.path), "list each module once");
    d.notes.push_back({"first one", span_of(graph, graph.modules[earlier])});
    return;
  }
  if (parameters != 0) read_params(reader, tree, parameters, id, false);
  if (buffers != 0) read_params(reader, tree, buffers, id, true);
  graph.modules[id].param_count = static_cast<uint32_t>(graph.params.size()) - module.first_param;
  graph.modules[id].kind = module.kind;
}

}  // namespace tpplan
