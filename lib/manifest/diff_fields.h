// What is compared of each thing that stands in a manifest: a row for each member.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "manifest/diff_manifest.h"
#include "manifest/manifest.h"

namespace tpplan {

// A member in words and as JSON.
struct FieldWord {
  std::string text, json;
};

template <typename Thing>
struct FieldRow {
  std::string_view field;
  FieldWord (*word)(const Manifest& manifest, const Thing& thing);
};

[[nodiscard]] std::span<const FieldRow<ParamLayout>> param_fields();
[[nodiscard]] std::span<const FieldRow<ModuleLayout>> module_fields();

// Settings, and the inputs, are members of the manifest itself.
[[nodiscard]] std::span<const FieldRow<Manifest>> setting_fields();
[[nodiscard]] std::span<const FieldRow<Manifest>> input_fields();

// A member whose JSON differs.
[[nodiscard]] FieldChange changed_field(std::string_view field, const FieldWord& before, const FieldWord& after);

// The members that differ.
template <typename Thing>
[[nodiscard]] std::vector<FieldChange> compare_fields(std::span<const FieldRow<Thing>> rows,
                                                      const Manifest& old_manifest, const Thing& before,
                                                      const Manifest& new_manifest, const Thing& after) {
  std::vector<FieldChange> changes;
  for (const auto& row : rows) {
    const FieldWord a = row.word(old_manifest, before), b = row.word(new_manifest, after);
    if (a.json == b.json) continue;
    changes.push_back(changed_field(row.field, a, b));
  }
  return changes;
}

// All members, of something that stands on one side only.
template <typename Thing>
[[nodiscard]] std::vector<FieldChange> list_fields(std::span<const FieldRow<Thing>> rows, const Manifest& manifest,
                                                   const Thing& thing, bool is_added) {
  std::vector<FieldChange> fields;
  for (const auto& row : rows) {
    FieldWord word = row.word(manifest, thing);
    FieldChange& field = fields.emplace_back();
    field.field = row.field;
    (is_added ? field.after : field.before) = std::move(word.text);
    (is_added ? field.after_json : field.before_json) = std::move(word.json);
  }
  return fields;
}

}  // namespace tpplan
