#include "plan/read_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "base/text.h"
#include "plan/style_of_class.h"
#include "plan/yaml_tree.h"
#include "sharding/redistribute.h"

namespace tpplan {
namespace {

struct PlanReader {
  const SourceFile& file;
  const YamlTree& tree;
  TpPlan& plan;
  Diagnostics& diagnostics;
  AxisId axis = kNoAxis;            // the plan's `axis`
  std::map<std::string_view, Span> option_spans;  // of the rule being read, by option name
  std::string axis_name = "tp";
  bool axis_is_wrong = false;       // `axis` stands there and has been reported
};

const YamlNode& node_at(const PlanReader& reader, YamlId id) { return reader.tree.nodes[id]; }
Span span_at(const PlanReader& reader, YamlId id) { return span_of(Source::Plan, node_at(reader, id)); }

Diagnostic& fault(PlanReader& reader, Code code, YamlId id, std::string message, std::string help = {}) {
  return report_message(reader.diagnostics, code, span_at(reader, id), std::move(message), std::move(help));
}

bool is_yaml_number(const YamlNode& node) {
  return node.kind == YamlKind::Scalar && node.is_plain && node.text.find_first_not_of("0123456789.+-_exEX") == std::string::npos &&
         node.text.find_first_of("0123456789") != std::string::npos;
}

// YAML 1.1 words that other readers take for booleans, and plain numbers: not names unless quoted.
bool is_yaml_word(const YamlNode& node) {
  static constexpr std::string_view words[] = {"true", "false", "yes", "no", "on", "off"};
  if (!node.is_plain) return false;
  std::string lower = node.text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return is_yaml_number(node) || std::find(std::begin(words), std::end(words), lower) != std::end(words);
}

bool expect(PlanReader& reader, YamlId id, YamlKind kind, std::string_view what) {
  if (node_at(reader, id).kind == kind) return true;
  static constexpr std::string_view names[] = {"null", "text", "a list", "a mapping"};
  fault(reader, Code::TP3003, id, fmt::format("{} is {}, not {}", what, describe(node_at(reader, id)), names[static_cast<size_t>(kind)]));
  return false;
}

// A name: a scalar that no YAML reader takes for a boolean or a number.
bool expect_name(PlanReader& reader, YamlId id, std::string_view what) {
  if (!expect(reader, id, YamlKind::Scalar, what)) return false;
  if (!is_yaml_word(node_at(reader, id))) return true;
  fault(reader, Code::TP3003, id, fmt::format("{} is `{}`, which YAML reads as a boolean or a number", what, node_at(reader, id).text),
        "quote it if it is meant as a name");
  return false;
}

// Plain decimal integer >= minimum.
bool read_integer(PlanReader& reader, YamlId id, std::string_view what, int64_t minimum, int64_t& value, Code code = Code::TP3003,
                  int64_t maximum = std::numeric_limits<int64_t>::max()) {
  const YamlNode& node = node_at(reader, id);
  const bool plain = node.kind == YamlKind::Scalar && node.is_plain;
  const bool negative = plain && node.text.starts_with('-');
  const bool good = plain && parse_decimal(std::string_view(node.text).substr(negative), value) && !(negative && value == 0);
  if (good && negative) value = -value;
  if (good && value >= minimum && value <= maximum) return true;
  const bool digits = plain && !node.text.empty() && node.text.find_first_not_of("0123456789") == std::string::npos && node.text[0] != '0';
  if (digits) {
    fault(reader, code, id, fmt::format("{} is {}, which is more than {}", what, describe(node), maximum));
    return false;
  }
  const bool quoted_number = node.kind == YamlKind::Scalar && !node.is_plain && parse_decimal(node.text, value);
  fault(reader, code, id, fmt::format("{} is {}, not a whole number from {} up", what, describe(node), minimum),
        quoted_number ? "remove the quotes" : "");
  return false;
}

bool read_bool(PlanReader& reader, YamlId id, std::string_view what, bool& value) {
  const YamlNode& node = node_at(reader, id);
  if (node.kind == YamlKind::Scalar && node.is_plain && (node.text == "true" || node.text == "false")) {
    value = node.text == "true";
    return true;
  }
  const bool quoted = node.kind == YamlKind::Scalar && !node.is_plain && (node.text == "true" || node.text == "false");
  fault(reader, Code::TP3003, id, fmt::format("{} is {}, not true or false", what, describe(node)), quoted ? "remove the quotes" : "");
  return false;
}

void unknown_key(PlanReader& reader, YamlId key, std::string_view where, std::span<const std::string_view> known) {
  const std::string_view nearest = nearest_name(node_at(reader, key).text, known);
  fault(reader, Code::TP3004, key, fmt::format("unknown key `{}` in {}", node_at(reader, key).text, where),
        nearest.empty() ? fmt::format("keys are {}", fmt::join(known, ", ")) : fmt::format("did you mean `{}`?", nearest));
}

// Reads one of `names` into its index.
bool read_choice(PlanReader& reader, YamlId id, std::string_view what, std::span<const std::string_view> names, size_t& choice) {
  if (!expect_name(reader, id, what)) return false;
  const std::string_view text = node_at(reader, id).text;
  const auto found = std::find(names.begin(), names.end(), text);
  choice = static_cast<size_t>(found - names.begin());
  if (found != names.end()) return true;
  const std::string_view nearest = nearest_name(text, names);
  fault(reader, Code::TP3013, id, fmt::format("{} is `{}`, not one of {}", what, text, fmt::join(names, ", ")),
        nearest.empty() ? "" : fmt::format("did you mean `{}`?", nearest));
  return false;
}

std::string axes_help(const PlanReader& reader) {
  std::vector<std::string> names;
  for (const MeshAxis& axis : reader.plan.mesh.axes) names.push_back(axis.name);
  return names.empty() ? "the mesh has no axes" : fmt::format("the mesh has {} `{}`", names.size() == 1 ? "axis" : "axes", join(names, "`, `"));
}

bool read_axis(PlanReader& reader, YamlId id, std::string_view what, AxisId& axis) {
  if (!expect_name(reader, id, what)) return false;
  axis = find_axis(reader.plan.mesh, node_at(reader, id).text);
  if (axis != kNoAxis) return true;
  fault(reader, Code::TP3006, id, fmt::format("{} `{}` is not an axis of the mesh", what, node_at(reader, id).text), axes_help(reader));
  return false;
}

// Calls `visit(key, value)` for each entry of a map; false when the node is no map.
template <typename Visit>
bool for_each_entry(PlanReader& reader, YamlId id, std::string_view what, Visit visit) {
  if (!expect(reader, id, YamlKind::Map, what)) return false;
  const std::vector<YamlId>& children = node_at(reader, id).children;
  for (size_t i = 0; i + 1 < children.size(); i += 2) visit(children[i], children[i + 1]);
  return true;
}

// The items of a list; a single value counts as a list of one.
std::vector<YamlId> items_of(const PlanReader& reader, YamlId id) {
  return node_at(reader, id).kind == YamlKind::Sequence ? node_at(reader, id).children : std::vector<YamlId>{id};
}

void read_patterns(PlanReader& reader, YamlId id, std::string_view what, std::vector<ModulePattern>& patterns) {
  if (!expect(reader, id, YamlKind::Sequence, what)) return;
  for (const YamlId item : node_at(reader, id).children) {
    if (expect(reader, item, YamlKind::Scalar, "a pattern")) patterns.push_back({node_at(reader, item).text, span_at(reader, item)});
  }
}

// ---- mesh ----

void read_mesh(PlanReader& reader, YamlId id, const MeshSizes& replaced) {
  Mesh& mesh = reader.plan.mesh;
  std::vector<YamlId> sizes;
  for_each_entry(reader, id, "`mesh`", [&](YamlId key, YamlId value) {
    MeshAxis axis{.name = node_at(reader, key).text, .size = 1};
    const auto other = std::find_if(replaced.begin(), replaced.end(), [&](const auto& r) { return r.first == axis.name; });
    if (axis.name.empty()) fault(reader, Code::TP3009, key, "a mesh axis has an empty name");
    read_integer(reader, value, fmt::format("the size of axis `{}`", axis.name), 1, axis.size, Code::TP3009);
    if (other != replaced.end()) axis.size = other->second;
    mesh.axes.push_back(std::move(axis));
    sizes.push_back(value);
    reader.plan.axis_spans.push_back(span_at(reader, key));
  });
  if (mesh.axes.empty() && node_at(reader, id).kind == YamlKind::Map) fault(reader, Code::TP3009, id, "the mesh has no axes", "mesh: {tp: 8}");
  if (mesh.axes.size() > kMaxAxes) fault(reader, Code::TP3009, id, fmt::format("{} axes are more than {}", mesh.axes.size(), kMaxAxes));
  constexpr int64_t kMaxDevices = int64_t{1} << 31;
  int64_t devices = 1;
  for (size_t i = 0; i < mesh.axes.size() && devices < kMaxDevices; ++i) {
    if (__builtin_mul_overflow(devices, std::max<int64_t>(mesh.axes[i].size, 1), &devices)) devices = kMaxDevices;
    if (devices >= kMaxDevices) fault(reader, Code::TP3009, sizes[i], "the axis sizes up to here multiply to 2^31 devices or more");
  }
  if (devices >= kMaxDevices) mesh.axes.clear();
}

// ---- layouts and specs ----

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
        nearest.empty() ? "layouts are Replicate, Shard(0), Shard(-1), Partial and null" : fmt::format("did you mean `{}`?", nearest));
  return false;
}

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
  good = for_each_entry(reader, id, "kwarg layouts", [&](YamlId key, YamlId value) {
    Layout layout;
    good = read_layout(reader, value, layout) && good;
    layouts.emplace_back(node_at(reader, key).text, layout);
  }) && good;
  return good ? std::optional(layouts) : std::nullopt;
}

