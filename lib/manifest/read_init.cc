#include <spdlog/fmt/fmt.h>

#include <limits>

#include "manifest/manifest_sections.h"

namespace tpplan {
namespace {

double number_of(const JsonNode& node) {
  double value = static_cast<double>(node.integer);
  if (node.kind == JsonKind::Number && !parse_number(node.text, value)) value = std::numeric_limits<double>::infinity();
  return value;
}

bool read_number(ManifestReader& reader, const JsonNode& node, double& value) {
  value = number_of(node);
  return node.kind == JsonKind::Integer || expect(reader, node, JsonKind::Number, "an argument of a distribution");
}

// Reads the arguments of a distribution with named arguments.
bool read_arguments(ManifestReader& reader, const JsonTree& tree, uint32_t at, const DistributionRow& row,
                    Distribution& distribution) {
  if (!expect(reader, tree.nodes[at], JsonKind::Object, fmt::format("`{}`", row.name))) return false;
  for (size_t i = 0; i < row.argument_count; ++i) {
    const uint32_t argument = find_json_field(tree, at, row.arguments[i]);
    if (argument == 0)
      return report_error(reader, Code::InvalidManifest, tree.nodes[at],
                          fmt::format("`{}` is missing", row.arguments[i]));
    if (!read_number(reader, tree.nodes[argument], distribution.arguments[i])) return false;
  }
  return true;
}

// Reads a distribution: a name, or an object with one field, the name with its arguments.
bool read_distribution(ManifestReader& reader, const JsonTree& tree, uint32_t at) {
  Distribution& distribution = reader.manifest.distributions.emplace_back();
  const JsonNode& node = tree.nodes[at];
  const bool has_arguments = node.kind == JsonKind::Object && at + 1 < node.end && tree.nodes[at + 1].end == node.end;
  const std::string_view name = node.kind == JsonKind::String ? node.text
                                : has_arguments               ? tree.nodes[at + 1].key
                                                              : std::string_view();
  const bool is_known = find_distribution(name, distribution.kind);
  const DistributionRow& row = distribution_table()[static_cast<size_t>(distribution.kind)];
  if (!is_known || has_arguments != (row.argument_count > 0)) {
    return report_error(reader, Code::InvalidManifest, node, fmt::format("unknown distribution `{}`", name));
  }
  if (row.argument_count == 1 && !read_number(reader, tree.nodes[at + 1], distribution.arguments[0])) return false;
  if (row.argument_count == 2 && !read_arguments(reader, tree, at + 1, row, distribution)) return false;
  const std::string_view wrong = distribution_error(distribution);
  return wrong.empty() ||
         report_error(reader, Code::InconsistentManifest, node, fmt::format("{} in `{}`", wrong, row.name));
}

}  // namespace

bool read_init(ManifestReader& reader, const JsonTree& tree) {
  if (!expect(reader, tree.nodes[0], JsonKind::Object, "`init`")) return false;
  if (!expect_only_fields(reader, tree, 0, "`init`", {"algorithm", "distributions"})) return false;
  const uint32_t algorithm = required_field(reader, tree, 0, "algorithm", JsonKind::String),
                 list = required_field(reader, tree, 0, "distributions", JsonKind::Array);
  if (algorithm == 0 || list == 0) return false;
  if (tree.nodes[algorithm].text != kInitAlgorithm) {
    return report_error(reader, Code::InvalidManifest, tree.nodes[algorithm],
                        fmt::format("unknown algorithm `{}`", tree.nodes[algorithm].text));
  }
  return for_each(tree, list, [&](uint32_t i) { return read_distribution(reader, tree, i); });
}

}  // namespace tpplan
