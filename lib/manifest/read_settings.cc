#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "manifest/manifest_sections.h"

namespace tpplan {

// Reads the mesh. Limits the number of ranks to less than 2^31, so that later code needs no overflow checks.
bool read_mesh(ManifestReader& reader, const JsonTree& tree) {
  reader.has_mesh = true;
  if (!expect(reader, tree.nodes[0], JsonKind::Array, "`mesh`")) return false;
  Mesh& mesh = reader.manifest.mesh;
  unsigned __int128 devices = 1;
  return for_each(tree, 0, [&](uint32_t i) {
    if (!expect(reader, tree.nodes[i], JsonKind::Object, "a mesh axis")) return false;
    if (!expect_only_fields(reader, tree, i, "a mesh axis", {"name", "size"})) return false;
    const uint32_t name = required_field(reader, tree, i, "name", JsonKind::String),
                   size = required_field(reader, tree, i, "size", JsonKind::Integer);
    if (name == 0 || size == 0) return false;
    const std::string axis(tree.nodes[name].text);
    const int64_t shards = tree.nodes[size].integer;
    devices *= static_cast<unsigned __int128>(std::max<int64_t>(shards, 1));
    const bool good = shards >= 1 && devices < (static_cast<unsigned __int128>(1) << 31) &&
                      find_axis(mesh, axis) == kNoAxis && mesh.axes.size() < kMaxAxes;
    if (!good) {
      return report_error(reader, Code::InconsistentManifest, tree.nodes[size],
                          fmt::format("axis `{}` of size {} appears twice, or makes the mesh too large", axis, shards));
    }
    mesh.axes.push_back({axis, shards});
    return true;
  });
}

bool read_uneven(ManifestReader& reader, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  if (!expect(reader, node, JsonKind::String, "`uneven`")) return false;
  return find_uneven_policy(node.text, reader.manifest.uneven) ||
         report_error(reader, Code::InvalidManifest, node, "`uneven` must be error or torch");
}

namespace {

bool read_total(ManifestReader& reader, const JsonTree& tree, uint32_t object, std::string_view key, uint64_t& count) {
  uint32_t at = 0;
  if (!optional_field(reader, tree, object, key, JsonKind::Integer, at)) return false;
  if (at != 0) count = static_cast<uint64_t>(tree.nodes[at].integer);
  return true;
}

// Reads the numbers of parameters by kind. An absent kind is 0.
bool read_holds(ManifestReader& reader, const JsonTree& tree, KindCounts& holds) {
  const uint32_t at = required_field(reader, tree, 0, "holds", JsonKind::Object);
  return at != 0 && expect_only_fields(reader, tree, at, "`holds`", {"linear", "embedding", "norm", "other"}) &&
         std::ranges::all_of(kHeldKinds, [&](const auto& kind) {
           return read_total(reader, tree, at, kind.first, holds.*kind.second);
         });
}

bool read_rule_values(ManifestReader& reader, const JsonTree& tree, std::string_view side,
                      std::vector<RuleValue>& values) {
  const uint32_t list = required_field(reader, tree, 0, side, JsonKind::Array);
  return list != 0 && for_each(tree, list, [&](uint32_t i) {
           if (!expect(reader, tree.nodes[i], JsonKind::Object, "a value of a rule") ||
               !expect_only_fields(reader, tree, i, "a value of a rule", {"arg", "kwarg", "use_local"}))
             return false;
           RuleValue& value = values.emplace_back();
           uint32_t arg = 0, kwarg = 0, local = 0;
           if (!optional_field(reader, tree, i, "arg", JsonKind::Integer, arg) ||
               !optional_field(reader, tree, i, "kwarg", JsonKind::String, kwarg) ||
               !optional_field(reader, tree, i, "use_local", JsonKind::Bool, local))
             return false;
           if ((arg == 0) == (kwarg == 0))
             return report_error(reader, Code::InvalidManifest, tree.nodes[i],
                                 "a value of a rule must have either `arg` or `kwarg`");
           if (kwarg != 0) value.kwarg = tree.nodes[kwarg].text;
           if (local != 0) value.use_local = tree.nodes[local].is_true;
           return arg == 0 || read_index(reader, tree.nodes[arg], value.arg);
         });
}

// Reads the boundary of a rule: its axis and the inputs and outputs that it converts.
bool read_rule_boundary(ManifestReader& reader, const JsonTree& tree, ManifestRule& rule) {
  uint32_t axis = 0;
  if (!optional_field(reader, tree, 0, "axis", JsonKind::String, axis)) return false;
  if (axis == 0) return true;
  RuleBoundary& boundary = rule.boundary.emplace();
  return read_axis(reader, tree.nodes[axis], boundary.axis) &&
         read_rule_values(reader, tree, "inputs", boundary.inputs) &&
         read_rule_values(reader, tree, "outputs", boundary.outputs) &&
         read_total(reader, tree, 0, "bare", boundary.bare);
}

}  // namespace

bool read_rule(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "a rule")) return false;
  if (!expect_only_fields(reader, tree, 0, "a rule",
                          {"block", "key", "line", "matches", "modules", "sums", "forward_dtype", "backward_dtype",
                           "holds", "axis", "inputs", "outputs", "bare"}))
    return false;
  const uint32_t key = required_field(reader, tree, 0, "key", JsonKind::String),
                 line = required_field(reader, tree, 0, "line", JsonKind::Integer),
                 matches = required_field(reader, tree, 0, "matches", JsonKind::Integer),
                 modules = required_field(reader, tree, 0, "modules", JsonKind::Integer),
                 block = find_json_field(tree, 0, "block");
  if (key == 0 || line == 0 || matches == 0 || modules == 0) return false;
  ManifestRule& rule = reader.manifest.rules.emplace_back();
  rule.key = tree.nodes[key].text;
  rule.line = static_cast<uint32_t>(tree.nodes[line].integer);
  rule.matches = static_cast<uint64_t>(tree.nodes[matches].integer);
  rule.in_block = block != 0;
  if (block != 0) rule.block = tree.nodes[block].text;
  rule.modules = static_cast<uint64_t>(tree.nodes[modules].integer);
  uint32_t sums = 0;
  if (!optional_field(reader, tree, 0, "sums", JsonKind::String, sums)) return false;
  reader.rule_spans.push_back(value_span(reader.file, tree.nodes[0]));
  return read_sent_dtypes(reader, tree, 0, rule.forward_dtype, rule.backward_dtype) &&
         (sums == 0 || read_axis(reader, tree.nodes[sums], rule.sums)) && read_holds(reader, tree, rule.holds) &&
         read_rule_boundary(reader, tree, rule);
}

