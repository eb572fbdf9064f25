#include "manifest/read_layout.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

bool read_spec(ManifestReader& reader, const JsonTree& tree, uint32_t at, PartitionSpec& spec) {
  return for_each(tree, at, [&](uint32_t i) {
    DimAxes& axes = spec.emplace_back();
    if (tree.nodes[i].kind == JsonKind::Null) return true;
    if (tree.nodes[i].kind != JsonKind::Array) return read_axis(reader, tree.nodes[i], axes.emplace_back());
    return for_each(tree, i, [&](uint32_t k) { return read_axis(reader, tree.nodes[k], axes.emplace_back()); });
  });
}

bool read_segments(ManifestReader& reader, const JsonTree& tree, uint32_t at, size_t ndim,
                   std::vector<DimSegments>& segments) {
  if (!expect(reader, tree.nodes[at], JsonKind::Object, "`segments`")) return false;
  return for_each(tree, at, [&](uint32_t i) {
    DimSegments& entry = segments.emplace_back();
    for (entry.dim = 0; entry.dim < ndim && std::to_string(entry.dim) != tree.nodes[i].key;) ++entry.dim;
    if (entry.dim == ndim) {
      return report_error(reader, Code::InconsistentManifest, key_span(reader.file, tree.nodes[i]),
                          fmt::format("segments of dim `{}`, which does not exist", tree.nodes[i].key));
    }
    return read_sizes(reader, tree, i, entry.sizes);
  });
}

bool read_local_shapes(ManifestReader& reader, const JsonTree& tree, uint32_t object, ParamLayout& layout) {
  const uint32_t single = find_json_field(tree, object, "local_shape"),
                 many = find_json_field(tree, object, "local_shapes");
  if (single != 0 && tree.nodes[single].kind == JsonKind::Array) {
    return read_sizes(reader, tree, single, layout.local_shapes.emplace_back());
  }
  if (many == 0) return report_error(reader, Code::InvalidManifest, tree.nodes[object], "`local_shapes` is missing");
  if (!expect(reader, tree.nodes[many], JsonKind::Array, "`local_shapes`")) return false;
  return for_each(tree, many,
                  [&](uint32_t i) { return read_sizes(reader, tree, i, layout.local_shapes.emplace_back()); });
}

bool read_summer(ManifestReader& reader, const JsonNode& node, GradReducer& summer) {
  const auto* const found = std::ranges::find(kGradReducerNames, node.text);
  if (found == std::end(kGradReducerNames))
    return report_error(reader, Code::InvalidManifest, node,
                        fmt::format("unknown reducer of gradients `{}`", node.text));
  summer = static_cast<GradReducer>(found - std::begin(kGradReducerNames));
  return true;
}

// Reads a list of exactly `count` numbers.
bool read_numbers(ManifestReader& reader, const JsonTree& tree, uint32_t at, size_t count,
                  std::vector<int64_t>& numbers) {
  return read_sizes(reader, tree, at, numbers) &&
         (numbers.size() == count || report_error(reader, Code::InvalidManifest, tree.nodes[at],
                                                  fmt::format("{} numbers, expected {}", numbers.size(), count)));
}

bool read_dim_offsets(ManifestReader& reader, const JsonTree& tree, uint32_t object, DimOffsets& offsets) {
  if (!expect(reader, tree.nodes[object], JsonKind::Object, "the offsets of a dim")) return false;
  if (!expect_only_fields(reader, tree, object, "the offsets of a dim", {"dim", "ranks", "runs"})) return false;
  const uint32_t dim = required_field(reader, tree, object, "dim", JsonKind::Integer),
                 ranks = required_field(reader, tree, object, "ranks", JsonKind::Array),
                 runs = required_field(reader, tree, object, "runs", JsonKind::Array);
  if (dim == 0 || ranks == 0 || runs == 0) return false;
  int number = 0;
  if (!read_index(reader, tree.nodes[dim], number)) return false;
  offsets.dim = static_cast<size_t>(number);
  return for_each(tree, ranks,
                  [&](uint32_t i) {
                    std::vector<int64_t> numbers;
                    if (!read_numbers(reader, tree, i, 3, numbers)) return false;
                    offsets.ranks.push_back({numbers[0], numbers[1], numbers[2]});
                    return true;
                  }) &&
         for_each(tree, runs, [&](uint32_t s) {
           std::vector<EqualShards>& segment = offsets.runs.emplace_back();
           return expect(reader, tree.nodes[s], JsonKind::Array, "the shards of a segment") &&
                  for_each(tree, s, [&](uint32_t i) {
                    std::vector<int64_t> numbers;
                    if (!read_numbers(reader, tree, i, 2, numbers)) return false;
                    segment.push_back({numbers[0], numbers[1]});
                    return true;
                  });
         });
}

