#include "manifest/diff_manifest.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/text.h"
#include "manifest/manifest_json.h"
#include "manifest/path_pattern.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// ---- one side's words ----

// What a function of manifest_json.h writes of these things, as text.
template <typename... Things, typename... Given>
std::string text_of(void (*write)(JsonWriter&, Things...), const Given&... things) {
  return json_of([&](JsonWriter& json) { write(json, things...); });
}
template <typename Range>
std::string list_json(const Range& items) {
  return json_of([&](JsonWriter& json) { write_array(json, items); });
}

std::string list_words(const std::vector<std::string>& words) { return words.empty() ? "none" : join(words, ", "); }

std::string placements_words(const std::optional<std::vector<Placement>>& placements) {
  return placements ? to_text(*placements) : "none";
}

std::string segments_words(const std::vector<DimSegments>& segments) {
  std::vector<std::string> words;
  for (const DimSegments& s : segments) words.push_back(fmt::format("dim {}: {}", s.dim, shape_text(s.sizes)));
  return list_words(words);
}

// Uneven pieces: the different shapes with how many there are of each.
std::string local_shapes_words(const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<std::pair<const std::vector<int64_t>*, uint64_t>> runs;
  for (const std::vector<int64_t>& shape : shapes) {
    if (!runs.empty() && *runs.back().first == shape)
      ++runs.back().second;
    else
      runs.emplace_back(&shape, 1);
  }
  std::vector<std::string> words;
  for (const auto& [shape, count] : runs)
    words.push_back(shape_text(*shape) + (count == 1 ? "" : fmt::format(" x {}", count)));
  return list_words(words);
}

std::string grad_reduce_words(const std::vector<GradReduce>& reductions, const Mesh& mesh) {
  return reductions.empty() ? "none" : to_text(reductions, mesh);
}

const ManifestRule* rule_at(const Manifest& m, uint32_t index) {
  return index < m.rules.size() ? &m.rules[index] : nullptr;
}

std::string rule_words(const ManifestRule* rule) {
  if (rule == nullptr) return "none";
  return fmt::format("`{}{}`", rule->in_block ? rule->block + " / " : "", rule->key);
}

void write_rule_key(JsonWriter& json, const ManifestRule* rule) {
  if (rule == nullptr) return write_value(json, nullptr);
  begin_object(json);
  if (rule->in_block) write_member(json, "block", rule->block);
  write_member(json, "key", rule->key);
  end_object(json);
}

std::string style_words(const std::string& style) { return style.empty() ? "none" : style; }

std::string values_words(const std::vector<ManifestValue>& values, const Mesh& mesh) {
  std::vector<std::string> words;
  for (const ManifestValue& value : values) {
    std::string text = value.kwarg.empty() ? fmt::format("arg {}", value.arg) : fmt::format("kwarg {}", value.kwarg);
    text += fmt::format(" {} to {}", placements_words(value.from), placements_words(value.to));
    for (const auto& [direction, steps] :
         {std::pair{"forward", &value.forward}, std::pair{"backward", &value.backward}}) {
      for (const Step& step : *steps) {
        text += fmt::format(", {} {}", direction, to_text(step.collective, mesh));
      }
    }
    if (value.use_local) text += *value.use_local ? ", as a local tensor" : ", as a DTensor";
    words.push_back(std::move(text));
  }
  return list_words(words);
}

std::string data_words(const std::optional<ManifestData>& data, const Mesh& mesh) {
  if (!data) return "none";
  std::vector<std::string> axes;
  for (const AxisId axis : data->axes) axes.push_back(mesh.axes[axis].name);
  return fmt::format("dim {} over {}", data->dim, list_words(axes));
}

// Paths as patterns, each with how many it stands for.
std::string paths_words(const std::vector<std::string>& paths) {
  std::vector<std::pair<std::string, uint64_t>> patterns;
  std::unordered_map<std::string, size_t> index;
  for (const std::string& path : paths) {
    const std::string pattern = path_pattern(path);
    const auto [known, is_new] = index.emplace(pattern, patterns.size());
    if (is_new)
      patterns.emplace_back(pattern, 1);
    else
      ++patterns[known->second].second;
  }
  std::vector<std::string> words;
  for (const auto& [pattern, count] : patterns)
    words.push_back(fmt::format("{} ({})", pattern.empty() ? "<root>" : pattern, count));
  return list_words(words);
}

