// How a plan's own file would say one rule more: with which key, and where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/text_edits.h"
#include "draft/draft_roles.h"
#include "draft/find_units.h"
#include "match/match_plan.h"
#include "plan/tp_plan.h"

namespace tpplan {

// `block` is one of the plan's, or kNoRule for a whole path; `after` the rule below which it stands, or kNoRule where
// the plan has none there.
struct RulePlace {
  std::string key;
  uint32_t block = kNoRule;
  RuleId after = kNoRule;
};

// By rule: the path of the first module or parameter that it decides over; empty where there is none.
[[nodiscard]] std::vector<std::string> first_paths(const TpPlan& plan, const ModelGraph& graph,
                                                   const MatchTable& matches);

// As the rule says it that decides over what stands nearest to `path`, with other names: beside `*.attn.wq` it is
// `*.attn.wk`. `firsts` are first_paths. Nothing where no rule says its path's end as it stands.
[[nodiscard]] std::optional<RulePlace> place_beside(const TpPlan& plan, const ModelGraph& graph,
                                                    const std::vector<std::string>& firsts, std::string_view path);

// A key for all blocks in the syntax of the plan's dialect; in the plan's block where it has that one.
[[nodiscard]] RulePlace place_of_key(const TpPlan& plan, const ModelGraph& graph, const DraftKey& key);

// The same for one path alone.
[[nodiscard]] RulePlace place_of_path(const TpPlan& plan, const ModelGraph& graph, std::string_view path);

// Adds to `edits` of the plan's text the one that writes the rule with `value` behind its key, comments above it.
void add_rule_text(const SourceFile& file, const TpPlan& plan, const RulePlace& place, std::string_view value,
                   const std::vector<std::string>& comments, std::vector<TextEdit>& edits);

}  // namespace tpplan