// Reads `offsets`. prove_offsets checks them once the layout is known to be legal.
bool read_offsets(ManifestReader& reader, const JsonTree& tree, std::optional<std::vector<DimOffsets>>& offsets) {
  uint32_t at = 0;
  if (!optional_field(reader, tree, 0, "offsets", JsonKind::Array, at)) return false;
  if (at == 0) return true;
  offsets.emplace();
  return for_each(tree, at, [&](uint32_t i) { return read_dim_offsets(reader, tree, i, offsets->emplace_back()); });
}

// Reads the norm weight of a parameter and checks it against `replicas`.
bool read_norm_weight(ManifestReader& reader, const JsonTree& tree, ParamLayout& layout) {
  uint32_t at = 0;
  if (!optional_field(reader, tree, 0, "norm_weight", JsonKind::String, at)) return false;
  if (at == 0) return true;
  layout.norm_divisor = layout.replicas;
  return tree.nodes[at].text == norm_weight_text(layout) ||
         report_error(reader, Code::InconsistentManifest, tree.nodes[at],
                      fmt::format("`norm_weight` is `{}`, but each element is on {} ranks", tree.nodes[at].text,
                                  layout.replicas));
}

bool read_grad_reduce(ManifestReader& reader, const JsonTree& tree, uint32_t object, ParamLayout& layout) {
  const uint32_t at = required_field(reader, tree, object, "grad_reduce", JsonKind::Array);
  return at != 0 && for_each(tree, at, [&](uint32_t i) {
           if (!expect(reader, tree.nodes[i], JsonKind::Object, "a gradient's reduction")) return false;
           if (!expect_only_fields(reader, tree, i, "a gradient's reduction", {"axis", "kind", "by"})) return false;
           const uint32_t axis = required_field(reader, tree, i, "axis", JsonKind::String),
                          kind = required_field(reader, tree, i, "kind", JsonKind::String),
                          by = required_field(reader, tree, i, "by", JsonKind::String);
           if (axis == 0 || kind == 0 || by == 0) return false;
           GradReduce& reduce = layout.grad_reduce.emplace_back();
           return read_summer(reader, tree.nodes[by], reduce.by) &&
                  read_collective_kind(reader, tree.nodes[kind], reduce.kind) &&
                  read_axis(reader, tree.nodes[axis], reduce.axis);
         });
}

bool read_steps(ManifestReader& reader, const JsonTree& tree, uint32_t at) {
  FileSteps& written = reader.steps.emplace_back();
  written.layout = static_cast<uint32_t>(reader.manifest.layouts.size());
  written.span = value_span(reader.file, tree.nodes[at]);
  return for_each(tree, at, [&](uint32_t i) {
    FileStep& step = written.steps.emplace_back();
    if (!expect_only_fields(reader, tree, i, "a step",
                            {"part", "kind", "axis", "dim", "from_dim", "elements", "bytes", "sent"}))
      return false;
    if (!read_collective(reader, tree, i, step.collective)) return false;
    const uint32_t part = required_field(reader, tree, i, "part", JsonKind::String);
    if (part == 0) return false;
    if (!find_step_part(tree.nodes[part].text, step.part)) {
      return report_error(reader, Code::InvalidManifest, tree.nodes[part],
                          fmt::format("unknown part of a step `{}`", tree.nodes[part].text));
    }
    for (const auto& [name, target] :
         {std::pair{"elements", &step.elements}, std::pair{"bytes", &step.bytes}, std::pair{"sent", &step.sent}}) {
      const uint32_t number = required_field(reader, tree, i, name, JsonKind::Integer);
      if (number == 0) return false;
      *target = static_cast<uint64_t>(tree.nodes[number].integer);
    }
    return true;
  });
}