std::string fsdp_words(const std::optional<ManifestFsdp>& fsdp, const Mesh& mesh) {
  if (!fsdp) return "none";
  return fmt::format("{} over {}, min_weight_size {}, units {}", fsdp->policy, mesh.axes[fsdp->axis].name,
                     fsdp->min_weight_size, paths_words(fsdp->units));
}

// ---- the members of a thing ----

// A member in words and as JSON.
struct Word {
  std::string text, json;
};

template <typename Thing>
struct FieldRow {
  std::string_view field;
  Word (*word)(const Manifest& manifest, const Thing& thing);
};

using M = Manifest;
using P = ParamLayout;

constexpr FieldRow<ParamLayout> kParamFields[] = {
    {"shape",
     [](const M&, const P& p) -> Word {
       return {shape_text(p.shape), shape_text(p.shape)};
     }},
    {"dtype",
     [](const M&, const P& p) -> Word {
       return {std::string(dtypes()[p.dtype].name), json_text(dtypes()[p.dtype].name)};
     }},
    {"spec",
     [](const M& m, const P& p) -> Word {
       return {to_text(p.sharding.spec, m.mesh), text_of(write_spec, p.sharding.spec, m.mesh)};
     }},
    {"placements",
     [](const M&, const P& p) -> Word {
       return {placements_words(p.placements), text_of(write_placements, p.placements)};
     }},
    {"segments",
     [](const M&, const P& p) -> Word {
       return {segments_words(p.sharding.segments),
               p.sharding.segments.empty() ? "null" : text_of(write_segments, p.sharding.segments)};
     }},
    {"local_shapes",
     [](const M&, const P& p) -> Word {
       return {local_shapes_words(p.local_shapes), text_of(write_shapes, p.local_shapes)};
     }},
    {"style",
     [](const M&, const P& p) -> Word {
       return {style_words(p.style), text_of(write_optional, p.style)};
     }},
    {"rule",
     [](const M& m, const P& p) -> Word {
       return {rule_words(rule_at(m, p.rule)), text_of(write_rule_key, rule_at(m, p.rule))};
     }},
    {"reason",
     [](const M&, const P& p) -> Word {
       return {p.reason, json_text(p.reason)};
     }},
    {"replicas",
     [](const M&, const P& p) -> Word {
       return {std::to_string(p.replicas), std::to_string(p.replicas)};
     }},
    {"grad_reduce",
     [](const M& m, const P& p) -> Word {
       return {grad_reduce_words(p.grad_reduce, m.mesh), text_of(write_grad_reduce, p.grad_reduce, m.mesh)};
     }},
    {"kind",
     [](const M&, const P& p) -> Word {
       return {p.kind.empty() ? "none" : p.kind, text_of(write_optional, p.kind)};
     }},
    {"init",
     [](const M& m, const P& p) -> Word {
       const Distribution* d = p.init < m.distributions.size() ? &m.distributions[p.init] : nullptr;
       return {d == nullptr ? "none" : to_text(*d), d == nullptr ? "null" : text_of(write_distribution, *d)};
     }},
    {"dims",
     [](const M&, const P& p) -> Word {
       return {list_words(p.dims), p.dims.empty() ? "null" : list_json(p.dims)};
     }},
};

using L = ModuleLayout;

constexpr FieldRow<ModuleLayout> kModuleFields[] = {
    {"style",
     [](const M&, const L& l) -> Word {
       return {style_words(l.style), text_of(write_optional, l.style)};
     }},
    {"rule",
     [](const M& m, const L& l) -> Word {
       return {rule_words(rule_at(m, l.rule)), text_of(write_rule_key, rule_at(m, l.rule))};
     }},
    {"inputs",
     [](const M& m, const L& l) -> Word {
       return {values_words(l.inputs, m.mesh), text_of(write_values, l.inputs, m.mesh)};
     }},
    {"outputs",
     [](const M& m, const L& l) -> Word {
       return {values_words(l.outputs, m.mesh), text_of(write_values, l.outputs, m.mesh)};
     }},
};

// Groups and names in an order of their own: which name came first is no difference.
Word ties_word(const Manifest& m) {
  std::vector<std::vector<std::string>> ties;
  for (const std::vector<uint32_t>& tie : m.tied) {
    std::vector<std::string>& names = ties.emplace_back();
    for (const uint32_t param : tie) names.emplace_back(path_of(m, m.parameters[param]));
    std::sort(names.begin(), names.end());
  }
  std::sort(ties.begin(), ties.end());
  Word word{"none", "["};
  for (const std::vector<std::string>& names : ties) {
    const bool first = &names == ties.data();
    word.text = first ? join(names, " = ") : word.text + ", " + join(names, " = ");
    word.json += (first ? "" : ", ") + list_json(names);
  }
  word.json += "]";
  return word;
}

