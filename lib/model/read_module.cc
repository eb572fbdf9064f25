#include "model/read_module.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

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

// Reads positive integers. Checks those that have a field, and ignores all other values silently.
void read_attributes(ModelReader& reader, const JsonTree& tree, uint32_t at, Module& module) {
  const JsonNode& map = tree.nodes[at];
  if (!expect(reader, map, JsonKind::Object, "`attributes`")) return;
  ModuleAttributes attributes;
  for (uint32_t i = at + 1; i < map.end; i = tree.nodes[i].end) {
    for (const auto& [name, attribute] : kAttributes) {
      if (tree.nodes[i].key != name) continue;
      if (!expect(reader, tree.nodes[i], JsonKind::Integer, fmt::format("attribute `{}`", name))) return;
      if (tree.nodes[i].integer < 1) {
        return report_error(reader, Code::InvalidModelValue, tree.nodes[i],
                            fmt::format("attribute `{}` is below 1", name));
      }
      attributes.*attribute = tree.nodes[i].integer;
    }
    if (tree.nodes[i].kind == JsonKind::Integer && tree.nodes[i].integer > 0)
      attributes.integers.emplace_back(tree.nodes[i].key, tree.nodes[i].integer);
  }
  module.attributes = static_cast<uint32_t>(reader.graph.attributes.size());
  reader.graph.attributes.push_back(attributes);
}

uint32_t intern_type(ModelReader& reader, std::string_view type) {
  std::vector<std::string_view>& types = reader.graph.types;
  if (!types.empty() && types[reader.last_type] == type) return reader.last_type;
  const auto name_of = [&types](uint32_t i) { return types[i]; };
  reader.last_type = find(reader.type_index, type, name_of);
  if (reader.last_type != kNotFound) return reader.last_type;
  reader.last_type = static_cast<uint32_t>(types.size());
  types.push_back(type);
  insert(reader.type_index, type, reader.last_type, name_of);
  return reader.last_type;
}

}  // namespace

// Reserves too much rather than too little, because unused memory is never touched.
void reserve_modules(ModelReader& reader) {
  constexpr size_t kEntryBytes = 96;  // a module with one parameter takes more of a file
  const size_t count = std::min(reader.text.size() / kEntryBytes, kMaxModules);
  reader.graph.modules.reserve(count);
  reader.graph.params.reserve(count);
}

void read_module(ModelReader& reader, const JsonTree& tree) {
  ModelGraph& graph = reader.graph;
  const JsonNode& entry = tree.nodes[0];
  if (!expect(reader, entry, JsonKind::Object, "a module")) return;
  if (graph.modules.size() >= kMaxModules) {
    return report_error(reader, Code::NestingTooDeep, {reader.graph.file, entry.offset, 1},
                        fmt::format("the model has more than {} modules", kMaxModules));
  }
  const auto [path, type, kind, features, parameters, buffers, attributes] =
      find_json_fields(reader, tree, 0, "a module", kModuleKeys);
  for (const auto& [name, index] : {std::pair{"path", path}, std::pair{"type", type}}) {
    if (index == 0)
      return report_error(reader, Code::MissingModelField, {reader.graph.file, entry.offset, 1},
                          fmt::format("a module has no `{}`", name));
    const JsonNode& node = tree.nodes[index];
    if (node.kind != JsonKind::String) {
      report_wrong_kind(reader, node, JsonKind::String, fmt::format("`{}`", name));
      return;
    }
    if (!check_length(reader, node.text, {reader.graph.file, node.offset, 1})) return;
  }
  Module module{.path = tree.nodes[path].text,
                .offset = static_cast<uint32_t>(tree.nodes[path].offset),
                .type = intern_type(reader, tree.nodes[type].text),
                .first_param = static_cast<ParamId>(graph.params.size())};
  if (kind != 0) {
    if (!expect(reader, tree.nodes[kind], JsonKind::String, "`kind`")) return;
    module.kind_is_given = true;
    if (!find_module_kind(tree.nodes[kind].text, module.kind)) {
      return report_error(reader, Code::UnknownKind, tree.nodes[kind],
                          fmt::format("unknown kind `{}`", tree.nodes[kind].text),
                          "use linear, embedding, norm, experts or other");
    }
  }
  if (features != 0) {
    if (!expect(reader, tree.nodes[features], JsonKind::String, "`features`")) return;
    if (!find_features(tree.nodes[features].text, module.features)) {
      return report_error(reader, Code::UnknownKind, tree.nodes[features],
                          fmt::format("unknown features `{}`", tree.nodes[features].text), "use in, out, both or none");
    }
  }
  if (attributes != 0) read_attributes(reader, tree, attributes, module);
  const auto id = static_cast<ModuleId>(graph.modules.size());
  if (graph.types.size() > kMaxTypes) {
    return report_error(reader, Code::NestingTooDeep, tree.nodes[type],
                        fmt::format("the model has more than {} module types", kMaxTypes));
  }
  graph.modules.push_back(module);
  if (parameters != 0) read_params(reader, tree, parameters, id, false);
  if (buffers != 0) read_params(reader, tree, buffers, id, true);
  graph.modules[id].param_count = static_cast<uint32_t>(graph.params.size()) - module.first_param;
  graph.modules[id].kind = module.kind;
}

}  // namespace tpplan
