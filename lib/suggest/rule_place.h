// The key and position of a new rule in a plan's file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/text_edits.h"
#include "plan/tp_plan.h"
#include "resolve/match/match_table.h"
#include "suggest/draft_roles.h"
#include "suggest/find_units.h"

namespace tpplan {

// A key and its position: `block` is a block of the plan, or kNoRule for a full path. `after` is the preceding rule, or
// kNoRule if the block has no rules.
struct RulePlace {
  std::string key;
  uint32_t block = kNoRule;
  RuleId after = kNoRule;
};

// Returns a glob of names as a key of the dialect.
[[nodiscard]] std::string key_in_dialect(const DialectRow& dialect, std::string_view glob);

// Returns, by rule, the path of the first module or parameter that it applies to; empty if there is none.
[[nodiscard]] std::vector<std::string> first_matched_paths(const TpPlan& plan, const ModelGraph& graph,
                                                           const MatchTable& matches);

// Returns a key for `path` in the form of the nearest rule's key: next to `*.attn.wq` it is `*.attn.wk`. `firsts` is
// the result of first_matched_paths. Returns nullopt if no rule's key can be adapted.
[[nodiscard]] std::optional<RulePlace> place_next_to(const TpPlan& plan, const ModelGraph& graph,
                                                     const std::vector<std::string>& firsts, std::string_view path);

// Returns the place of `key` for all repeated blocks, in the syntax of the dialect. Uses the plan's block if it exists.
[[nodiscard]] RulePlace place_of_key(const TpPlan& plan, const ModelGraph& graph, const DraftKey& key);

// Returns the place of a key for a single path.
[[nodiscard]] RulePlace place_of_path(const TpPlan& plan, const ModelGraph& graph, std::string_view path);

// Appends to `edits` the edit that inserts the rule `key: value` into the plan's text, with `comments` above it.
void add_rule_text(const SourceFile& file, const TpPlan& plan, const RulePlace& place, std::string_view value,
                   const std::vector<std::string>& comments, std::vector<TextEdit>& edits);

}  // namespace tpplan