bool read_spec_entry(PlanReader& reader, YamlId id, DimAxes& axes) {
  const YamlNode& node = node_at(reader, id);
  if (node.kind == YamlKind::Null) return true;
  if (node.kind == YamlKind::Scalar && node.text == "None" && find_axis(reader.plan.mesh, "None") == kNoAxis) {
    fault(reader, Code::TP3007, id, "`None` is not an axis of the mesh", "a whole dim is written `null`");
    return false;
  }
  if (is_yaml_number(node)) {
    fault(reader, Code::TP3006, id, fmt::format("a spec entry is the number {}, not an axis of the mesh", node.text), axes_help(reader));
    return false;
  }
  if (node.kind != YamlKind::Sequence) return read_axis(reader, id, "a spec entry", axes.emplace_back());
  bool good = true;
  for (const YamlId item : node.children) {
    const YamlNode& inner = node_at(reader, item);
    if (inner.kind != YamlKind::Scalar || (inner.is_plain && inner.text == "...")) {
      const Code code = inner.kind == YamlKind::Scalar ? Code::TP3006 : Code::TP3003;
      fault(reader, code, item, fmt::format("inside a spec entry stands {}, not an axis", describe(inner)), "one entry a dim: null, an axis, or [axes, major to minor]");
      good = false;
    } else {
      good = read_axis(reader, item, "an axis inside a spec entry", axes.emplace_back()) && good;
    }
  }
  return good;
}

