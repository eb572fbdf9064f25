#include <spdlog/fmt/fmt.h>

#include <tuple>

#include "manifest/manifest_sections.h"

namespace tpplan {
namespace {

bool read_count(ManifestReader& reader, const JsonTree& tree, uint32_t object, std::string_view key, uint64_t& count) {
  const uint32_t at = required_field(reader, tree, object, key, JsonKind::Integer);
  if (at == 0) return false;
  if (tree.nodes[at].integer < 0)
    return report_error(reader, Code::InconsistentManifest, tree.nodes[at], fmt::format("`{}` is below 0", key));
  count = static_cast<uint64_t>(tree.nodes[at].integer);
  return true;
}

bool read_text(ManifestReader& reader, const JsonTree& tree, uint32_t object, std::string_view key, std::string& text) {
  const uint32_t at = required_field(reader, tree, object, key, JsonKind::String);
  if (at != 0) text = tree.nodes[at].text;
  return at != 0;
}

bool read_work(ManifestReader& reader, const JsonTree& tree, uint32_t at, MatmulWork& work) {
  if (!expect(reader, tree.nodes[at], JsonKind::Object, "an entry of `work`")) return false;
  if (!expect_only_fields(reader, tree, at, "an entry of `work`", {"dtype", "forward", "backward", "again"}))
    return false;
  const uint32_t dtype = required_field(reader, tree, at, "dtype", JsonKind::String);
  if (dtype == 0) return false;
  if (!find_dtype(tree.nodes[dtype].text, work.dtype))
    return report_error(reader, Code::InvalidManifest, tree.nodes[dtype],
                        fmt::format("unknown dtype `{}`", tree.nodes[dtype].text));
  return read_count(reader, tree, at, "forward", work.forward) &&
         read_count(reader, tree, at, "backward", work.backward) && read_count(reader, tree, at, "again", work.again);
}

bool read_layer(ManifestReader& reader, const JsonTree& tree, uint32_t at) {
  if (!expect(reader, tree.nodes[at], JsonKind::Object, "an entry of `layers`")) return false;
  if (!expect_only_fields(reader, tree, at, "an entry of `layers`", {"layers", "count", "kept", "work"})) return false;
  LayerCosts& layer = reader.manifest.costs.layers.emplace_back();
  const uint32_t work = required_field(reader, tree, at, "work", JsonKind::Array);
  return work != 0 && read_text(reader, tree, at, "layers", layer.layers) &&
         read_count(reader, tree, at, "count", layer.count) && read_count(reader, tree, at, "kept", layer.saved) &&
         for_each(tree, work, [&](uint32_t i) { return read_work(reader, tree, i, layer.work.emplace_back()); });
}

bool read_saved(ManifestReader& reader, const JsonTree& tree, uint32_t at) {
  if (!expect(reader, tree.nodes[at], JsonKind::Object, "an entry of `by_op`")) return false;
  if (!expect_only_fields(reader, tree, at, "an entry of `by_op`", {"op", "tensors", "bytes"})) return false;
  SavedTensors& row = reader.manifest.costs.by_op.emplace_back();
  return read_text(reader, tree, at, "op", row.op) && read_count(reader, tree, at, "tensors", row.tensors) &&
         read_count(reader, tree, at, "bytes", row.bytes);
}

// True if the rows sum to `wanted` without overflow.
template <typename Rows, typename Bytes>
bool adds_up(const Rows& rows, Bytes bytes, uint64_t wanted) {
  uint64_t sum = 0;
  for (const auto& row : rows) {
    uint64_t more = 0, factor = 1;
    std::tie(more, factor) = bytes(row);
    if (__builtin_mul_overflow(more, factor, &more) || __builtin_add_overflow(sum, more, &sum)) return false;
  }
  return sum == wanted;
}

}  // namespace

bool read_step_costs(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`costs`")) return false;
  if (!expect_only_fields(reader, tree, 0, "`costs`",
                          {"kept", "gathered", "gathered_weights", "logits", "transient", "transient_op",
                           "transient_module", "unknown_ops", "by_op", "layers"}))
    return false;
  StepCosts& costs = reader.manifest.costs;
  costs.is_there = true;
  const uint32_t by_op = required_field(reader, tree, 0, "by_op", JsonKind::Array),
                 layers = required_field(reader, tree, 0, "layers", JsonKind::Array);
  if (by_op == 0 || layers == 0) return false;
  const bool numbers = read_count(reader, tree, 0, "kept", costs.saved) &&
                       read_count(reader, tree, 0, "gathered", costs.gathered) &&
                       read_count(reader, tree, 0, "gathered_weights", costs.gathered_weights) &&
                       read_count(reader, tree, 0, "logits", costs.logits) &&
                       read_count(reader, tree, 0, "transient", costs.transient) &&
                       read_text(reader, tree, 0, "transient_op", costs.transient_op) &&
                       read_text(reader, tree, 0, "transient_module", costs.transient_module);
  if (!numbers || !for_each(tree, by_op, [&](uint32_t i) { return read_saved(reader, tree, i); }) ||
      !for_each(tree, layers, [&](uint32_t i) { return read_layer(reader, tree, i); }))
    return false;
  uint32_t unknown = 0;
  if (!optional_field(reader, tree, 0, "unknown_ops", JsonKind::Array, unknown)) return false;
  if (unknown != 0 && !read_names(reader, tree, unknown, costs.unknown_ops, "name of an operation")) return false;
  const auto of_op = [](const SavedTensors& row) { return std::pair(row.bytes, uint64_t{1}); };
  const auto of_layer = [](const LayerCosts& layer) { return std::pair(layer.saved, layer.count); };
  if (!adds_up(costs.by_op, of_op, costs.saved) || !adds_up(costs.layers, of_layer, costs.saved))
    return report_error(reader, Code::InconsistentManifest, tree.nodes[0],
                        "`kept` is not the sum of `by_op` or of `layers`");
  if (costs.gathered > costs.saved || costs.gathered_weights > costs.saved - costs.gathered)
    return report_error(reader, Code::InconsistentManifest, tree.nodes[0], "the gathered bytes exceed the saved bytes");
  return true;
}

}  // namespace tpplan
