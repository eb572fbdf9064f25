#include "diff/diff_lists.h"

#include <spdlog/fmt/fmt.h>

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/keyed_hash.h"
#include "base/starred_path.h"
#include "diff/diff_fields.h"

namespace tpplan {
namespace {

constexpr uint32_t kUnchanged = 0xffffffffu;

// A list of groups with indices: groups by their fields, families by group and pattern.
struct Groups {
  std::vector<ChangeGroup>& list;
  TextMap<std::string, uint32_t> by_fields;
  TextMap<std::string, size_t> by_pattern;
};

// Returns the group with these field changes, or kUnchanged if `fields` is empty. Line breaks separate the parts of the
// key, because JSON escapes them.
uint32_t group_of(Groups& groups, std::vector<FieldChange> fields) {
  if (fields.empty()) return kUnchanged;
  std::string key;
  for (const FieldChange& f : fields) {
    key.append(f.field).push_back('\n');
    for (const std::string* side : {&f.before_json, &f.after_json}) key.append(*side).push_back('\n');
  }
  const auto [known, is_new] = groups.by_fields.emplace(std::move(key), static_cast<uint32_t>(groups.list.size()));
  if (is_new) groups.list.push_back({.fields = std::move(fields), .families = {}, .count = 0});
  return known->second;
}

void add_path(Groups& groups, uint32_t group, std::string_view path) {
  ChangeGroup& target = groups.list[group];
  ++target.count;
  std::string pattern = starred_path(path);
  const auto [known, is_new] = groups.by_pattern.emplace(fmt::format("{} {}", group, pattern), target.families.size());
  if (is_new) target.families.push_back({.pattern = std::move(pattern), .paths = {}, .of = 0});
  target.families[known->second].paths.push_back(path);
}

// Sets PathFamily::of to the number of paths in `list` with the pattern, changed or not, so that a reader sees that 3
// of 32 layers differ.
template <typename Thing>
void count_families(std::vector<ChangeGroup>& groups, const Manifest& manifest, const std::vector<Thing>& list) {
  if (groups.empty()) return;
  TextMap<std::string, uint64_t> counts;
  for (const Thing& thing : list) ++counts[starred_path(path_of(manifest, thing))];
  for (ChangeGroup& group : groups) {
    for (PathFamily& family : group.families) family.of = counts[family.pattern];
  }
}

// Two lists to be compared. Each pair of shared layouts is compared once.
template <typename Thing, typename Layout>
struct ListCompare {
  const Manifest& old_manifest;
  const Manifest& new_manifest;
  std::span<const FieldRow<Layout>> rows;
  const std::vector<Thing>& before;
  const std::vector<Thing>& after;
  const RenamedRules& renamed;
  ListDiff& diff;
};

// Returns the fields that differ between two layouts. Ignores the rule if it was only renamed.
template <typename Thing, typename Layout>
std::vector<FieldChange> compare_layouts(const ListCompare<Thing, Layout>& lists, const Layout& before,
                                         const Layout& after) {
  std::vector<FieldChange> fields = compare_fields(lists.rows, lists.old_manifest, before, lists.new_manifest, after);
  if (before.rule < lists.renamed.size() && lists.renamed[before.rule] != kNotRenamed &&
      lists.renamed[before.rule] == after.rule)
    std::erase_if(fields, [](const FieldChange& change) { return change.field == "rule"; });
  return fields;
}

// Returns the index in the old list of each new entry; the size of the old list if it lacks the entry.
template <typename Thing, typename Layout>
std::vector<size_t> find_in_old(const ListCompare<Thing, Layout>& lists) {
  TextMap<std::string_view, size_t> index;
  for (size_t i = 0; i < lists.before.size(); ++i) index.emplace(path_of(lists.old_manifest, lists.before[i]), i);
  std::vector<size_t> places;
  for (size_t i = 0; i < lists.after.size(); ++i) {
    const std::string_view path = path_of(lists.new_manifest, lists.after[i]);
    // Fast path: in manifests of one model most paths have the same index.
    if (i < lists.before.size() && path_of(lists.old_manifest, lists.before[i]) == path) {
      places.push_back(i);
      continue;
    }
    const auto known = index.find(path);
    places.push_back(known == index.end() ? lists.before.size() : known->second);
  }
  return places;
}

template <typename Thing, typename Layout>
void group_changed(const ListCompare<Thing, Layout>& lists, const std::vector<size_t>& places) {
  Groups groups{lists.diff.changed, {}, {}};
  std::unordered_map<uint64_t, uint32_t> group_of_pair;
  for (size_t i = 0; i < lists.after.size(); ++i) {
    if (places[i] == lists.before.size()) continue;
    const Thing &older = lists.before[places[i]], &newer = lists.after[i];
    const auto [known, is_new] =
        group_of_pair.emplace(static_cast<uint64_t>(older.layout) << 32 | newer.layout, kUnchanged);
    if (is_new) {
      known->second = group_of(
          groups, compare_layouts(lists, layout_of(lists.old_manifest, older), layout_of(lists.new_manifest, newer)));
    }
    if (known->second == kUnchanged) continue;
    add_path(groups, known->second, path_of(lists.new_manifest, newer));
    ++lists.diff.changed_count;
  }
}

// Groups the entries that only one manifest has. Returns their number.
template <typename Thing, typename Layout>
uint64_t group_unmatched(std::span<const FieldRow<Layout>> rows, const Manifest& manifest,
                         const std::vector<Thing>& list, const std::vector<bool>& is_unmatched,
                         std::vector<ChangeGroup>& found, bool is_added) {
  Groups groups{found, {}, {}};
  std::unordered_map<uint32_t, uint32_t> group_of_layout;
  uint64_t count = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!is_unmatched[i]) continue;
    const auto [known, is_new] = group_of_layout.emplace(list[i].layout, 0);
    if (is_new) known->second = group_of(groups, list_fields(rows, manifest, layout_of(manifest, list[i]), is_added));
    add_path(groups, known->second, path_of(manifest, list[i]));
    ++count;
  }
  return count;
}

