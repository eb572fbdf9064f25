#include "styles/explain_style.h"

#include <spdlog/fmt/fmt.h>

#include <vector>

#include "base/text.h"
#include "styles/style_of_class.h"
#include "styles/style_table.h"

namespace tpplan {
namespace {

const StyleRow* row_of(std::string_view name) {
  for (const StyleSet set : {kTpplanStyles, kTorchStyles, kTransformersStyles}) {
    if (const StyleRow* row = find_style(name, set)) return row;
  }
  return nullptr;
}

std::string sharded_dim_text(const StyleRow& row) {
  if (row.shard_dim.empty()) return row.touches_parameters ? "nothing: parameters are replicated" : "nothing";
  const bool linear = row.modules == StyleModules::LinearOrEmbedding;
  std::string text = fmt::format("dim `{}` of each parameter", row.shard_dim);
  if (row.packed_segments > 1) text += fmt::format(", in {} segments", row.packed_segments);
  if (row.shard_dim == "out" && linear) text += ": rows of a Linear's weight, [out, in], and its bias";
  if (row.shard_dim == "in" && linear) text += ": columns of a Linear's weight, [out, in]; its bias is replicated";
  return text;
}

std::string boundary_text(const BoundaryRow& row, bool prepared) {
  if (prepared) return "as `input_layouts` and `desired_input_layouts` specify";
  if (!row.used) return "unchanged";
  const std::string from = to_text(row.from), to = to_text(row.to);
  std::string text = from == to ? from : fmt::format("{} -> {}", from, to);
  if (row.from.kind == PlacementKind::Partial) text += ", an all_reduce";
  if (row.from.kind == PlacementKind::Shard && row.to.kind == PlacementKind::Replicate) text += ", an all_gather";
  if (row.from.kind == PlacementKind::Replicate && row.to.kind == PlacementKind::Shard)
    text += ", each rank takes its slice";
  if (row.gradient_is_partial) text += "; backward, an all_reduce of its gradient";
  return text;
}

// Returns the tools that have the style, with their names for it.
std::string holders_text(std::string_view name) {
  std::vector<std::string> holders;
  if (const StyleRow* row = find_style(name, kTorchStyles))
    holders.push_back(fmt::format("torch `{}`", row->torch_class));
  if (find_style(name, kTransformersStyles) != nullptr) holders.push_back(fmt::format("transformers `{}`", name));
  return join(holders, ", ");
}

std::string options_text(const StyleRow& row) {
  std::vector<std::string> names = {"axis", "optional"};
  for (uint16_t bit = 1; bit <= kLastOption; bit = static_cast<uint16_t>(bit << 1)) {
    if ((known_options(row) & bit) != 0) names.emplace_back(option_name(static_cast<StyleOption>(bit)));
  }
  return join(names, ", ");
}

// Wraps the words after `head` to lines of at most 80 columns.
std::string wrapped(const std::string& head, std::string_view words) {
  constexpr size_t kWidth = 80;
  std::string text = head;
  size_t column = head.size();
  for (const std::string_view word : split(words, ' ')) {
    if (column + 1 + word.size() > kWidth) {
      text += "\n" + std::string(head.size(), ' ');
      column = head.size();
    }
    text += ' ';
    text += word;
    column += 1 + word.size();
  }
  return text + '\n';
}

}  // namespace

std::optional<std::string> explain_style(std::string_view name) {
  const std::string_view of_class = row_of(name) == nullptr ? style_of_class(name) : name;
  const StyleRow* row = row_of(of_class);
  if (row == nullptr) return std::nullopt;
  std::string text = fmt::format("{}\n", row->name);
  const auto line = [&text](std::string_view what, std::string_view value) {
    if (!value.empty()) text += wrapped(fmt::format("  {:<9}", what), value);
  };
  const bool prepares_input = (row->options & kDesiredInputLayouts) != 0;
  const bool prepares_output = (row->options & kDesiredOutputLayouts) != 0;
  line("for", row->use);
  line("shards", sharded_dim_text(*row));
  line("input", boundary_text(row->input, prepares_input));
  line("output", prepares_output ? "as `output_layouts` and `desired_output_layouts` specify"
                                 : boundary_text(row->output, false));
  if (row->sums_parameter_gradients) line("gradients", "of its parameters are all-reduced over the axis");
  line("used with", row->beside);
  line("options", options_text(*row));
  line("elsewhere", holders_text(row->name));
  return text;
}

std::string_view nearest_style(std::string_view name) {
  std::vector<std::string_view> names;
  for (const StyleRow& row : style_table()) names.push_back(row.name);
  return nearest_name(name, names);
}

}  // namespace tpplan
