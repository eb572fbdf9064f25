#include "diff/diff_fields.h"

#include <algorithm>

#include "base/text.h"
#include "diff/field_texts.h"
#include "manifest/manifest_json.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Returns the text that a function of manifest_json.h writes for `given`.
template <typename... Things, typename... Given>
std::string text_of(void (*write)(JsonWriter&, Things...), const Given&... things) {
  return json_of([&](JsonWriter& json) { write(json, things...); });
}
template <typename Range>
std::string list_json(const Range& items) {
  return json_of([&](JsonWriter& json) { write_array(json, items); });
}

const ManifestRule* rule_at(const Manifest& m, uint32_t index) {
  return index < m.rules.size() ? &m.rules[index] : nullptr;
}

// Writes block and key, which identify a rule even if its index and line change.
void write_rule_key(JsonWriter& json, const ManifestRule* rule) {
  if (rule == nullptr) return write_value(json, nullptr);
  begin_object(json);
  if (rule->in_block) write_field(json, "block", rule->block);
  write_field(json, "key", rule->key);
  end_object(json);
}

using M = Manifest;
using P = ParamLayout;

// Fields of a parameter. Omits `steps`: they follow from spec, grad_reduce and fsdp, and diff_collectives counts them.
constexpr FieldRow<ParamLayout> kParamFields[] = {
    {"shape",
     [](const M&, const P& p) -> FieldText {
       return {shape_text(p.shape), shape_text(p.shape)};
     }},
    {"dtype",
     [](const M&, const P& p) -> FieldText {
       return {std::string(dtypes()[p.dtype].name), json_text(dtypes()[p.dtype].name)};
     }},
    {"spec",
     [](const M& m, const P& p) -> FieldText {
       return {to_text(p.sharding.spec, m.mesh), text_of(write_spec, p.sharding.spec, m.mesh)};
     }},
    {"placements",
     [](const M&, const P& p) -> FieldText {
       return {placement_list_text(p.placements), text_of(write_placements, p.placements)};
     }},
    {"segments",
     [](const M&, const P& p) -> FieldText {
       return {segments_text(p.sharding.segments),
               p.sharding.segments.empty() ? "null" : text_of(write_segments, p.sharding.segments)};
     }},
    {"local_shapes",
     [](const M&, const P& p) -> FieldText {
       return {local_shapes_text(p.local_shapes), text_of(write_shapes, p.local_shapes)};
     }},
    {"style",
     [](const M&, const P& p) -> FieldText {
       return {style_text(p.style), text_of(write_optional, p.style)};
     }},
    {"rule",
     [](const M& m, const P& p) -> FieldText {
       return {rule_name_text(rule_at(m, p.rule)), text_of(write_rule_key, rule_at(m, p.rule))};
     }},
    {"reason",
     [](const M&, const P& p) -> FieldText {
       return {p.reason, json_text(p.reason)};
     }},
    {"replicas",
     [](const M&, const P& p) -> FieldText {
       return {std::to_string(p.replicas), std::to_string(p.replicas)};
     }},
    {"grad_reduce",
     [](const M& m, const P& p) -> FieldText {
       return {grad_reduce_text(p.grad_reduce, m.mesh), text_of(write_grad_reduce, p.grad_reduce, m.mesh)};
     }},
    {"kind",
     [](const M&, const P& p) -> FieldText {
       return {p.kind.empty() ? "none" : p.kind, text_of(write_optional, p.kind)};
     }},
    {"init",
     [](const M& m, const P& p) -> FieldText {
       const Distribution* d = p.init < m.distributions.size() ? &m.distributions[p.init] : nullptr;
       return {d == nullptr ? "none" : to_text(*d), d == nullptr ? "null" : text_of(write_distribution, *d)};
     }},
    {"dims",
     [](const M&, const P& p) -> FieldText {
       return {comma_list(p.dims), p.dims.empty() ? "null" : list_json(p.dims)};
     }},
};

using L = ModuleLayout;