std::optional<SpecTemplate> read_spec(PlanReader& reader, YamlId id) {
  SpecTemplate spec;
  if (!expect(reader, id, YamlKind::Sequence, "`spec`")) return std::nullopt;
  bool good = true;
  for (const YamlId item : node_at(reader, id).children) {
    const YamlNode& node = node_at(reader, item);
    if (node.kind == YamlKind::Scalar && node.text == "...") {
      if (spec.has_ellipsis) {
        fault(reader, Code::TP3007, item, "`...` stands twice in one spec");
        good = false;
      }
      spec.has_ellipsis = true;
      continue;
    }
    good = read_spec_entry(reader, item, (spec.has_ellipsis ? spec.after : spec.before).emplace_back()) && good;
  }
  return good ? std::optional(spec) : std::nullopt;
}

// ---- rules ----

std::vector<std::string_view> style_names(Dialect dialect) {
  std::vector<std::string_view> names;
  for (const StyleRow& row : style_table()) {
    if ((row.dialects & mask_of(dialect)) != 0) names.push_back(row.name);
  }
  return names;
}

void read_style(PlanReader& reader, YamlId id, PlanRule& rule) {
  if (!expect_name(reader, id, "the style")) return;
  const std::string& name = node_at(reader, id).text;
  rule.style = find_style(name, reader.plan.dialect);
  if (rule.style != nullptr) return;
  const std::vector<std::string_view> names = style_names(reader.plan.dialect);
  if (is_style(name)) {
    fault(reader, Code::TP3014, id, fmt::format("`{}` is not a style of the {} dialect", name, to_text(reader.plan.dialect)),
          fmt::format("its styles are {}", fmt::join(names, ", ")));
    return;
  }
  const std::string_view of_class = style_of_class(name);
  const std::string_view nearest = find_style(of_class, reader.plan.dialect) != nullptr ? of_class : nearest_name(name, names);
  fault(reader, Code::TP3005, id, fmt::format("unknown style `{}`", name),
        nearest.empty() ? fmt::format("styles are {}", fmt::join(names, ", ")) : fmt::format("did you mean `{}`?", nearest));
}

void read_option(PlanReader& reader, YamlId key, YamlId value, uint16_t option, RuleOptions& options) {
  const auto flag = [&](std::optional<bool>& target) {
    bool read = false;
    if (read_bool(reader, value, fmt::format("`{}`", node_at(reader, key).text), read)) target = read;
  };
  switch (option) {
    case kInputLayouts: options.input_layouts = read_layouts(reader, value); break;
    case kDesiredInputLayouts: options.desired_input_layouts = read_layouts(reader, value); break;
    case kOutputLayouts: options.output_layouts = read_layouts(reader, value); break;
    case kDesiredOutputLayouts: options.desired_output_layouts = read_layouts(reader, value); break;
    case kInputKwargLayouts: options.input_kwarg_layouts = read_kwarg_layouts(reader, value); break;
    case kDesiredInputKwargLayouts: options.desired_input_kwarg_layouts = read_kwarg_layouts(reader, value); break;
    case kUseLocalInput: flag(options.use_local_input); break;
    case kUseLocalOutput: flag(options.use_local_output); break;
    case kSequenceDim: {
      int64_t dim = 0;
      if (read_integer(reader, value, "`sequence_dim`", -64, dim, Code::TP3003, 63)) options.sequence_dim = static_cast<int>(dim);
      break;
    }
    default: break;
  }
}

// An option that is known but not this style's names the style's own.
void check_option(PlanReader& reader, YamlId key, uint16_t option, const PlanRule& rule) {
  if (rule.style == nullptr || (rule.style->options & option) != 0) return;
  std::vector<std::string_view> own = {"axis", "optional"};
  for (uint16_t bit = 1; bit <= kSequenceDim; bit = static_cast<uint16_t>(bit << 1)) {
    if ((rule.style->options & bit) != 0) own.push_back(option_name(static_cast<StyleOption>(bit)));
  }
  fault(reader, Code::TP3008, key, fmt::format("`{}` has no option `{}`", rule.style->name, node_at(reader, key).text),
        fmt::format("its options are {}", fmt::join(own, ", ")));
}