// Settings, and the inputs, are members of the manifest itself.
constexpr FieldRow<Manifest> kSettings[] = {
    {"mesh",
     [](const M&, const M& m) -> Word {
       return {to_text(m.mesh), text_of(write_mesh, m.mesh)};
     }},
    {"uneven",
     [](const M&, const M& m) -> Word {
       return {std::string(to_text(m.uneven)), json_text(to_text(m.uneven))};
     }},
    {"data",
     [](const M&, const M& m) -> Word {
       return {data_words(m.data, m.mesh), text_of(write_data, m.data, m.mesh)};
     }},
    {"fsdp",
     [](const M&, const M& m) -> Word {
       return {fsdp_words(m.fsdp, m.mesh), text_of(write_fsdp, m.fsdp, m.mesh)};
     }},
    {"tied", [](const M&, const M& m) -> Word { return ties_word(m); }},
    {"remat",
     [](const M&, const M& m) -> Word {
       return {paths_words(m.remat), list_json(m.remat)};
     }},
};

constexpr FieldRow<Manifest> kInputs[] = {
    {"model_name",
     [](const M&, const M& m) -> Word {
       return {m.model_name, json_text(m.model_name)};
     }},
    {"model_sha256",
     [](const M&, const M& m) -> Word {
       return {m.model_sha256, json_text(m.model_sha256)};
     }},
    {"plan_sha256",
     [](const M&, const M& m) -> Word {
       return {m.plan_sha256, json_text(m.plan_sha256)};
     }},
};

// The members that differ.
template <typename Rows, typename Thing>
std::vector<FieldChange> compare(const Rows& rows, const Manifest& old_manifest, const Thing& before,
                                 const Manifest& new_manifest, const Thing& after) {
  std::vector<FieldChange> changes;
  for (const auto& row : rows) {
    Word a = row.word(old_manifest, before), b = row.word(new_manifest, after);
    if (a.json == b.json) continue;
    // Where the words leave out what differs, the value itself says it.
    const bool words_suffice = a.text != b.text;
    changes.push_back({.field = row.field,
                       .before = words_suffice ? a.text : a.json,
                       .after = words_suffice ? b.text : b.json,
                       .before_json = a.json,
                       .after_json = b.json});
  }
  return changes;
}

// All members, of something that stands on one side only.
template <typename Rows, typename Thing>
std::vector<FieldChange> list_fields(const Rows& rows, const Manifest& manifest, const Thing& thing, bool is_added) {
  std::vector<FieldChange> fields;
  for (const auto& row : rows) {
    Word word = row.word(manifest, thing);
    FieldChange& field = fields.emplace_back();
    field.field = row.field;
    (is_added ? field.after : field.before) = std::move(word.text);
    (is_added ? field.after_json : field.before_json) = std::move(word.json);
  }
  return fields;
}

// ---- groups ----

constexpr uint32_t kUnchanged = 0xffffffffu;

// Groups by their fields; families by group and pattern.
struct Groups {
  std::vector<ChangeGroup>& list;
  std::unordered_map<std::string, uint32_t> by_fields;
  std::unordered_map<std::string, size_t> by_pattern;
};

// The group of things with these fields; kUnchanged for none.
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
  std::string pattern = path_pattern(path);
  const auto [known, is_new] = groups.by_pattern.emplace(fmt::format("{} {}", group, pattern), target.families.size());
  if (is_new) target.families.push_back({.pattern = std::move(pattern), .paths = {}, .of = 0});
  target.families[known->second].paths.push_back(path);
}

// Says of each family how many paths with its pattern there are in `list`.
template <typename Thing>
void count_families(std::vector<ChangeGroup>& groups, const Manifest& manifest, const std::vector<Thing>& list) {
  if (groups.empty()) return;
  std::unordered_map<std::string, uint64_t> counts;
  for (const Thing& thing : list) ++counts[path_pattern(path_of(manifest, thing))];
  for (ChangeGroup& group : groups) {
    for (PathFamily& family : group.families) family.of = counts[family.pattern];
  }
}

