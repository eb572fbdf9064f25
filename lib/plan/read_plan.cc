#include "plan/read_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "plan/plan_sections.h"

namespace tpplan {
namespace {

// In canonical order.
constexpr std::string_view kTopKeys[] = {"format", "dialect", "keras_match",      "mesh", "axis",
                                         "uneven", "tp_plan", "blocks",           "data", "loss",
                                         "fsdp",   "remat",   "local_attributes", "init", "suppress"};
constexpr std::string_view kFormatHelp = "start the plan with `format: {}`";

void read_format(PlanReader& reader, YamlId id) {
  if (!expect(reader, id, YamlKind::Scalar, "`format`")) return;
  const std::string& text = node_at(reader, id).text;
  if (text == kPlanFormat) return;
  int64_t version = 0;
  const std::string_view family = kPlanFormat.substr(0, kPlanFormat.find('/') + 1);
  const bool is_plan = text.starts_with(family),
             is_other = text.starts_with("tpplan.") && !text.starts_with("tpplan.plan");
  const bool is_newer = is_plan && parse_decimal(std::string_view(text).substr(family.size()), version) && version > 1;
  report_error(reader, Code::UnknownPlanFormat, id, fmt::format("format `{}` is not `{}`", text, kPlanFormat),
               is_newer   ? "update tpplan: a newer version reads this format"
               : is_other ? "write the model before the plan: tpplan compile MODEL PLAN"
                          : fmt::format("write `format: {}`", kPlanFormat));
  if (!is_newer && !is_other) propose_edit(reader, id, kPlanFormat);
}

void read_dialect(PlanReader& reader, YamlId id) {
  std::vector<std::string_view> names;
  for (const DialectRow* dialect : dialect_table()) names.push_back(dialect->name);
  size_t choice = 0;
  if (read_choice(reader, id, "`dialect`", names, choice)) reader.plan.dialect = dialect_table()[choice];
}

// @pre the dialect has been read
void read_keras_match(PlanReader& reader, YamlId id) {
  size_t choice = 0;
  if (!read_choice(reader, id, "`keras_match`", kKerasMatchNames, choice)) return;
  reader.plan.keras_match = static_cast<KerasMatch>(choice);
  if (reader.plan.dialect->reads_keras_match) return;
  report_error(reader, Code::UnsupportedOption, id,
               fmt::format("`keras_match` has no effect in the {} dialect", reader.plan.dialect->name),
               "remove it, or write `dialect: keras`");
}

void read_uneven(PlanReader& reader, YamlId id) {
  size_t choice = 0;
  if (read_choice(reader, id, "`uneven`", kUnevenPolicyNames, choice))
    reader.plan.uneven = static_cast<UnevenPolicy>(choice);
}

void read_default_axis(PlanReader& reader, YamlId id) {
  reader.axis = kNoAxis;
  reader.axis_is_wrong = !read_axis(reader, id, "`axis`", reader.axis);
  if (!reader.axis_is_wrong) reader.axis_name = node_at(reader, id).text;
}

void read_remat(PlanReader& reader, YamlId id) { read_patterns(reader, id, "`remat`", reader.plan.remat); }

struct SectionRow {
  std::string_view key;
  void (*read)(PlanReader&, YamlId);
};

// The sections after format and mesh in reading order: rules need the dialect and the axis.
constexpr SectionRow kSections[] = {{"dialect", read_dialect},
                                    {"keras_match", read_keras_match},
                                    {"uneven", read_uneven},
                                    {"axis", read_default_axis},
                                    {"tp_plan", read_rules},
                                    {"blocks", read_blocks},
                                    {"data", read_data},
                                    {"loss", read_loss},
                                    {"fsdp", read_fsdp},
                                    {"remat", read_remat},
                                    {"local_attributes", read_local_attributes},
                                    {"init", read_init},
                                    {"suppress", read_suppressions}};

// Returns the span for diagnostics about all rules: `tp_plan`, or `blocks`, or the plan.
Span rules_span(const PlanReader& reader) {
  const YamlId root = reader.tree.root;
  for (const std::string_view key : {"tp_plan", "blocks"}) {
    const YamlEntry entry = find_entry(reader, root, key);
    if (entry.key != kNoYaml) return span_at(reader, entry.key);
  }
  return span_at(reader, root);
}

// Reports unknown top-level keys. Those after a key without a value are its rules without indentation: one diagnostic
// for all of them.
void check_top_keys(PlanReader& reader, YamlId root) {
  const std::vector<YamlId>& children = node_at(reader, root).children;
  const std::string* waiting = nullptr;  // the key before, if it expects rules and has no value
  std::string_view above;                // the last key that has rules
  Diagnostic* beside = nullptr;
  for (size_t i = 0; i + 1 < children.size(); i += 2) {
    const std::string& name = node_at(reader, children[i]).text;
    if (plan_key_rank(name) < std::size(kTopKeys)) {
      const bool is_empty = node_at(reader, children[i + 1]).kind == YamlKind::Null;
      const bool has_rules = name == "tp_plan" || name == "blocks";
      waiting = is_empty && has_rules ? &name : nullptr;
      if (has_rules) above = name;
      beside = nullptr;
    } else if (waiting == nullptr && !above.empty() && is_rule_value(reader, children[i + 1])) {
      report_error(reader, Code::UnknownPlanKey, children[i],
                   fmt::format("key `{}` is next to `{}` instead of below it", name, above),
                   fmt::format("indent it: it is a rule, which belongs {} `{}`",
                               above == "blocks" ? "into a block of" : "under", above));
    } else if (waiting == nullptr) {
      report_unknown_key(reader, children[i], "the plan", kTopKeys);
    } else if (beside == nullptr) {
      beside = &report_error(reader, Code::UnknownPlanKey, children[i],
                             fmt::format("key `{}` is next to `{}` instead of below it", name, *waiting),
                             fmt::format("indent the entries of `{}` by 2 spaces", *waiting));
      beside->counted = "key";
    } else {
      ++beside->count;
    }
  }
}

void read_top(PlanReader& reader, const MeshSizes& mesh_sizes) {
  const YamlId root = reader.tree.root;
  if (!expect(reader, root, YamlKind::Map, "the plan",
              fmt::format("write a YAML mapping that starts with `format: {}`", kPlanFormat)))
    return;
  check_top_keys(reader, root);
  const auto value_of = [&](std::string_view key) { return find_entry(reader, root, key).value; };
  const YamlId format = value_of("format"), mesh = value_of("mesh"), rules = value_of("tp_plan");
  if (format != kNoYaml)
    read_format(reader, format);
  else
    report_error(reader, Code::UnknownPlanFormat, root, "the plan has no `format`",
                 fmt::format(kFormatHelp, kPlanFormat));
  if (mesh == kNoYaml && mesh_sizes.empty()) {
    report_error(reader, Code::MissingPlanField, root, "the plan has no `mesh`",
                 "write the axes and their sizes: `mesh: {tp: 8}`");
    return;  // every axis would be unknown
  }
  const size_t faults = reader.diagnostics.list.size();
  if (mesh == kNoYaml)
    use_given_mesh(reader, root, mesh_sizes);
  else
    read_mesh(reader, mesh, mesh_sizes);
  if (reader.diagnostics.list.size() > faults) return;
  reader.axis = find_axis(reader.plan.mesh, reader.axis_name);
  reader.plan.rules_span = rules_span(reader);
  for (const SectionRow& section : kSections) {
    if (const YamlId value = value_of(section.key); value != kNoYaml) section.read(reader, value);
  }
  reader.plan.axis = reader.axis;
  if (reader.plan.rules.empty() && !reader.plan.fsdp && !has_errors(reader.diagnostics)) {
    const std::string_view replicate_style = reader.plan.dialect->replicate_style;
    report_error(
        reader, Code::EmptyPlan, rules != kNoYaml ? rules : root,
        "the plan has no rules: every parameter would be replicated",
        reader.plan.dialect->keys == KeySyntax::Names ? "write rules under `tp_plan:`, such as `- [mlp, tp]`"
        : replicate_style.empty()
            ? "write rules under `tp_plan:`, such as `\"layers.*.wq\": colwise`"
            : fmt::format("write rules under `tp_plan:`; use `{}` for a parameter that is replicated on purpose",
                          replicate_style));
  }
}

}  // namespace

size_t plan_key_rank(std::string_view name) {
  return static_cast<size_t>(std::find(std::begin(kTopKeys), std::end(kTopKeys), name) - std::begin(kTopKeys));
}

TpPlan read_plan(const SourceFile& file, const MeshSizes& mesh_sizes, Diagnostics& diagnostics) {
  YamlTree tree;
  if (!read_yaml(file, tree, diagnostics)) return {.file = file.id};
  return read_plan(file, tree, mesh_sizes, diagnostics);
}

TpPlan read_plan(const SourceFile& file, const YamlTree& tree, const MeshSizes& mesh_sizes, Diagnostics& diagnostics) {
  TpPlan plan{.file = file.id};
  if (tree.root == kNoYaml) {
    const bool blank = file.text.find_first_not_of(" \t\r\n") == std::string::npos;
    report_message(diagnostics, blank ? Code::EmptyFile : Code::EmptyPlan, {file.id, 0, 1},
                   blank ? "the file is empty" : "the plan contains only comments",
                   fmt::format(kFormatHelp, kPlanFormat));
    return plan;
  }
  PlanReader reader{.tree = tree, .plan = plan, .diagnostics = diagnostics};
  read_top(reader, mesh_sizes);
  return plan;
}

}  // namespace tpplan
