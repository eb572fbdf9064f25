#include <spdlog/fmt/fmt.h>

#include "manifest/manifest_sections.h"
#include "sharding/tensor_size.h"

namespace tpplan {

// Reads a collective call. Accepts unknown dtypes without a check of the bytes.
bool read_collective(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "an entry of `collectives`")) return false;
  if (!expect_only_fields(reader, tree, 0, "an entry of `collectives`",
                          {"phase", "kind", "axis", "module", "shape", "dtype", "bytes", "hidden", "operation"}))
    return false;
  const uint32_t phase = required_field(reader, tree, 0, "phase", JsonKind::String),
                 kind = required_field(reader, tree, 0, "kind", JsonKind::String),
                 axis = required_field(reader, tree, 0, "axis", JsonKind::String),
                 module = required_field(reader, tree, 0, "module", JsonKind::String),
                 shape = required_field(reader, tree, 0, "shape", JsonKind::Array),
                 dtype = required_field(reader, tree, 0, "dtype", JsonKind::String),
                 bytes = required_field(reader, tree, 0, "bytes", JsonKind::Integer);
  if (phase == 0 || kind == 0 || axis == 0 || module == 0 || shape == 0 || dtype == 0 || bytes == 0) return false;
  uint32_t hidden = 0, operation = 0;
  if (!optional_field(reader, tree, 0, "hidden", JsonKind::Bool, hidden) ||
      !optional_field(reader, tree, 0, "operation", JsonKind::String, operation))
    return false;
  CollectiveCall call;
  if (tree.nodes[phase].text != "forward" && tree.nodes[phase].text != "backward")
    return report_error(reader, Code::InvalidManifest, tree.nodes[phase],
                        fmt::format("unknown phase `{}`", tree.nodes[phase].text));
  if (!find_collective(tree.nodes[kind].text, call.kind) || call.kind == CollectiveKind::LocalSlice)
    return report_error(reader, Code::InvalidManifest, tree.nodes[kind],
                        fmt::format("unknown collective `{}`", tree.nodes[kind].text));
  call.backward = tree.nodes[phase].text == "backward";
  call.module = tree.nodes[module].text;
  call.dtype = tree.nodes[dtype].text;
  call.bytes = tree.nodes[bytes].integer;
  call.hidden = hidden != 0 && tree.nodes[hidden].is_true;
  if (operation != 0) call.operation = tree.nodes[operation].text;
  if (!read_axis(reader, tree.nodes[axis], call.axis)) return false;
  if (!read_sizes(reader, tree, shape, call.shape)) return false;
  DType type{};
  if (call.bytes < 0 ||
      (find_dtype(call.dtype, type) && static_cast<uint64_t>(call.bytes) != bytes_of(type, call.shape)))
    return report_error(reader, Code::InconsistentManifest, tree.nodes[bytes],
                        "`bytes` does not match shape and dtype");
  reader.manifest.collectives.push_back(std::move(call));
  return true;
}

}  // namespace tpplan