void read_rule_map(PlanReader& reader, YamlId id, PlanRule& rule) {
  static constexpr std::string_view known[] = {"style", "spec", "axis", "optional", "input_layouts", "desired_input_layouts",
      "input_kwarg_layouts", "desired_input_kwarg_layouts", "output_layouts", "desired_output_layouts", "use_local_input",
      "use_local_output", "sequence_dim"};
  std::vector<std::pair<YamlId, uint16_t>> option_keys;
  bool has_style = false, has_unknown = false;
  YamlId axis_key = kNoYaml, spec_key = kNoYaml;
  for_each_entry(reader, id, "a rule", [&](YamlId key, YamlId value) {
    const std::string& name = node_at(reader, key).text;
    if (name == "style") {
      has_style = true;
      read_style(reader, value, rule);
    } else if (name == "spec") {
      spec_key = key;
      rule.spec = read_spec(reader, value);
    } else if (name == "axis") {
      axis_key = key;
      read_axis(reader, value, "`axis`", rule.axis);
    } else if (name == "optional") {
      read_bool(reader, value, "`optional`", rule.optional);
    } else if (const uint16_t option = find_option(name); option != 0) {
      option_keys.emplace_back(key, option);
      reader.option_spans[option_name(static_cast<StyleOption>(option))] = span_at(reader, key);
      read_option(reader, key, value, option, rule.options);
    } else {
      has_unknown = true;
      unknown_key(reader, key, "a rule", known);
    }
  });
  if (has_style && spec_key != kNoYaml) fault(reader, Code::TP3008, spec_key, "a rule has a style and a spec", "keep one of the two");
  if (!has_style && spec_key == kNoYaml && !has_unknown) fault(reader, Code::TP3002, id, fmt::format("rule `{}` has neither a style nor a spec", rule.key), "{style: colwise} or {spec: [tp, null]}");
  if (spec_key != kNoYaml && axis_key != kNoYaml) fault(reader, Code::TP3008, axis_key, "a spec names its axes itself", "remove `axis`");
  for (const auto& [key, option] : option_keys) {
    if (spec_key != kNoYaml) fault(reader, Code::TP3008, key, fmt::format("a spec has no option `{}`", node_at(reader, key).text));
    else check_option(reader, key, option, rule);
  }
}

// ---- checks on a whole rule, after torch's own asserts (torch 2.13, style.py) ----

void check_pair(PlanReader& reader, const PlanRule& rule, std::string_view from_name, std::string_view to_name,
                const std::optional<std::vector<Layout>>& from, const std::optional<std::vector<Layout>>& to) {
  const auto say = [&](Code code, std::string message) {
    const bool target = code == Code::TP3016;
    const auto written = reader.option_spans.find(target ? to_name : from_name);
    report_message(reader.diagnostics, code, written == reader.option_spans.end() ? rule.value_span : written->second, std::move(message),
                   target ? "bring a sum to Replicate or Shard(d), or leave it Partial" : "one entry for each value in both lists, `null` for one that is left alone");
  };
  if (to && !from) {
    const auto written = reader.option_spans.find(to_name);
    report_message(reader.diagnostics, Code::TP3018, written == reader.option_spans.end() ? rule.value_span : written->second,
                   fmt::format("`{}` changes nothing without `{}`", to_name, from_name), fmt::format("say how the values come: `{}`", from_name));
    return;
  }
  if (from && !to) return say(Code::TP3015, fmt::format("`{}` is given without `{}`", from_name, to_name));
  if (!from || !to) return;
  if (from->size() != to->size()) {
    return say(Code::TP3015, fmt::format("`{}` has {}, `{}` has {}", from_name, counted(from->size(), "layout"), to_name, counted(to->size(), "layout")));
  }
  for (size_t i = 0; i < from->size(); ++i) {
    if (!(*from)[i] || !(*to)[i] || redistribute(std::span(&*(*from)[i], 1), std::span(&*(*to)[i], 1))) continue;
    say(Code::TP3016, fmt::format("value {} of `{}` would be brought from {} to {}: a sum cannot be taken apart again", i, to_name,
                                  to_text(*(*from)[i]), to_text(*(*to)[i])));
  }
}

void check_kwargs(PlanReader& reader, const PlanRule& rule) {
  const auto& from = rule.options.input_kwarg_layouts;
  const auto& to = rule.options.desired_input_kwarg_layouts;
  const auto say = [&](Code code, std::string message) { report_message(reader.diagnostics, code, rule.value_span, std::move(message)); };
  if (to && !from) {
    const auto written = reader.option_spans.find("desired_input_kwarg_layouts");
    report_message(reader.diagnostics, Code::TP3018, written == reader.option_spans.end() ? rule.value_span : written->second,
                   "`desired_input_kwarg_layouts` changes nothing without `input_kwarg_layouts`", "say how the values come: `input_kwarg_layouts`");
  }
  if (!from) return;
  if (!to || from->size() != to->size()) {
    return say(Code::TP3015, fmt::format("`input_kwarg_layouts` has {}, `desired_input_kwarg_layouts` has {}", counted(from->size(), "layout"), counted(to ? to->size() : 0, "layout")));
  }
  for (const auto& [name, layout] : *from) {
    const auto wanted = std::find_if(to->begin(), to->end(), [&n = name](const auto& w) { return w.first == n; });
    if (wanted == to->end()) {
      say(Code::TP3015, fmt::format("kwarg `{}` has no desired layout", name));
    } else if (layout && wanted->second && !redistribute(std::span(&*layout, 1), std::span(&*wanted->second, 1))) {
      say(Code::TP3016, fmt::format("kwarg `{}` would be brought to {}: a sum cannot be taken apart again", name, to_text(*wanted->second)));
    }
  }
}