constexpr FieldRow<ModuleLayout> kModuleFields[] = {
    {"style",
     [](const M&, const L& l) -> FieldText {
       return {style_text(l.style), text_of(write_optional, l.style)};
     }},
    {"rule",
     [](const M& m, const L& l) -> FieldText {
       return {rule_name_text(rule_at(m, l.rule)), text_of(write_rule_key, rule_at(m, l.rule))};
     }},
    {"inputs",
     [](const M& m, const L& l) -> FieldText {
       return {values_text(l.inputs, m.mesh), text_of(write_values, l.inputs, m.mesh)};
     }},
    {"outputs",
     [](const M& m, const L& l) -> FieldText {
       return {values_text(l.outputs, m.mesh), text_of(write_values, l.outputs, m.mesh)};
     }},
};

// Returns the tied groups with sorted groups and names, so that the order does not count.
FieldText ties_word(const Manifest& m) {
  std::vector<std::vector<std::string>> ties;
  for (const std::vector<uint32_t>& tie : m.tied) {
    std::vector<std::string>& names = ties.emplace_back();
    for (const uint32_t param : tie) names.emplace_back(path_of(m, m.parameters[param]));
    std::sort(names.begin(), names.end());
  }
  std::sort(ties.begin(), ties.end());
  FieldText word{"none", "["};
  for (const std::vector<std::string>& names : ties) {
    const bool first = &names == ties.data();
    word.text = first ? join(names, " = ") : word.text + ", " + join(names, " = ");
    word.json += (first ? "" : ", ") + list_json(names);
  }
  word.json += "]";
  return word;
}

// Fields of the manifest. Omits distributions: a parameter's `init` is compared by value, not by index.
constexpr FieldRow<Manifest> kSettings[] = {
    {"mesh",
     [](const M&, const M& m) -> FieldText {
       return {to_text(m.mesh), text_of(write_mesh, m.mesh)};
     }},
    {"uneven",
     [](const M&, const M& m) -> FieldText {
       return {std::string(to_text(m.uneven)), json_text(to_text(m.uneven))};
     }},
    {"data",
     [](const M&, const M& m) -> FieldText {
       return {data_text(m.data, m.mesh), text_of(write_data, m.data, m.mesh)};
     }},
    {"step",
     [](const M&, const M& m) -> FieldText {
       return {param_steps_text(m.step, m.mesh), text_of(write_step, m.step, m.mesh)};
     }},
    {"costs",
     [](const M&, const M& m) -> FieldText {
       return {costs_text(m.costs), m.costs.is_there ? text_of(write_step_costs, m.costs) : "null"};
     }},
    {"loss",
     [](const M&, const M& m) -> FieldText {
       return {m.loss ? to_text(*m.loss, m.mesh) : "none", text_of(write_loss, m.loss, m.mesh)};
     }},
    {"fsdp",
     [](const M&, const M& m) -> FieldText {
       return {fsdp_text(m.fsdp, m.mesh), text_of(write_fsdp, m.fsdp, m.mesh)};
     }},
    {"tied", [](const M&, const M& m) -> FieldText { return ties_word(m); }},
    {"remat",
     [](const M&, const M& m) -> FieldText {
       return {paths_text(m.remat), list_json(m.remat)};
     }},
    {"local_attributes",
     [](const M&, const M& m) -> FieldText {
       return {local_attributes_text(m.local_attributes, m.mesh),
               text_of(write_local_attributes, m.local_attributes, m.mesh)};
     }},
};

constexpr FieldRow<Manifest> kInputs[] = {
    {"model_name",
     [](const M&, const M& m) -> FieldText {
       return {m.model_name, json_text(m.model_name)};
     }},
    {"model_sha256",
     [](const M&, const M& m) -> FieldText {
       return {m.model_sha256, json_text(m.model_sha256)};
     }},
    {"plan_sha256",
     [](const M&, const M& m) -> FieldText {
       return {m.plan_sha256, json_text(m.plan_sha256)};
     }},
};

}  // namespace

std::span<const FieldRow<ParamLayout>> param_fields() { return kParamFields; }
std::span<const FieldRow<ModuleLayout>> module_fields() { return kModuleFields; }
std::span<const FieldRow<Manifest>> setting_fields() { return kSettings; }
std::span<const FieldRow<Manifest>> input_fields() { return kInputs; }

FieldChange make_field_change(std::string_view field, const FieldText& before, const FieldText& after) {
  // Uses the JSON if the human-readable texts are equal.
  const bool texts_suffice = before.text != after.text;
  return {.field = field,
          .before = texts_suffice ? before.text : before.json,
          .after = texts_suffice ? after.text : after.json,
          .before_json = before.json,
          .after_json = after.json};
}

}  // namespace tpplan