bool read_data(ManifestReader& reader, const JsonTree& tree) {
  if (tree.nodes[0].kind == JsonKind::Null) return true;
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`data`")) return false;
  if (!expect_only_fields(reader, tree, 0, "`data`", {"axes", "dim"})) return false;
  const uint32_t axes = required_field(reader, tree, 0, "axes", JsonKind::Array),
                 dim = required_field(reader, tree, 0, "dim", JsonKind::Integer);
  if (axes == 0 || dim == 0) return false;
  ManifestData& data = reader.manifest.data.emplace();
  if (!read_index(reader, tree.nodes[dim], data.dim)) return false;
  return for_each(tree, axes, [&](uint32_t i) {
    return read_axis(reader, tree.nodes[i], data.axes.emplace_back()) &&
           (std::ranges::count(data.axes, data.axes.back()) == 1 ||
            report_error(reader, Code::InconsistentManifest, tree.nodes[i], "the batch is sharded over an axis twice"));
  });
}

bool read_fsdp(ManifestReader& reader, const JsonTree& tree) {
  if (tree.nodes[0].kind == JsonKind::Null) return true;
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`fsdp`")) return false;
  if (!expect_only_fields(reader, tree, 0, "`fsdp`", {"axis", "policy", "min_weight_size", "units"})) return false;
  const uint32_t axis = required_field(reader, tree, 0, "axis", JsonKind::String),
                 policy = required_field(reader, tree, 0, "policy", JsonKind::String),
                 size = required_field(reader, tree, 0, "min_weight_size", JsonKind::Integer),
                 units = required_field(reader, tree, 0, "units", JsonKind::Array);
  if (axis == 0 || policy == 0 || size == 0 || units == 0) return false;
  ManifestFsdp& fsdp = reader.manifest.fsdp.emplace();
  fsdp.policy = tree.nodes[policy].text;
  fsdp.min_weight_size = tree.nodes[size].integer;
  return read_axis(reader, tree.nodes[axis], fsdp.axis) && read_names(reader, tree, units, fsdp.units, "path");
}

bool read_remat(ManifestReader& reader, const JsonTree& tree) {
  return read_names(reader, tree, 0, reader.manifest.remat, "path");
}

bool read_local_attributes(ManifestReader& reader, const JsonTree& tree) {
  constexpr std::string_view what = "`local_attributes`";
  if (!expect(reader, tree.nodes[0], JsonKind::Object, what) ||
      !expect_only_fields(reader, tree, 0, what, {"axis", "modules"}))
    return false;
  const uint32_t axis = required_field(reader, tree, 0, "axis", JsonKind::String),
                 modules = required_field(reader, tree, 0, "modules", JsonKind::Array);
  if (axis == 0 || modules == 0) return false;
  ManifestLocalAttributes& local = reader.manifest.local_attributes.emplace();
  if (!read_axis(reader, tree.nodes[axis], local.axis)) return false;
  const int64_t ranks = reader.manifest.mesh.axes[local.axis].size;
  return for_each(tree, modules, [&](uint32_t i) {
    if (!expect(reader, tree.nodes[i], JsonKind::Object, "a module of `local_attributes`") ||
        !expect_only_fields(reader, tree, i, "a module of `local_attributes`", {"path", "attributes"}))
      return false;
    const uint32_t path = required_field(reader, tree, i, "path", JsonKind::String),
                   attributes = required_field(reader, tree, i, "attributes", JsonKind::Object);
    if (path == 0 || attributes == 0) return false;
    ManifestLocalModule& module = local.modules.emplace_back();
    module.path = tree.nodes[path].text;
    return for_each(tree, attributes, [&](uint32_t j) {
      if (!expect(reader, tree.nodes[j], JsonKind::Integer, "a divided attribute")) return false;
      module.attributes.emplace_back(tree.nodes[j].key, tree.nodes[j].integer);
      return (tree.nodes[j].integer > 0 && tree.nodes[j].integer % ranks == 0) ||
             report_error(reader, Code::InconsistentManifest, tree.nodes[j],
                          fmt::format("attribute `{}` is not a multiple of {} ranks", tree.nodes[j].key, ranks));
    });
  });
}

}  // namespace tpplan
