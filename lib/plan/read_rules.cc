#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "plan/check_rule_options.h"
#include "plan/plan_sections.h"
#include "plan/read_rule_options.h"
#include "plan/read_spec.h"
#include "plan/rule_from_call.h"
#include "styles/style_of_class.h"

namespace tpplan {
namespace {

constexpr uint16_t kAllOptions = 0xffff;
constexpr std::string_view kRuleKeys[] = {"style", "spec", "axis", "optional", "contiguous"};

std::vector<std::string_view> style_names(StyleSet set) {
  std::vector<std::string_view> names;
  for (const StyleRow& row : style_table()) {
    if ((row.sets & set) != 0) names.push_back(row.name);
  }
  return names;
}

constexpr std::string_view kStyleHelp = "write a style such as `colwise`, or a spec such as `[tp, null]`";

// Returns the help for a name that is no style. `meant`: the style or spec to write, if it is clear.
std::string style_help(const std::string& name, const std::vector<std::string_view>& names, StyleSet set,
                       std::string& meant) {
  if (meant = spec_from_call(name); !meant.empty())
    return fmt::format("write the spec as a list, without quotes: `{}`", meant);
  if (Placement placement; parse_placement(name, placement))
    return fmt::format("`{}` is a layout of values: write a style, or a spec with an axis for each dim, `[tp, null]`",
                       name);
  const std::string_view successor = (set & kTransformersStyles) != 0 ? successor_of_style(name) : std::string_view{};
  if (!successor.empty())
    return fmt::format("`{}` is a style of transformers 4: for release 5, write {}", name, successor);
  const size_t hash = name.find('#');
  const std::string_view said = std::string_view(name).substr(0, hash);
  const std::string_view of_class = style_of_class(said);
  const bool is_class = find_style(of_class, set) != nullptr;
  if (meant = is_class ? rule_from_call(name, of_class) : ""; !meant.empty()) return fmt::format("write `{}`", meant);
  meant = is_class ? of_class : nearest_name(said, names);
  if (meant.empty()) return fmt::format("use one of the styles {}", fmt::join(names, ", "));
  if (hash != std::string_view::npos) return fmt::format("write `{}`, and a space before the `#` of a comment", meant);
  return did_you_mean(meant);
}

void read_style(PlanReader& reader, YamlId id, PlanRule& rule) {
  if (!expect_name(reader, id, "the style", kStyleHelp)) return;
  const std::string& name = node_at(reader, id).text;
  rule.style = find_style(name, reader.plan.dialect->styles);
  if (rule.style != nullptr) return;
  const std::vector<std::string_view> names = style_names(reader.plan.dialect->styles);
  if (is_style(name)) {
    report_error(reader, Code::UnsupportedStyle, id,
                 fmt::format("`{}` is not a style of the {} dialect", name, reader.plan.dialect->name),
                 fmt::format("use one of its styles: {}", fmt::join(names, ", ")));
    return;
  }
  if (find_axis(reader.plan.mesh, name) != kNoAxis) {
    report_error(reader, Code::UnknownStyle, id, fmt::format("`{}` is an axis of the mesh, not a style", name),
                 std::string(kStyleHelp));
    return;
  }
  std::string meant;
  std::string help = style_help(name, names, reader.plan.dialect->styles, meant);
  report_error(reader, Code::UnknownStyle, id, fmt::format("unknown style `{}`", name), std::move(help));
  propose_edit(reader, id, meant);
}

// Appends the names of the options in a mask.
void add_option_names(uint16_t options, std::vector<std::string_view>& names) {
  for (uint16_t bit = 1; bit <= kLastOption; bit = static_cast<uint16_t>(bit << 1)) {
    if ((options & bit) != 0) names.push_back(option_name(static_cast<StyleOption>(bit)));
  }
}

// Reports an option that the style does not have, and lists the style's options.
void check_option(PlanReader& reader, YamlId key, uint16_t option, const PlanRule& rule) {
  if (rule.style == nullptr) return;
  const DialectRow& dialect = *reader.plan.dialect;
  if ((option & (kForwardDtype | kBackwardDtype)) != 0 && dialect.runtime != PlanRuntime::Tpplan) {
    report_error(reader, Code::UnsupportedOption, key,
                 fmt::format("`{}` has no effect in the {} dialect: its styles send values in their original dtype",
                             node_at(reader, key).text, dialect.name),
                 "remove `dialect` and run the plan with tpplan.torch, or remove the option");
    return;
  }
  if ((known_options(*rule.style) & option) != 0) return;
  std::vector<std::string_view> own = {"axis", "optional"};
  add_option_names(known_options(*rule.style), own);
  report_error(reader, Code::UnsupportedOption, key,
               fmt::format("`{}` has no option `{}`", rule.style->name, node_at(reader, key).text),
               fmt::format("use one of its options: {}", fmt::join(own, ", ")));
}

// Checks combinations of keys after all keys of a rule are read.
void check_rule_keys(PlanReader& reader, YamlId id, const PlanRule& rule, bool has_unknown) {
  const bool has_style = find_entry(reader, id, "style").key != kNoYaml;
  const YamlId spec_key = find_entry(reader, id, "spec").key, axis_key = find_entry(reader, id, "axis").key,
               contiguous_key = find_entry(reader, id, "contiguous").key;
  const bool has_spec = spec_key != kNoYaml;
  if (has_style && has_spec)
    report_error(reader, Code::UnsupportedOption, spec_key, "a rule has both a style and a spec",
                 "keep one of the two");
  if (!has_style && !has_spec && !has_unknown) {
    report_error(reader, Code::MissingPlanField, id, fmt::format("rule `{}` has neither a style nor a spec", rule.key),
                 "write {style: colwise} or {spec: [tp, null]}");
  }
  if (has_spec && axis_key != kNoYaml)
    report_error(reader, Code::UnsupportedOption, axis_key, "`axis` does not apply to a spec, which names its axes",
                 "remove `axis`");
  if (has_style && contiguous_key != kNoYaml) {
    report_error(reader, Code::UnsupportedOption, contiguous_key,
                 "`contiguous` applies only to a spec, but this rule has a style", "remove `contiguous`");
  }
  for_each_entry(reader, id, "a rule", [&](YamlId key, YamlId) {
    const uint16_t option = find_option(node_at(reader, key).text);
    if (option == 0) return;
    if (has_spec)
      report_error(reader, Code::UnsupportedOption, key,
                   fmt::format("a spec has no option `{}`", node_at(reader, key).text));
    else
      check_option(reader, key, option, rule);
  });
}

// Adds a help for `{colwise}`: a key without a value, meant as a style.
void explain_bare_word(PlanReader& reader, YamlId key, YamlId value) {
  const std::string& name = node_at(reader, key).text;
  if (node_at(reader, value).kind == YamlKind::Null && is_style(name))
    reader.diagnostics.list.back().help = fmt::format("write only `{0}`, or `{{style: {0}}}`", name);
}

void read_rule_map(PlanReader& reader, YamlId id, PlanRule& rule, OptionSpans& written) {
  bool has_unknown = false;
  for_each_entry(reader, id, "a rule", [&](YamlId key, YamlId value) {
    const std::string& name = node_at(reader, key).text;
    if (name == "style") {
      read_style(reader, value, rule);
    } else if (name == "spec") {
      rule.spec = read_spec(reader, value);
    } else if (name == "axis") {
      read_axis(reader, value, "`axis`", rule.axis);
    } else if (name == "optional") {
      read_bool(reader, value, "`optional`", rule.optional);
    } else if (name == "contiguous") {
      read_bool(reader, value, "`contiguous`", rule.contiguous);
    } else if (const uint16_t option = find_option(name); option != 0) {
      written[option_name(static_cast<StyleOption>(option))] = span_at(reader, key);
      read_option(reader, key, value, option, rule.options);
    } else {
      has_unknown = true;
      std::vector<std::string_view> known(std::begin(kRuleKeys), std::end(kRuleKeys));
      add_option_names(kAllOptions, known);
      report_unknown_key(reader, key, "a rule", known);
      explain_bare_word(reader, key, value);
    }
  });
  check_rule_keys(reader, id, rule, has_unknown);
}

// False for a style without effect on parameters, values and gradients: `replicate`, in a mesh of data axes only.
bool works_over_axis(const StyleRow& style) {
  return !style.shard_dim.empty() || style.input.used || style.output.used || style.sums_parameter_gradients ||
         style.counts_modules;
}

// Sets the plan's axis for a style without one. Reports once that the mesh lacks it, for a rule without other errors.
void set_default_axis(PlanReader& reader, PlanRule& rule, bool has_job_errors) {
  rule.axis = reader.axis;
  if (reader.axis != kNoAxis || reader.axis_is_wrong || has_job_errors || !works_over_axis(*rule.style)) return;
  Diagnostic* d = report(reader.diagnostics, Code::UnknownAxis, rule.value_span, "default axis");
  if (d == nullptr) return;
  const std::vector<MeshAxis>& axes = reader.plan.mesh.axes;
  d->message = fmt::format("styles shard over axis `{}`, which is not in the mesh", reader.axis_name);
  d->counted = "rule";
  d->help = fmt::format("{}; name one of them: `axis: {}`", axes_help(reader), axes.empty() ? "tp" : axes.back().name);
}

void read_rule(PlanReader& reader, YamlId key, YamlId value, uint32_t block) {
  if (!check_key_length(reader, key)) return;
  PlanRule rule;
  rule.key = node_at(reader, key).text;
  rule.key_span = span_at(reader, key);
  rule.value_span = span_at(reader, value);
  rule.line = node_at(reader, key).line;
  rule.block = block;
  OptionSpans written;
  const std::string_view replicate_style = reader.plan.dialect->replicate_style;
  const size_t faults = reader.diagnostics.list.size();
  const auto has_job_errors = [&] { return reader.diagnostics.list.size() > faults; };
  switch (node_at(reader, value).kind) {
    case YamlKind::Scalar:
      read_style(reader, value, rule);
      break;
    case YamlKind::Sequence:
      rule.spec = read_spec(reader, value);
      break;
    case YamlKind::Map:
      read_rule_map(reader, value, rule, written);
      break;
    case YamlKind::Null:
      report_error(reader, Code::InvalidPlanValue, value, fmt::format("rule `{}` has no style", rule.key),
                   replicate_style.empty()
                       ? "remove it: parameters without a rule stay replicated"
                       : fmt::format("write `{}`, or [null, null], to replicate a parameter", replicate_style));
      break;
  }
  if (rule.style != nullptr && rule.axis == kNoAxis) set_default_axis(reader, rule, has_job_errors());
  if (!has_job_errors()) check_rule_options(rule, written, *reader.plan.dialect, reader.diagnostics);
  reader.plan.rules.push_back(std::move(rule));
}

bool is_key_of_rule(std::string_view name) {
  return std::ranges::find(kRuleKeys, name) != std::end(kRuleKeys) || find_option(name) != 0;
}

// Reads a map of rules. If a rule without a value is followed by keys of a rule, these lack indentation: one diagnostic
// for all of them.
void read_rules_of(PlanReader& reader, YamlId id, std::string_view what, uint32_t block, std::string_view form) {
  if (!expect(reader, id, YamlKind::Map, what, form)) return;
  const std::vector<YamlId>& children = node_at(reader, id).children;
  for (size_t i = 0; i + 1 < children.size(); i += 2) {
    const YamlId key = children[i];
    const auto is_same_indent = [&](size_t at) {
      return at + 1 < children.size() && is_key_of_rule(node_at(reader, children[at]).text);
    };
    if (node_at(reader, children[i + 1]).kind != YamlKind::Null || !is_same_indent(i + 2)) {
      read_rule(reader, key, children[i + 1], block);
      continue;
    }
    i += 2;
    report_error(reader, Code::InvalidPlanValue, children[i],
                 fmt::format("key `{}` is next to rule `{}` instead of below it", node_at(reader, children[i]).text,
                             node_at(reader, key).text),
                 "indent the rule's keys by 2 spaces more than its path");
    while (is_same_indent(i + 2)) i += 2;
  }
}

// ---- rules over names of dims ----

constexpr std::string_view kPairHelp = "write a rule as `[name, axis]`, `[name, [axes]]` or `[name, null]`";

bool is_list_of_names(const PlanReader& reader, YamlId id) {
  const auto is_name = [&](YamlId item) { return node_at(reader, item).kind == YamlKind::Scalar; };
  return node_at(reader, id).kind == YamlKind::Sequence && std::ranges::all_of(node_at(reader, id).children, is_name);
}

// Returns the axes of an optional rule that the mesh has. One file of rules serves many meshes, and MaxText drops the
// axes that its mesh lacks.
DimAxes present_axes(const PlanReader& reader, YamlId id) {
  DimAxes axes;
  for (const YamlId item : node_at(reader, id).children) {
    const AxisId axis = find_axis(reader.plan.mesh, node_at(reader, item).text);
    if (axis != kNoAxis) axes.push_back(axis);
  }
  return axes;
}

// Reads one rule of a list: a pair, or a mapping with options.
void read_pair(PlanReader& reader, YamlId id) {
  const YamlNode& node = node_at(reader, id);
  YamlId name = kNoYaml, axes = kNoYaml;
  PlanRule rule;
  rule.of_dim = true;
  bool has_unknown = false;
  if (node.kind == YamlKind::Sequence && node.children.size() == 2) {
    name = node.children[0];
    axes = node.children[1];
  } else if (node.kind == YamlKind::Map) {
    for_each_entry(reader, id, "a rule", [&](YamlId key, YamlId value) {
      const std::string& said = node_at(reader, key).text;
      static constexpr std::string_view known[] = {"name", "axes", "optional"};
      if (said == "name")
        name = value;
      else if (said == "axes")
        axes = value;
      else if (said == "optional")
        read_bool(reader, value, "`optional`", rule.optional);
      else {
        has_unknown = true;
        report_unknown_key(reader, key, "a rule", known);
      }
    });
    for (const auto& [said, at] : {std::pair{"name", name}, std::pair{"axes", axes}}) {
      if (at == kNoYaml && !has_unknown)
        report_error(reader, Code::MissingPlanField, id, fmt::format("a rule has no `{}`", said),
                     "write {name: mlp, axes: tp}");
    }
  } else if (node.kind == YamlKind::Sequence) {
    report_error(reader, Code::InvalidPlanValue, id,
                 fmt::format("a rule for dim names is a list of {}, not of 2", node.children.size()),
                 std::string(kPairHelp));
  } else {
    report_error(reader, Code::InvalidPlanValue, id,
                 fmt::format("a rule for dim names is {}, not a list or mapping", describe(node)),
                 std::string(kPairHelp));
  }
  if (name == kNoYaml || axes == kNoYaml || !expect_name(reader, name, "the name of a dim") ||
      !check_key_length(reader, name))
    return;
  rule.key = node_at(reader, name).text;
  if (rule.key.empty()) {
    report_error(reader, Code::InvalidPlanValue, name, "the name of a dim is empty", std::string(kPairHelp));
    return;
  }
  rule.key_span = span_at(reader, name);
  rule.value_span = span_at(reader, axes);
  rule.line = node_at(reader, name).line;
  rule.spec.emplace();
  DimAxes& entry = rule.spec->before.emplace_back();
  if (rule.optional && is_list_of_names(reader, axes))
    entry = present_axes(reader, axes);
  else if (!read_spec_entry(reader, axes, entry))
    return;
  reader.plan.rules.push_back(std::move(rule));
}

void read_pairs(PlanReader& reader, YamlId id) {
  if (!expect(reader, id, YamlKind::Sequence, "`tp_plan` of this dialect")) {
    reader.diagnostics.list.back().help = fmt::format("make it a list in order of precedence; {}", kPairHelp);
    return;
  }
  for (const YamlId item : node_at(reader, id).children) read_pair(reader, item);
}

}  // namespace

bool is_rule_value(const PlanReader& reader, YamlId value) {
  const YamlNode& node = node_at(reader, value);
  if (node.kind == YamlKind::Map)
    return find_entry(reader, value, "style").key != kNoYaml || find_entry(reader, value, "spec").key != kNoYaml;
  constexpr StyleSet sets[] = {kTpplanStyles, kTorchStyles, kTransformersStyles};
  return node.kind == YamlKind::Scalar &&
         std::ranges::any_of(sets, [&](StyleSet set) { return find_style(node.text, set) != nullptr; });
}

void read_rules(PlanReader& reader, YamlId id) {
  if (node_at(reader, id).kind == YamlKind::Null) return;
  if (reader.plan.dialect->keys == KeySyntax::Names)
    read_pairs(reader, id);
  else
    read_rules_of(reader, id, "`tp_plan`", kNoRule, {});
}

void read_blocks(PlanReader& reader, YamlId id) {
  if (reader.plan.dialect->keys == KeySyntax::Names) {
    report_error(reader, Code::UnsupportedOption, id,
                 fmt::format("`blocks` has no effect in the {} dialect", reader.plan.dialect->name),
                 "write all rules under `tp_plan`: dim names apply to the entire model");
    return;
  }
  for_each_entry(
      reader, id, "`blocks`",
      [&](YamlId key, YamlId value) {
        if (!check_key_length(reader, key)) return;
        const auto block = static_cast<uint32_t>(reader.plan.blocks.size());
        const std::string& pattern = node_at(reader, key).text;
        reader.plan.blocks.push_back({pattern, span_at(reader, key)});
        const bool is_rule = block > 0 && is_rule_value(reader, value);
        read_rules_of(
            reader, value, fmt::format("block `{}`", pattern), block,
            is_rule ? fmt::format("indent it: it is a rule of the block `{}` above", reader.plan.blocks[block - 1].text)
                    : "write rules for the modules inside the block: `{\"mlp.up_proj\": colwise}`");
        if (node_at(reader, value).kind == YamlKind::Map && node_at(reader, value).children.empty())
          report_error(reader, Code::SettingWithoutEffect, key, fmt::format("block `{}` has no rules", pattern),
                       "write rules in it, or remove it");
      },
      "write rules below the path of the modules: `blocks: {\"layers.*\": {\"mlp.up_proj\": colwise}}`");
}

}  // namespace tpplan