// Styles that take exactly one layout for their one input and output, and those that need a list.
void check_options(PlanReader& reader, const PlanRule& rule) {
  if (rule.style == nullptr) return;
  const RuleOptions& options = rule.options;
  const bool prepares = !rule.style->touches_parameters;
  const auto say = [&](Code code, std::string message, std::string help = {}) {
    report_message(reader.diagnostics, code, rule.value_span, std::move(message), std::move(help));
  };
  if (!prepares) {
    for (const auto& [name, list] : {std::pair{"input_layouts", &options.input_layouts}, std::pair{"output_layouts", &options.output_layouts}}) {
      if (*list && ((*list)->size() != 1 || !(**list)[0])) say(Code::TP3015, fmt::format("`{}` of {} is not one layout", name, rule.style->name));
    }
    // What the style makes is its own affair; only its target can be a redistribution to Partial.
    const Layout made = rule.style->output.used ? Layout(rule.style->output.from) : std::nullopt;
    if (made && options.output_layouts && options.output_layouts->size() == 1 && (*options.output_layouts)[0] &&
        !redistribute(std::span(&*made, 1), std::span(&*(*options.output_layouts)[0], 1))) {
      say(Code::TP3016, fmt::format("the output of {} is {} and cannot be brought to {}", rule.style->name, to_text(*made), to_text(*(*options.output_layouts)[0])));
    }
    return;
  }
  check_pair(reader, rule, "input_layouts", "desired_input_layouts", options.input_layouts, options.desired_input_layouts);
  check_pair(reader, rule, "output_layouts", "desired_output_layouts", options.output_layouts, options.desired_output_layouts);
  check_kwargs(reader, rule);
  const bool says_nothing = !options.input_layouts && !options.desired_input_layouts && !options.input_kwarg_layouts &&
                            !options.desired_input_kwarg_layouts && !options.output_layouts && !options.desired_output_layouts;
  if (says_nothing && (rule.style->options & kOutputLayouts) == 0) {
    say(Code::TP3018, fmt::format("{} changes nothing without layouts", rule.style->name), "give `input_layouts` and `desired_input_layouts`, or remove the rule");
  }
  if ((rule.style->options & kOutputLayouts) != 0 && !options.output_layouts) {
    say(Code::TP3002, fmt::format("{} needs `output_layouts` and `desired_output_layouts`", rule.style->name));
  }
}

// False for a style that leaves parameters, values and gradients as they are: `replicate`, in a mesh for data alone.
bool works_over_axis(const StyleRow& style) {
  return !style.cut_dim.empty() || style.input.used || style.output.used || style.sums_parameter_gradients || style.counts_modules;
}

void read_rule(PlanReader& reader, YamlId key, YamlId value, uint32_t block) {
  PlanRule rule;
  rule.key = node_at(reader, key).text;
  rule.key_span = span_at(reader, key);
  rule.value_span = span_at(reader, value);
  rule.line = node_at(reader, key).line;
  rule.block = block;
  const size_t faults = reader.diagnostics.list.size();
  reader.option_spans.clear();
  switch (node_at(reader, value).kind) {
    case YamlKind::Scalar: read_style(reader, value, rule); break;
    case YamlKind::Sequence: rule.spec = read_spec(reader, value); break;
    case YamlKind::Map: read_rule_map(reader, value, rule); break;
    case YamlKind::Null:
      fault(reader, Code::TP3003, value, fmt::format("rule `{}` has no style", rule.key),
            reader.plan.dialect == Dialect::Torch ? "remove it: what no rule names stays whole" : "write `replicate`, or [null, null], to keep a parameter whole");
      break;
  }
  if (rule.style != nullptr && rule.axis == kNoAxis) {
    rule.axis = reader.axis;
    if (reader.axis == kNoAxis && !reader.axis_is_wrong && works_over_axis(*rule.style) && faults == reader.diagnostics.list.size()) {
      if (Diagnostic* d = report(reader.diagnostics, Code::TP3006, rule.value_span, "default axis")) {
        d->message = fmt::format("styles shard over axis `{}`, which the mesh lacks", reader.axis_name);
        d->counted = "rule";
        d->help = fmt::format("{}; name one of them: `axis: {}`", axes_help(reader), reader.plan.mesh.axes.empty() ? "tp" : reader.plan.mesh.axes.back().name);
      }
    }
  }
  if (faults == reader.diagnostics.list.size()) check_options(reader, rule);
  reader.plan.rules.push_back(std::move(rule));
}

void read_rules(PlanReader& reader, YamlId id, std::string_view what, uint32_t block) {
  for_each_entry(reader, id, what, [&](YamlId key, YamlId value) { read_rule(reader, key, value, block); });
}

void read_blocks(PlanReader& reader, YamlId id) {
  for_each_entry(reader, id, "`blocks`", [&](YamlId key, YamlId value) {
    const auto block = static_cast<uint32_t>(reader.plan.blocks.size());
    reader.plan.blocks.push_back({node_at(reader, key).text, span_at(reader, key)});
    read_rules(reader, value, fmt::format("block `{}`", node_at(reader, key).text), block);
  });
}

