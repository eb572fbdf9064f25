// The fields of a manifest's entries that are compared, one row per field.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diff/manifest_diff.h"
#include "manifest/manifest.h"

namespace tpplan {

// A field's value as human-readable text and as JSON.
struct FieldText {
  std::string text, json;
};

template <typename Thing>
struct FieldRow {
  std::string_view field;
  FieldText (*word)(const Manifest& manifest, const Thing& thing);
};

[[nodiscard]] std::span<const FieldRow<ParamLayout>> param_fields();
[[nodiscard]] std::span<const FieldRow<ModuleLayout>> module_fields();

// Fields of the manifest itself.
[[nodiscard]] std::span<const FieldRow<Manifest>> setting_fields();
[[nodiscard]] std::span<const FieldRow<Manifest>> input_fields();

// Returns the change of a field. @pre the JSON of the two values differs.
[[nodiscard]] FieldChange make_field_change(std::string_view field, const FieldText& before, const FieldText& after);

// Returns the fields whose JSON differs.
template <typename Thing>
[[nodiscard]] std::vector<FieldChange> compare_fields(std::span<const FieldRow<Thing>> rows,
                                                      const Manifest& old_manifest, const Thing& before,
                                                      const Manifest& new_manifest, const Thing& after) {
  std::vector<FieldChange> changes;
  for (const auto& row : rows) {
    const FieldText a = row.word(old_manifest, before), b = row.word(new_manifest, after);
    if (a.json == b.json) continue;
    changes.push_back(make_field_change(row.field, a, b));
  }
  return changes;
}

// Returns all fields of an entry that only one manifest has.
template <typename Thing>
[[nodiscard]] std::vector<FieldChange> list_fields(std::span<const FieldRow<Thing>> rows, const Manifest& manifest,
                                                   const Thing& thing, bool is_added) {
  std::vector<FieldChange> fields;
  for (const auto& row : rows) {
    FieldText word = row.word(manifest, thing);
    FieldChange& field = fields.emplace_back();
    field.field = row.field;
    (is_added ? field.after : field.before) = std::move(word.text);
    (is_added ? field.after_json : field.before_json) = std::move(word.json);
  }
  return fields;
}

}  // namespace tpplan
