#include "diff/diff_rules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/keyed_hash.h"

namespace tpplan {
namespace {

// Identity of a rule in both manifests.
using RuleName = std::tuple<bool, std::string_view, std::string_view>;
RuleName rule_name_of(const ManifestRule& rule) { return {rule.in_block, rule.block, rule.key}; }

using RulesByName = std::map<RuleName, const ManifestRule*>;
RulesByName rules_by_name(const Manifest& manifest) {
  RulesByName rules;
  for (const ManifestRule& rule : manifest.rules) rules.emplace(rule_name_of(rule), &rule);
  return rules;
}

// Returns a flag for each rule: true if the other manifest has no rule of this name.
std::vector<bool> unmatched_names(const Manifest& manifest, const RulesByName& other) {
  std::vector<bool> is_unmatched;
  for (const ManifestRule& rule : manifest.rules) is_unmatched.push_back(!other.contains(rule_name_of(rule)));
  return is_unmatched;
}

// The rule of the other manifest that applies to the same entries as a rule of this one.
struct Partner {
  std::optional<uint32_t> rule;
  bool is_one = true;  // false if the entries have different rules there
};

void add_partner(std::vector<Partner>& partners, uint32_t rule, uint32_t other) {
  if (rule >= partners.size()) return;
  Partner& partner = partners[rule];
  if (!partner.rule) partner.rule = other;
  partner.is_one = partner.is_one && partner.rule == other;
}

// Pairs the rules of all entries that both lists have, by path.
template <typename Thing>
void add_partners(const Manifest& old_manifest, const std::vector<Thing>& before, const Manifest& new_manifest,
                  const std::vector<Thing>& after, std::vector<Partner>& of_old, std::vector<Partner>& of_new) {
  TextMap<std::string_view, const Thing*> by_path;
  for (const Thing& thing : before) by_path.emplace(path_of(old_manifest, thing), &thing);
  for (const Thing& thing : after) {
    const auto known = by_path.find(path_of(new_manifest, thing));
    if (known == by_path.end()) continue;
    const uint32_t old_rule = layout_of(old_manifest, *known->second).rule;
    const uint32_t new_rule = layout_of(new_manifest, thing).rule;
    add_partner(of_old, old_rule, new_rule);
    add_partner(of_new, new_rule, old_rule);
  }
}

}  // namespace

RenamedRules find_renamed_rules(const Manifest& old_manifest, const Manifest& new_manifest) {
  RenamedRules renamed(old_manifest.rules.size(), kNotRenamed);
  const std::vector<bool> is_gone = unmatched_names(old_manifest, rules_by_name(new_manifest));
  const std::vector<bool> is_new = unmatched_names(new_manifest, rules_by_name(old_manifest));
  if (std::ranges::find(is_gone, true) == is_gone.end() || std::ranges::find(is_new, true) == is_new.end())
    return renamed;
  std::vector<Partner> of_old(old_manifest.rules.size()), of_new(new_manifest.rules.size());
  const auto add_partners_of_lists = [&](const auto& before, const auto& after) {
    add_partners(old_manifest, before, new_manifest, after, of_old, of_new);
  };
  add_partners_of_lists(old_manifest.parameters, new_manifest.parameters);
  add_partners_of_lists(old_manifest.buffers, new_manifest.buffers);
  add_partners_of_lists(old_manifest.modules, new_manifest.modules);
  for (uint32_t rule = 0; rule < renamed.size(); ++rule) {
    const uint32_t other = of_old[rule].rule.value_or(kNotRenamed);
    if (!is_gone[rule] || !of_old[rule].is_one || other >= is_new.size() || !is_new[other]) continue;
    if (of_new[other].is_one && of_new[other].rule == rule) renamed[rule] = other;
  }
  return renamed;
}

std::vector<RuleChange> diff_rules(const Manifest& old_manifest, const Manifest& new_manifest,
                                   const RenamedRules& renamed) {
  const RulesByName old_rules = rules_by_name(old_manifest), new_rules = rules_by_name(new_manifest);
  std::vector<const ManifestRule*> older(new_manifest.rules.size(),
                                         nullptr);  // old rules that were renamed to each new one
  for (size_t rule = 0; rule < renamed.size(); ++rule) {
    if (renamed[rule] != kNotRenamed) older[renamed[rule]] = &old_manifest.rules[rule];
  }
  std::vector<RuleChange> changes;
  for (size_t i = 0; i < new_manifest.rules.size(); ++i) {
    const ManifestRule& rule = new_manifest.rules[i];
    const auto known = old_rules.find(rule_name_of(rule));
    const ManifestRule* before = known != old_rules.end() ? known->second : older[i];
    const std::optional<uint64_t> matched = before == nullptr ? std::nullopt : std::optional(before->matches);
    if (matched != rule.matches || older[i] != nullptr)
      changes.push_back({.rule = &rule, .renamed_from = older[i], .before = matched, .after = rule.matches});
  }
  for (size_t i = 0; i < old_manifest.rules.size(); ++i) {
    const ManifestRule& rule = old_manifest.rules[i];
    if (renamed[i] == kNotRenamed && !new_rules.contains(rule_name_of(rule)))
      changes.push_back({.rule = &rule, .before = rule.matches, .after = {}});
  }
  return changes;
}

}  // namespace tpplan