// ---- data, fsdp ----

void read_data(PlanReader& reader, YamlId id) {
  static constexpr std::string_view known[] = {"axes", "dim"};
  DataSharding data;
  const size_t faults = reader.diagnostics.list.size();
  for_each_entry(reader, id, "`data`", [&](YamlId key, YamlId value) {
    const std::string& name = node_at(reader, key).text;
    if (name == "axes") {
      for (const YamlId item : items_of(reader, value)) {
        AxisId axis = kNoAxis;
        if (!read_axis(reader, item, "a data axis", axis)) continue;
        if (std::find(data.axes.begin(), data.axes.end(), axis) != data.axes.end()) fault(reader, Code::TP5004, item, fmt::format("axis `{}` stands twice in `data.axes`", node_at(reader, item).text));
        else data.axes.push_back(axis);
      }
    } else if (name == "dim") {
      int64_t dim = 0;
      if (read_integer(reader, value, "`data.dim`", 0, dim, Code::TP3003, 63)) data.dim = static_cast<int>(dim);
    } else {
      unknown_key(reader, key, "`data`", known);
    }
  });
  if (data.axes.empty() && faults == reader.diagnostics.list.size()) {
    report_message(reader.diagnostics, Code::TP3018, span_at(reader, id), "`data` changes nothing without axes", "name the axes that cut the batch: `axes: [fsdp]`");
  }
  reader.plan.data = std::move(data);
}

void read_fsdp(PlanReader& reader, YamlId id) {
  static constexpr std::string_view known[] = {"axis", "min_weight_size", "patterns", "units", "policy"};
  static constexpr std::string_view policies[] = {"largest_dim", "compose", "dim0"};
  FsdpSettings fsdp;
  fsdp.span = span_at(reader, id);
  bool has_axis = false;
  const bool is_map = for_each_entry(reader, id, "`fsdp`", [&](YamlId key, YamlId value) {
    const std::string& name = node_at(reader, key).text;
    size_t policy = 0;
    if (name == "axis") {
      has_axis = true;
      fsdp.span = span_at(reader, value);
      read_axis(reader, value, "`fsdp.axis`", fsdp.axis);
    } else if (name == "min_weight_size") {
      read_integer(reader, value, "`fsdp.min_weight_size`", 0, fsdp.min_weight_size);
    } else if (name == "patterns") {
      read_patterns(reader, value, "`fsdp.patterns`", fsdp.patterns);
    } else if (name == "units") {
      read_patterns(reader, value, "`fsdp.units`", fsdp.units);
    } else if (name == "policy") {
      if (read_choice(reader, value, "`fsdp.policy`", policies, policy)) fsdp.policy = static_cast<FsdpPolicy>(policy);
    } else {
      unknown_key(reader, key, "`fsdp`", known);
    }
  });
  if (is_map && !has_axis) {
    fsdp.axis = find_axis(reader.plan.mesh, "fsdp");
    if (fsdp.axis == kNoAxis) fault(reader, Code::TP3002, id, "`fsdp` names no `axis`, and the mesh has none called fsdp", axes_help(reader));
  }
  reader.plan.fsdp = std::move(fsdp);
}

// ---- init ----

bool read_number(PlanReader& reader, YamlId id, std::string_view what, double& value) {
  const YamlNode& node = node_at(reader, id);
  const bool is_scalar = node.kind == YamlKind::Scalar;
  if (is_scalar && node.is_plain && parse_number(node.text, value)) return true;
  fault(reader, Code::TP3003, id, fmt::format("{} is {}, not a number that a double holds", what, describe(node)),
        is_scalar && !node.is_plain && parse_number(node.text, value) ? "remove the quotes" : "numbers are written 0.02, -1 or 1.5e-3");
  return false;
}

// The arguments of a distribution that has names for them. All of them must be there.
bool read_arguments(PlanReader& reader, YamlId id, const DistributionRow& row, std::array<double, 2>& arguments) {
  const std::span<const std::string_view> names(row.arguments.data(), row.argument_count);
  size_t given = 0;
  bool good = for_each_entry(reader, id, fmt::format("`{}`", row.name), [&](YamlId key, YamlId value) {
    const auto at = static_cast<size_t>(std::find(names.begin(), names.end(), node_at(reader, key).text) - names.begin());
    if (at == names.size()) return unknown_key(reader, key, fmt::format("`{}`", row.name), names);
    ++given;
    read_number(reader, value, fmt::format("`{}`", names[at]), arguments[at]);
  });
  if (good && given < names.size()) {
    fault(reader, Code::TP3002, id, fmt::format("`{}` needs {}", row.name, fmt::join(names, " and ")), fmt::format("{{{}: {{{}: 0, {}: 0.02}}}}", row.name, names[0], names[1]));
    good = false;
  }
  return good;
}

