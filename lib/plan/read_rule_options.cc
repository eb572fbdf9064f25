#include "plan/read_rule_options.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"

namespace tpplan {
namespace {

// The maximum number of dims of a module's inputs and outputs.
constexpr int kMostDims = 6;

// Reports a dim out of range.
bool check_value_dim(PlanReader& reader, YamlId id, int64_t dim) {
  if (dim >= -kMostDims && dim < kMostDims) return true;
  report_error(reader, Code::UnknownLayout, id,
               fmt::format("dim {} needs a value of {} dims, but inputs and outputs of modules have at most {}", dim,
                           dim < 0 ? -dim : dim + 1, kMostDims),
               "count dims from 0, or from the end with -1 as the last; the sequence is usually dim 1");
  return false;
}

// Returns the layout that `Shard[1]`, `shard(dim=1)`, DTensor's `S(1)`, `R`, `P`, or a misspelt word means; empty if
// nothing is near.
std::string nearest_layout(std::string_view text) {
  if (text == "R") return "Replicate";
  if (text == "P") return "Partial";
  static constexpr std::string_view examples[] = {"Replicate", "Partial", "Shard(0)", "Shard(1)", "Shard(-1)"};
  const size_t digit = text.find_first_of("0123456789");
  if ((text.starts_with('S') || text.starts_with('s')) && digit != std::string_view::npos) {
    const size_t begin = text[digit - 1] == '-' ? digit - 1 : digit;
    const size_t end = std::min(text.find_first_not_of("0123456789", digit), text.size());
    return fmt::format("Shard({})", text.substr(begin, end - begin));
  }
  return std::string(nearest_name(text, examples));
}

bool read_layout(PlanReader& reader, YamlId id, Layout& layout) {
  const YamlNode& node = node_at(reader, id);
  layout.reset();
  if (node.kind == YamlKind::Null) return true;
  if (!expect(reader, id, YamlKind::Scalar, "a layout")) return false;
  Placement placement;
  if (parse_placement(node.text, placement) && placement.kind != PlacementKind::StridedShard) {
    layout = placement;
    return placement.kind != PlacementKind::Shard || check_value_dim(reader, id, placement.dim);
  }
  const std::string nearest = nearest_layout(node.text);
  report_error(reader, Code::UnknownLayout, id, fmt::format("unknown layout `{}`", node.text),
               nearest.empty() ? "use Replicate, Shard(0), Shard(-1), Partial or null" : did_you_mean(nearest));
  propose_edit(reader, id, nearest);
  return false;
}

// Returns the dtype of a short name (as in safetensors); empty for other words.
std::string_view short_dtype_name(std::string_view word) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"bf16", "bfloat16"}, {"fp16", "float16"},  {"f16", "float16"},    {"half", "float16"}, {"fp32", "float32"},
      {"f32", "float32"},   {"float", "float32"}, {"double", "float64"}, {"fp64", "float64"}, {"f64", "float64"}};
  const auto* const found = std::ranges::find(words, word, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(words) ? std::string_view{} : found->second;
}

// Reads a list of layouts; a single layout is a list of one, as in torch.
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

// Reads a floating point dtype that can be reduced, because the value has a gradient.
void read_sent_dtype(PlanReader& reader, YamlId key, YamlId value, std::optional<SentDtype>& target) {
  constexpr std::string_view words[] = {"bfloat16", "float16", "float32", "float64"};
  const std::string& name = node_at(reader, key).text;
  if (!expect_name(reader, value, fmt::format("`{}`", name))) return;
  const std::string& said = node_at(reader, value).text;
  const std::string_view bare = std::string_view(said).substr(said.find('.') + 1);  // torch.bfloat16, jnp.float32
  SentDtype read{.span = span_at(reader, key)};
  if (find_dtype(said, read.dtype) && is_compute_dtype(read.dtype)) {
    target = read;
    return;
  }
  const std::string help = fmt::format("write one of {}", fmt::join(words, ", "));
  if (find_dtype(said, read.dtype)) {
    report_error(reader, Code::UnknownSetting, value,
                 fmt::format("`{}` is {}, a dtype that ranks cannot reduce", name, said), help);
    return;
  }
  const std::string_view nearest = short_dtype_name(bare).empty() ? nearest_name(bare, words) : short_dtype_name(bare);
  report_error(reader, Code::UnknownSetting, value, fmt::format("`{}` is the unknown dtype `{}`", name, said),
               nearest.empty() ? help : did_you_mean(nearest));
  propose_edit(reader, value, nearest);
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
      if (read_integer(reader, value, "`sequence_dim`", -64, dim, Code::InvalidPlanValue, 63) &&
          check_value_dim(reader, value, dim))
        options.sequence_dim = static_cast<int>(dim);
      break;
    }
    case kForwardDtype:
      read_sent_dtype(reader, key, value, options.forward_dtype);
      break;
    case kBackwardDtype:
      read_sent_dtype(reader, key, value, options.backward_dtype);
      break;
    default:
      break;
  }
}

}  // namespace tpplan
