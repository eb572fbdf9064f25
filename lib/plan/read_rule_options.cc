#include "plan/read_rule_options.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"

namespace tpplan {
namespace {

bool read_layout(PlanReader& reader, YamlId id, Layout& layout) {
  const YamlNode& node = node_at(reader, id);
  layout.reset();
  if (node.kind == YamlKind::Null) return true;
  if (!expect(reader, id, YamlKind::Scalar, "a layout")) return false;
  Placement placement;
  if (parse_placement(node.text, placement) && placement.kind != PlacementKind::StridedShard) {
    layout = placement;
    return true;
  }
  static constexpr std::string_view examples[] = {"Replicate", "Partial", "Shard(0)", "Shard(1)", "Shard(-1)"};
  const std::string_view nearest = nearest_name(node.text, examples);
  fault(reader, Code::TP3007, id, fmt::format("unknown layout `{}`", node.text),
        nearest.empty() ? "layouts are Replicate, Shard(0), Shard(-1), Partial and null"
                        : fmt::format("did you mean `{}`?", nearest));
  return false;
}

// One layout stands for a list of one, as torch takes it.
std::optional<std::vector<Layout>> read_layouts(PlanReader& reader, YamlId id) {
  std::vector<Layout> layouts;
  for (const YamlId item : items_of(reader, id)) {
    Layout layout;
    if (!read_layout(reader, item, layout)) return std::nullopt;
    layouts.push_back(layout);
  }
  return layouts;
}

std::optional<KwargLayouts> read_kwarg_layouts(PlanReader& reader, YamlId id) {
  KwargLayouts layouts;
  bool good = true;
  good = for_each_entry(reader, id, "kwarg layouts",
                        [&](YamlId key, YamlId value) {
                          Layout layout;
                          good = read_layout(reader, value, layout) && good;
                          layouts.emplace_back(node_at(reader, key).text, layout);
                        }) &&
         good;
  return good ? std::optional(layouts) : std::nullopt;
}

}  // namespace

void read_option(PlanReader& reader, YamlId key, YamlId value, uint16_t option, RuleOptions& options) {
  const auto flag = [&](std::optional<bool>& target) {
    bool read = false;
    if (read_bool(reader, value, fmt::format("`{}`", node_at(reader, key).text), read)) target = read;
  };
  switch (option) {
    case kInputLayouts:
      options.input_layouts = read_layouts(reader, value);
      break;
    case kDesiredInputLayouts:
      options.desired_input_layouts = read_layouts(reader, value);
      break;
    case kOutputLayouts:
      options.output_layouts = read_layouts(reader, value);
      break;
    case kDesiredOutputLayouts:
      options.desired_output_layouts = read_layouts(reader, value);
      break;
    case kInputKwargLayouts:
      options.input_kwarg_layouts = read_kwarg_layouts(reader, value);
      break;
    case kDesiredInputKwargLayouts:
      options.desired_input_kwarg_layouts = read_kwarg_layouts(reader, value);
      break;
    case kUseLocalInput:
      flag(options.use_local_input);
      break;
    case kUseLocalOutput:
      flag(options.use_local_output);
      break;
    case kSequenceDim: {
      int64_t dim = 0;
      if (read_integer(reader, value, "`sequence_dim`", -64, dim, Code::TP3003, 63))
        options.sequence_dim = static_cast<int>(dim);
      break;
    }
    default:
      break;
  }
}

}  // namespace tpplan
