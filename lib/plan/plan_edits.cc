#include "plan/plan_edits.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>

#include "text/yaml_tree.h"

namespace tpplan {
namespace {

// A scalar, with its position in the text and in the YAML tree.
struct PlacedScalar {
  uint64_t offset = 0;
  size_t depth = 0;
  bool is_in_map = false, is_key = false;
  std::string text;
};

using Scalars = std::vector<PlacedScalar>;

void add_scalars(const YamlTree& tree, YamlId id, PlacedScalar place, Scalars& scalars) {
  const YamlNode& node = tree.nodes[id];
  if (node.kind == YamlKind::Scalar) {
    place.offset = node.offset;
    place.text = node.text;
    scalars.push_back(std::move(place));
    return;
  }
  const bool is_map = node.kind == YamlKind::Map;
  for (size_t i = 0; i < node.children.size(); ++i)
    add_scalars(tree, node.children[i],
                {.depth = place.depth + 1, .is_in_map = is_map, .is_key = is_map && i % 2 == 0, .text = {}}, scalars);
}

// Returns the scalars of a file in file order; nullopt if it is not valid YAML.
std::optional<Scalars> scalars_of(const SourceFile& file) {
  YamlTree tree;
  Diagnostics ignored;
  if (!read_yaml(file, tree, ignored)) return std::nullopt;
  Scalars scalars;
  if (tree.root != kNoYaml) add_scalars(tree, tree.root, {}, scalars);
  return scalars;
}

// The bytes that an edit removes from the old text, or adds to the new one.
struct Range {
  uint64_t begin = 0, end = 0;
};

// Moves the scalars within the ranges out of `scalars`, by range. @pre the ranges are disjoint and ascending
std::vector<Scalars> take_edited(const std::vector<Range>& ranges, Scalars& scalars) {
  std::vector<Scalars> taken(ranges.size());
  Scalars kept;
  for (PlacedScalar& scalar : scalars) {
    auto range = std::ranges::upper_bound(ranges, scalar.offset, {}, &Range::begin);
    while (range != ranges.begin() && std::prev(range)->begin == std::prev(range)->end) --range;  // insertions
    const bool is_within = range != ranges.begin() && scalar.offset < std::prev(range)->end;
    (is_within ? taken[static_cast<size_t>(range - ranges.begin()) - 1] : kept).push_back(std::move(scalar));
  }
  scalars = std::move(kept);
  return taken;
}

// The end of an edit in the old text, and the shift of the text after it by this edit and all before it.
struct Shift {
  uint64_t end = 0, by = 0;
};

// Returns the offset in the new text of a byte at `offset` in the old one. @pre the shifts are ascending
uint64_t moved(const std::vector<Shift>& shifts, uint64_t offset) {
  const auto next = std::ranges::upper_bound(shifts, offset, {}, &Shift::end);
  return next == shifts.begin() ? offset : offset + std::prev(next)->by;
}

bool replaces_well(const TextEdit& edit, const Scalars& before, const Scalars& after) {
  if (edit.length == 0 || edit.text.empty() || before.empty())
    return true;  // adds or removes an entry, or replaces no scalar
  const PlacedScalar& own = before.front();
  const bool is_deeper = std::ranges::all_of(after, [&own](const PlacedScalar& s) { return s.depth > own.depth; });
  const bool is_one = before.size() == 1 && after.size() == 1 && after.front().depth == own.depth;
  return own.is_key ? is_one : is_one || is_deeper || !own.is_in_map;
}

bool are_preserved(const Scalars& before, const SourceFile& file, const std::vector<TextEdit>& edits) {
  std::optional<Scalars> now = scalars_of({.name = file.name, .text = with_edits(file.text, edits), .id = file.id});
  if (!now) return false;
  std::vector<Range> removed, added;
  std::vector<Shift> shifts;
  uint64_t shift = 0;
  for (const TextEdit& edit : edits) {
    removed.push_back({edit.offset, edit.offset + edit.length});
    added.push_back({edit.offset + shift, edit.offset + shift + edit.text.size()});
    shift += edit.text.size() - edit.length;
    shifts.push_back({edit.offset + edit.length, shift});
  }
  Scalars kept = before;
  const std::vector<Scalars> old_parts = take_edited(removed, kept), new_parts = take_edited(added, *now);
  for (size_t i = 0; i < edits.size(); ++i) {
    if (!replaces_well(edits[i], old_parts[i], new_parts[i])) return false;
  }
  return std::ranges::equal(kept, *now, [&shifts](const PlacedScalar& a, const PlacedScalar& b) {
    return moved(shifts, a.offset) == b.offset && a.depth == b.depth && a.is_key == b.is_key && a.text == b.text;
  });
}

// Tests the edits of all diagnostics together. If they overlap or change other values, tests each half separately, down
// to single diagnostics, and removes the edits of those that fail.
void drop_broken(const Scalars& before, const SourceFile& file, std::span<Diagnostic* const> reported) {
  std::vector<TextEdit> edits;
  for (const Diagnostic* d : reported) {
    const std::vector<TextEdit> own = text_edits(file, *d);
    edits.insert(edits.end(), own.begin(), own.end());
  }
  std::ranges::stable_sort(edits, {}, &TextEdit::offset);
  const auto overlap = std::ranges::adjacent_find(
      edits, [](const TextEdit& a, const TextEdit& b) { return b.offset < a.offset + a.length; });
  if (edits.empty() || (overlap == edits.end() && are_preserved(before, file, edits))) return;
  if (reported.size() == 1) return reported.front()->edits.clear();
  drop_broken(before, file, reported.first(reported.size() / 2));
  drop_broken(before, file, reported.subspan(reported.size() / 2));
}

}  // namespace

bool preserves_other_values(const SourceFile& file, const std::vector<TextEdit>& edits) {
  const std::optional<Scalars> before = scalars_of(file);
  return !before || are_preserved(*before, file, edits);
}

void drop_broken_edits(const SourceFile& file, Diagnostics& diagnostics) {
  std::vector<Diagnostic*> reported;
  for (Diagnostic& d : diagnostics.list) {
    if (!d.edits.empty() && d.edits.front().span.file == file.id) reported.push_back(&d);
  }
  if (reported.empty()) return;
  if (const std::optional<Scalars> before = scalars_of(file)) drop_broken(*before, file, reported);
}

}  // namespace tpplan