// Reads the kind of the parameter's module and the names of the dims.
bool read_kind(ManifestReader& reader, const JsonTree& tree, ParamLayout& layout) {
  static constexpr std::string_view kinds[] = {"linear", "embedding", "norm"};
  uint32_t kind = 0, dims = 0;
  if (!optional_field(reader, tree, 0, "kind", JsonKind::String, kind) ||
      !optional_field(reader, tree, 0, "dims", JsonKind::Array, dims)) {
    return false;
  }
  if (kind != 0) layout.kind = tree.nodes[kind].text;
  if (kind != 0 && std::find(std::begin(kinds), std::end(kinds), layout.kind) == std::end(kinds)) {
    return report_error(reader, Code::InvalidManifest, tree.nodes[kind], fmt::format("unknown kind `{}`", layout.kind));
  }
  if (dims != 0 && !read_names(reader, tree, dims, layout.dims, "dim")) return false;
  if (!layout.dims.empty() && layout.kind != kinds[0] && layout.kind != kinds[1])
    return report_error(reader, Code::InconsistentManifest, tree.nodes[dims],
                        "its dims have names, but it is not the weight of a linear or embedding");
  if (dims == 0 || layout.dims.size() == layout.shape.size()) return true;
  return report_error(reader, Code::InconsistentManifest, tree.nodes[dims],
                      fmt::format("{} names of dims for {} dims", layout.dims.size(), layout.shape.size()));
}

// Reads an index into the distributions, which follow the parameters in the file. Stores the largest index and its
// position, to compare it with their number at the end.
bool read_init_index(ManifestReader& reader, const JsonTree& tree, ParamLayout& layout) {
  uint32_t at = 0;
  if (!optional_field(reader, tree, 0, "init", JsonKind::Integer, at)) return false;
  if (at == 0) return true;
  const int64_t index = tree.nodes[at].integer;
  if (index < 0 || index >= kNoInit)
    return report_error(reader, Code::InconsistentManifest, tree.nodes[at],
                        fmt::format("distribution {} does not exist", index));
  layout.init = static_cast<uint32_t>(index);
  if (reader.init_span.length == 0 || layout.init > reader.largest_init) {
    reader.largest_init = layout.init;
    reader.init_span = value_span(reader.file, tree.nodes[at]);
  }
  return true;
}

}  // namespace

bool read_layout(ManifestReader& reader, const JsonTree& tree, ParamLayout& layout,
                 std::optional<std::vector<DimOffsets>>& offsets) {
  if (!expect_only_fields(
          reader, tree, 0, "a parameter",
          {"path", "shape", "dtype", "spec", "placements", "segments", "local_shape", "local_shapes", "offsets",
           "style", "rule", "reason", "replicas", "norm_weight", "grad_reduce", "steps", "kind", "dims", "init"}))
    return false;
  const uint32_t shape = required_field(reader, tree, 0, "shape", JsonKind::Array),
                 dtype = required_field(reader, tree, 0, "dtype", JsonKind::String),
                 spec = required_field(reader, tree, 0, "spec", JsonKind::Array),
                 reason = required_field(reader, tree, 0, "reason", JsonKind::String),
                 replicas = required_field(reader, tree, 0, "replicas", JsonKind::Integer);
  const uint32_t placements = find_json_field(tree, 0, "placements"), segments = find_json_field(tree, 0, "segments");
  uint32_t style = 0, steps = 0;
  if (shape == 0 || dtype == 0 || spec == 0 || reason == 0 || replicas == 0) return false;
  if (!has_fields(reader, tree, 0, {"placements", "local_shape", "style", "rule"})) return false;
  if (!optional_field(reader, tree, 0, "style", JsonKind::String, style) ||
      !optional_field(reader, tree, 0, "steps", JsonKind::Array, steps)) {
    return false;
  }
  if (!read_rule_index(reader, tree, 0, layout.rule)) return false;
  if (!find_dtype(tree.nodes[dtype].text, layout.dtype)) {
    return report_error(reader, Code::InvalidManifest, tree.nodes[dtype],
                        fmt::format("unknown dtype `{}`", tree.nodes[dtype].text));
  }
  if (style != 0) layout.style = tree.nodes[style].text;
  layout.reason = tree.nodes[reason].text;
  layout.replicas = tree.nodes[replicas].integer;
  return read_sizes(reader, tree, shape, layout.shape) && read_spec(reader, tree, spec, layout.sharding.spec) &&
         read_placements(reader, tree, placements, layout.placements) &&
         (segments == 0 || read_segments(reader, tree, segments, layout.shape.size(), layout.sharding.segments)) &&
         read_local_shapes(reader, tree, 0, layout) && read_offsets(reader, tree, offsets) &&
         read_norm_weight(reader, tree, layout) && read_grad_reduce(reader, tree, 0, layout) &&
         (steps == 0 || read_steps(reader, tree, steps)) && read_kind(reader, tree, layout) &&
         read_init_index(reader, tree, layout);
}

}  // namespace tpplan