// `zeros`, `{constant: 0.5}`, `{normal: {mean: 0, std: 0.02}}`.
void read_distribution(PlanReader& reader, YamlId id, Distribution& distribution) {
  const YamlNode& node = node_at(reader, id);
  const bool is_map = node.kind == YamlKind::Map;
  std::vector<std::string_view> names;
  for (const DistributionRow& row : distribution_table()) {
    if (is_map == (row.argument_count > 0)) names.push_back(row.name);
  }
  if (is_map && node.children.size() != 2) {
    fault(reader, Code::TP3003, id, fmt::format("a distribution is a mapping with {} keys, not one", node.children.size() / 2), "{normal: {mean: 0, std: 0.02}}");
    return;
  }
  const YamlId name = is_map ? node.children[0] : id;
  size_t choice = 0;
  if (find_distribution(node_at(reader, name).text, distribution.kind) && is_map != (distribution_table()[static_cast<size_t>(distribution.kind)].argument_count > 0) && node_at(reader, name).kind == YamlKind::Scalar) {
    fault(reader, Code::TP3003, id, fmt::format("`{}` {}", node_at(reader, name).text, is_map ? "takes no arguments" : "needs arguments"),
          is_map ? fmt::format("write `{}` alone", node_at(reader, name).text) : "{constant: 0.5}, {normal: {mean: 0, std: 0.02}}, {uniform: {low: -0.1, high: 0.1}}");
    return;
  }
  if (!read_choice(reader, name, "the distribution", names, choice)) return;
  find_distribution(names[choice], distribution.kind);
  const DistributionRow& row = distribution_table()[static_cast<size_t>(distribution.kind)];
  const size_t faults = reader.diagnostics.list.size();
  if (row.argument_count == 1) read_number(reader, node.children[1], fmt::format("`{}`", row.name), distribution.arguments[0]);
  if (row.argument_count == 2) read_arguments(reader, node.children[1], row, distribution.arguments);
  const std::string_view wrong = fault_of(distribution);
  if (faults == reader.diagnostics.list.size() && !wrong.empty()) fault(reader, Code::TP3019, node.children[1], fmt::format("{} in `{}`", wrong, row.name));
}

void read_init(PlanReader& reader, YamlId id) {
  for_each_entry(reader, id, "`init`", [&](YamlId key, YamlId value) {
    InitEntry& entry = reader.plan.init.emplace_back();
    entry.pattern = {node_at(reader, key).text, span_at(reader, key)};
    read_distribution(reader, value, entry.distribution);
  });
}

// ---- suppressions ----

void read_suppression(PlanReader& reader, YamlId id) {
  static constexpr std::string_view known[] = {"code", "reason", "rule"};
  Suppression suppression;
  suppression.span = span_at(reader, id);
  bool has_code = false;
  const bool is_map = for_each_entry(reader, id, "a suppression", [&](YamlId key, YamlId value) {
    const std::string& name = node_at(reader, key).text;
    if (std::find(std::begin(known), std::end(known), name) == std::end(known)) return unknown_key(reader, key, "a suppression", known);
    // What is there and wrong is not also missing.
    has_code = has_code || name == "code";
    if (name == "reason") suppression.reason = " ";
    if (!expect(reader, value, YamlKind::Scalar, fmt::format("`{}`", name))) return;
    const std::string& text = node_at(reader, value).text;
    if (name == "reason") suppression.reason = text;
    if (name == "rule") suppression.rule = text;
    if (name != "code") return;
    suppression.span = span_at(reader, value);
    const DiagnosticKind* kind = find_kind(text);
    if (kind != nullptr && kind->severity == Severity::Warning) suppression.code = kind->code;
    else fault(reader, Code::TP3013, value, kind == nullptr ? fmt::format("there is no diagnostic `{}`", text) : fmt::format("{} is an error, and errors are not suppressed", text));
  });
  if (is_map && (!has_code || suppression.reason.empty())) {
    fault(reader, Code::TP3002, id, fmt::format("a suppression has no `{}`", has_code ? "reason" : "code"), "{code: TP4006, reason: \"why this is meant\"}");
  }
  reader.plan.suppressions.push_back(std::move(suppression));
}

void read_suppressions(PlanReader& reader, YamlId id) {
  if (!expect(reader, id, YamlKind::Sequence, "`suppress`")) return;
  for (const YamlId item : node_at(reader, id).children) read_suppression(reader, item);
}

// ---- the top level ----

constexpr std::string_view kTopKeys[] = {"format", "dialect", "keras_match", "mesh", "axis", "uneven", "tp_plan", "blocks", "data", "fsdp", "remat", "init", "suppress"};

void read_format(PlanReader& reader, YamlId id) {
  if (!expect(reader, id, YamlKind::Scalar, "`format`")) return;
  const std::string& text = node_at(reader, id).text;
  if (text == kPlanFormat) return;
  fault(reader, Code::TP3001, id, fmt::format("format `{}` is not `{}`", text, kPlanFormat),
        text.starts_with("tpplan.plan/") ? "a newer tpplan reads this version" : text.starts_with("tpplan.") ? "the model comes first, then the plan: tpplan compile MODEL PLAN" : "");
}