// Compares two lists of things with paths. Layouts that many share are compared once for each pair.
template <typename Thing, typename Rows>
ListDiff compare_lists(const Rows& rows, const Manifest& old_manifest, const std::vector<Thing>& before,
                       const Manifest& new_manifest, const std::vector<Thing>& after) {
  ListDiff diff{.before = before.size(), .after = after.size()};
  std::unordered_map<std::string_view, size_t> old_index;
  for (size_t i = 0; i < before.size(); ++i) old_index.emplace(path_of(old_manifest, before[i]), i);
  Groups added{diff.added, {}, {}}, removed{diff.removed, {}, {}}, changed{diff.changed, {}, {}};
  std::unordered_map<uint64_t, uint32_t> group_of_pair, group_of_added, group_of_removed;
  std::vector<bool> is_kept(before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    const std::string_view path = path_of(new_manifest, after[i]);
    size_t at = i;
    if (i >= before.size() || path_of(old_manifest, before[i]) != path) {
      const auto known = old_index.find(path);
      at = known == old_index.end() ? before.size() : known->second;
    }
    if (at == before.size()) {
      const auto [known, is_new] = group_of_added.emplace(after[i].layout, 0);
      if (is_new)
        known->second = group_of(added, list_fields(rows, new_manifest, layout_of(new_manifest, after[i]), true));
      add_path(added, known->second, path);
      ++diff.added_count;
      continue;
    }
    is_kept[at] = true;
    const auto [known, is_new] =
        group_of_pair.emplace(static_cast<uint64_t>(before[at].layout) << 32 | after[i].layout, kUnchanged);
    if (is_new) {
      known->second = group_of(changed, compare(rows, old_manifest, layout_of(old_manifest, before[at]), new_manifest,
                                                layout_of(new_manifest, after[i])));
    }
    if (known->second == kUnchanged) continue;
    add_path(changed, known->second, path);
    ++diff.changed_count;
  }
  for (size_t i = 0; i < before.size(); ++i) {
    if (is_kept[i]) continue;
    const auto [known, is_new] = group_of_removed.emplace(before[i].layout, 0);
    if (is_new)
      known->second = group_of(removed, list_fields(rows, old_manifest, layout_of(old_manifest, before[i]), false));
    add_path(removed, known->second, path_of(old_manifest, before[i]));
    ++diff.removed_count;
  }
  count_families(diff.added, new_manifest, after);
  count_families(diff.changed, new_manifest, after);
  count_families(diff.removed, old_manifest, before);
  return diff;
}

std::vector<RuleChange> compare_rules(const Manifest& old_manifest, const Manifest& new_manifest) {
  using Name = std::tuple<bool, std::string_view, std::string_view>;
  const auto name = [](const ManifestRule& rule) { return Name(rule.in_block, rule.block, rule.key); };
  std::map<Name, const ManifestRule*> old_rules, new_rules;
  for (const ManifestRule& rule : old_manifest.rules) old_rules.emplace(name(rule), &rule);
  for (const ManifestRule& rule : new_manifest.rules) new_rules.emplace(name(rule), &rule);
  std::vector<RuleChange> changes;
  for (const ManifestRule& rule : new_manifest.rules) {
    const auto known = old_rules.find(name(rule));
    std::optional<uint64_t> before;
    if (known != old_rules.end()) before = known->second->matches;
    if (before != rule.matches) changes.push_back({.rule = &rule, .before = before, .after = rule.matches});
  }
  for (const ManifestRule& rule : old_manifest.rules) {
    if (new_rules.find(name(rule)) == new_rules.end())
      changes.push_back({.rule = &rule, .before = rule.matches, .after = {}});
  }
  return changes;
}

// ---- collectives and bytes ----

using CollectiveKey = std::tuple<CommPhase, CollectiveKind, std::string_view>;

struct StepSum {
  uint64_t count = 0, bytes = 0;  // bytes saturate
};

void add(StepSum& sum, uint64_t count, uint64_t bytes) {
  sum.count += count;
  uint64_t product = 0;
  if (__builtin_mul_overflow(count, bytes, &product) || __builtin_add_overflow(sum.bytes, product, &sum.bytes))
    sum.bytes = kTooManyBytes;
}

using StepSums = std::map<CollectiveKey, StepSum>;