template <typename Thing, typename Layout>
ListDiff diff_lists(std::span<const FieldRow<Layout>> rows, const Manifest& old_manifest,
                    const std::vector<Thing>& before, const Manifest& new_manifest, const std::vector<Thing>& after,
                    const RenamedRules& renamed) {
  ListDiff diff{.before = before.size(), .after = after.size()};
  const ListCompare<Thing, Layout> lists{old_manifest, new_manifest, rows, before, after, renamed, diff};
  const std::vector<size_t> places = find_in_old(lists);
  std::vector<bool> is_new(after.size()), is_gone(before.size(), true);
  for (size_t i = 0; i < after.size(); ++i) {
    is_new[i] = places[i] == before.size();
    if (!is_new[i]) is_gone[places[i]] = false;
  }
  group_changed(lists, places);
  diff.added_count = group_unmatched(rows, new_manifest, after, is_new, diff.added, true);
  diff.removed_count = group_unmatched(rows, old_manifest, before, is_gone, diff.removed, false);
  count_families(diff.added, new_manifest, after);
  count_families(diff.changed, new_manifest, after);
  count_families(diff.removed, old_manifest, before);
  return diff;
}

}  // namespace

ListDiff diff_params(const Manifest& old_manifest, const std::vector<ManifestParam>& before,
                     const Manifest& new_manifest, const std::vector<ManifestParam>& after,
                     const RenamedRules& renamed) {
  return diff_lists(param_fields(), old_manifest, before, new_manifest, after, renamed);
}

ListDiff diff_modules(const Manifest& old_manifest, const Manifest& new_manifest, const RenamedRules& renamed) {
  return diff_lists(module_fields(), old_manifest, old_manifest.modules, new_manifest, new_manifest.modules, renamed);
}

}  // namespace tpplan