void read_settings(PlanReader& reader, const std::array<YamlId, std::size(kTopKeys)>& at) {
  static constexpr std::string_view dialects[] = {"glob", "regex", "torch", "transformers", "keras"};
  static constexpr std::string_view keras_matches[] = {"fullmatch", "search", "match"};
  static constexpr std::string_view uneven[] = {"error", "torch"};
  const auto entry = [&](std::string_view key) { return at[static_cast<size_t>(std::find(std::begin(kTopKeys), std::end(kTopKeys), key) - std::begin(kTopKeys))]; };
  size_t choice = 0;
  TpPlan& plan = reader.plan;
  if (entry("dialect") != kNoYaml && read_choice(reader, entry("dialect"), "`dialect`", dialects, choice)) plan.dialect = static_cast<Dialect>(choice);
  if (entry("keras_match") != kNoYaml && read_choice(reader, entry("keras_match"), "`keras_match`", keras_matches, choice)) {
    plan.keras_match = static_cast<KerasMatch>(choice);
    if (plan.dialect != Dialect::Keras) fault(reader, Code::TP3008, entry("keras_match"), fmt::format("`keras_match` does nothing in the {} dialect", to_text(plan.dialect)), "remove it, or write `dialect: keras`");
  }
  if (entry("uneven") != kNoYaml && read_choice(reader, entry("uneven"), "`uneven`", uneven, choice)) plan.uneven = static_cast<UnevenPolicy>(choice);
  if (entry("axis") != kNoYaml) {
    reader.axis_is_wrong = !read_axis(reader, entry("axis"), "`axis`", reader.axis);
    if (!reader.axis_is_wrong) reader.axis_name = node_at(reader, entry("axis")).text;
  } else {
    reader.axis = find_axis(plan.mesh, reader.axis_name);
  }
}

void read_top(PlanReader& reader, const MeshSizes& mesh_sizes) {
  std::array<YamlId, std::size(kTopKeys)> at, key_at;
  at.fill(kNoYaml);
  key_at.fill(kNoYaml);
  const YamlId root = reader.tree.root;
  if (!for_each_entry(reader, root, "the plan", [&](YamlId key, YamlId value) {
        const auto known = std::find(std::begin(kTopKeys), std::end(kTopKeys), node_at(reader, key).text);
        if (known == std::end(kTopKeys)) unknown_key(reader, key, "the plan", kTopKeys);
        else {
          at[static_cast<size_t>(known - std::begin(kTopKeys))] = value;
          key_at[static_cast<size_t>(known - std::begin(kTopKeys))] = key;
        }
      })) {
    return;
  }
  const auto [format, mesh, tp_plan, blocks, data, fsdp, remat, init, suppress] = std::array{at[0], at[3], at[6], at[7], at[8], at[9], at[10], at[11], at[12]};
  if (format == kNoYaml) fault(reader, Code::TP3001, root, "the plan has no `format`", fmt::format("a plan starts with `format: {}`", kPlanFormat));
  else read_format(reader, format);
  if (mesh == kNoYaml) {
    fault(reader, Code::TP3002, root, "the plan has no `mesh`", "mesh: {tp: 8}");
    return;  // every axis would be unknown
  }
  const size_t faults = reader.diagnostics.list.size();
  read_mesh(reader, mesh, mesh_sizes);
  if (reader.diagnostics.list.size() > faults) return;
  read_settings(reader, at);
  const YamlId rules_key = tp_plan != kNoYaml ? key_at[6] : blocks != kNoYaml ? key_at[7] : kNoYaml;
  reader.plan.rules_span = span_at(reader, rules_key == kNoYaml ? root : rules_key);
  if (tp_plan != kNoYaml) {
    if (node_at(reader, tp_plan).kind != YamlKind::Null) read_rules(reader, tp_plan, "`tp_plan`", kNoRule);
  }
  if (blocks != kNoYaml) read_blocks(reader, blocks);
  if (data != kNoYaml) read_data(reader, data);
  if (fsdp != kNoYaml) read_fsdp(reader, fsdp);
  if (remat != kNoYaml) read_patterns(reader, remat, "`remat`", reader.plan.remat);
  if (init != kNoYaml) read_init(reader, init);
  if (suppress != kNoYaml) read_suppressions(reader, suppress);
  if (reader.plan.rules.empty() && !reader.plan.fsdp && !has_errors(reader.diagnostics)) {
    fault(reader, Code::TP3010, tp_plan != kNoYaml ? tp_plan : root, "the plan has no rules: every parameter would be replicated",
          reader.plan.dialect == Dialect::Torch ? "tp_plan: {\"layers.*.wq\": colwise}" : "to keep one whole on purpose, write a rule for it: `replicate`");
  }
}

}  // namespace

std::span<const std::string_view> plan_keys() { return kTopKeys; }

TpPlan read_plan(const SourceFile& file, const MeshSizes& mesh_sizes, Diagnostics& diagnostics) {
  TpPlan plan;
  YamlTree tree;
  if (!read_yaml(file, Source::Plan, tree, diagnostics)) return plan;
  if (tree.root == kNoYaml) {
    const bool blank = file.text.find_first_not_of(" \t\r\n") == std::string::npos;
    report_message(diagnostics, blank ? Code::TP1008 : Code::TP3010, {Source::Plan, 0, 1},
                   blank ? "the file is empty" : "the plan holds nothing but comments", fmt::format("a plan starts with `format: {}`", kPlanFormat));
    return plan;
  }
  PlanReader reader{.file = file, .tree = tree, .plan = plan, .diagnostics = diagnostics, .option_spans = {}};
  read_top(reader, mesh_sizes);
  return plan;
}

}  // namespace tpplan