void add_values(const Manifest& m, StepSums& sums) {
  std::vector<uint64_t> modules(m.module_layouts.size());
  for (const ManifestModule& module : m.modules) ++modules[module.layout];
  const auto add_steps = [&](CommPhase phase, const std::vector<Step>& steps, uint64_t times) {
    for (const Step& step : steps) {
      const Collective& c = step.collective;
      if (c.kind != CollectiveKind::LocalSlice && times > 0)
        add(sums[{phase, c.kind, m.mesh.axes[c.axis].name}], times, 0);
    }
  };
  for (size_t i = 0; i < modules.size(); ++i) {
    for (const auto* values : {&m.module_layouts[i].inputs, &m.module_layouts[i].outputs}) {
      for (const ManifestValue& value : *values) {
        add_steps(CommPhase::Forward, value.forward, modules[i]);
        add_steps(CommPhase::Backward, value.backward, modules[i]);
      }
    }
  }
}

void add_params(const Manifest& m, StepSums& sums) {
  const std::vector<uint64_t> tensors = tensors_by_layout(m);
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (const ParamStep& step : m.layouts[i].steps) {
      const Collective& c = step.step.collective;
      const CommPhase phase = step.part == StepPart::Gather ? CommPhase::Gather : CommPhase::Gradient;
      if (c.kind == CollectiveKind::LocalSlice || tensors[i] == 0) continue;
      add(sums[{phase, c.kind, m.mesh.axes[c.axis].name}], tensors[i], payload_bytes(m.layouts[i], step));
    }
  }
}

std::vector<CollectiveCount> compare_collectives(const Manifest& old_manifest, const Manifest& new_manifest) {
  StepSums before, after;
  for (const auto& [manifest, sums] : {std::pair{&old_manifest, &before}, std::pair{&new_manifest, &after}}) {
    add_values(*manifest, *sums);
    add_params(*manifest, *sums);
  }
  std::map<CollectiveKey, std::pair<StepSum, StepSum>> both;
  for (const auto& [key, sum] : before) both[key].first = sum;
  for (const auto& [key, sum] : after) both[key].second = sum;
  std::vector<CollectiveCount> counts;
  for (const auto& [key, sums] : both) {
    const auto& [phase, kind, axis] = key;
    counts.push_back({.phase = phase,
                      .kind = kind,
                      .axis = std::string(axis),
                      .before = sums.first.count,
                      .after = sums.second.count,
                      .bytes_before = sums.first.bytes,
                      .bytes_after = sums.second.bytes});
  }
  return counts;
}

RankBytes rank_bytes_of(const Manifest& m) {
  const ManifestTotals& t = m.totals;
  RankBytes bytes{.ranks = static_cast<uint64_t>(device_count(m.mesh)),
                  .min = {},
                  .max = t.max_bytes_per_rank,
                  .total = t.bytes,
                  .ideal = t.ideal_bytes_per_rank,
                  .replicated = t.replicated_bytes_per_rank};
  if (!t.bytes_per_rank.empty()) bytes.min = *std::min_element(t.bytes_per_rank.begin(), t.bytes_per_rank.end());
  return bytes;
}

bool is_same(const ListDiff& list) { return list.added.empty() && list.removed.empty() && list.changed.empty(); }

}  // namespace

ManifestDiff diff_manifests(const Manifest& old_manifest, const Manifest& new_manifest) {
  ManifestDiff diff;
  diff.inputs = compare(kInputs, old_manifest, old_manifest, new_manifest, new_manifest);
  diff.settings = compare(kSettings, old_manifest, old_manifest, new_manifest, new_manifest);
  diff.rules = compare_rules(old_manifest, new_manifest);
  diff.parameters =
      compare_lists(kParamFields, old_manifest, old_manifest.parameters, new_manifest, new_manifest.parameters);
  diff.buffers = compare_lists(kParamFields, old_manifest, old_manifest.buffers, new_manifest, new_manifest.buffers);
  diff.modules = compare_lists(kModuleFields, old_manifest, old_manifest.modules, new_manifest, new_manifest.modules);
  diff.collectives = compare_collectives(old_manifest, new_manifest);
  diff.bytes_before = rank_bytes_of(old_manifest);
  diff.bytes_after = rank_bytes_of(new_manifest);
  diff.same = diff.settings.empty() && diff.rules.empty() && is_same(diff.parameters) && is_same(diff.buffers) &&
              is_same(diff.modules) && old_manifest.totals == new_manifest.totals;
  return diff;
}

std::string_view to_text(CommPhase phase) {
  static constexpr std::string_view names[] = {"forward", "backward", "gather", "gradient"};
  static_assert(std::size(names) == static_cast<size_t>(CommPhase::Gradient) + 1);
  return names[static_cast<size_t>(phase)];
}

}  // namespace tpplan
