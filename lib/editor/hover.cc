#include "editor/hover.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "base/markdown.h"
#include "base/path_patterns.h"
#include "base/text.h"
#include "sharding/shard_slice.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

constexpr size_t kMostLines = 12;  // lines of parameters

// Returns the global and local shape of a parameter: "[4096, 4096] bfloat16, [512, 4096] a rank".
std::string shapes_text(const TpPlan& plan, const ModelGraph& graph, const ShardingTable* shardings, ParamId id) {
  const Param& param = graph.params[id];
  const std::span<const int64_t> shape = shape_of(graph, param);
  std::string text = fmt::format("{} {}", shape_text(shape), dtypes()[param.dtype].name);
  if (shardings == nullptr || id >= shardings->params.size()) return text;
  const Sharding& sharding = sharding_of(*shardings, id);
  if (is_fully_replicated(sharding.spec, plan.mesh)) return text + ", replicated";
  const std::vector<int64_t> origin(plan.mesh.axes.size(), 0);
  const std::vector<int64_t> local = local_shape(shape, sharding, plan.mesh, origin);
  return text + fmt::format(", {} {}", shape_text(local), is_even(shape, sharding, plan.mesh) ? "a rank" : "on rank 0");
}

}  // namespace

RuleId rule_at(const TpPlan& plan, size_t offset) {
  const auto found = std::ranges::find_if(plan.rules, [offset](const PlanRule& rule) {
    return offset >= rule.key_span.offset && offset <= rule.key_span.offset + rule.key_span.length;
  });
  return found == plan.rules.end() ? kNoRule : static_cast<RuleId>(found - plan.rules.begin());
}

std::string rule_hover(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                       const ShardingTable* shardings, RuleId id) {
  const PlanRule& rule = plan.rules[id];
  std::string text = markdown_code(rule.key);
  if (rule.block != kNoRule) text += fmt::format(" in block {}", markdown_code(plan.blocks[rule.block].text));
  text += fmt::format(": {}", markdown_code(rule_value_text(rule, plan.mesh)));
  if (rule.axis != kNoAxis)
    text += fmt::format(" over {} ({})", markdown_code(plan.mesh.axes[rule.axis].name), plan.mesh.axes[rule.axis].size);
  const RuleMatches& counts = matches.rules[id];
  const bool acts_on_modules = rule.style != nullptr && !rule.style->touches_parameters;
  if (acts_on_modules) return text + fmt::format("\n\n{}\n", counted(counts.modules, "module"));
  text += fmt::format("\n\n{}", counted(counts.governed, "parameter"));
  if (counts.parameters > counts.governed)
    text += fmt::format("; {} take precedence for {} that it matches",
                        rule.of_dim ? "earlier rules" : "more specific rules", counts.parameters - counts.governed);
  text += '\n';
  std::map<std::string, std::vector<std::string>> alike;  // paths by the text of their shapes
  for (ParamId param = 0; param < matches.params.size(); ++param) {
    const ParamMatch& match = matches.params[param];
    bool is_of = match.rule == id;
    for (size_t dim = 0; match.dims != kNone && !is_of && dim < graph.params[param].ndim; ++dim)
      is_of = rule_of_dim(matches, match, dim) == id;
    if (is_of) alike[shapes_text(plan, graph, shardings, param)].push_back(path_of(graph, graph.params[param]));
  }
  size_t lines = 0;
  for (const auto& [said, paths] : alike) {
    const std::vector<std::string_view> views(paths.begin(), paths.end());
    for (const PathPattern& pattern : path_patterns(views)) {
      if (++lines <= kMostLines) text += fmt::format("\n- {}: {}", markdown_code(pattern.text), said);
    }
  }
  if (lines > kMostLines) text += fmt::format("\n- and {} more", lines - kMostLines);
  return text + '\n';
}

std::string_view word_at(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  size_t begin = offset, end = offset;
  while (begin > 0 && is_word_char(text[begin - 1])) --begin;
  while (end < text.size() && is_word_char(text[end])) ++end;
  return text.substr(begin, end - begin);
}

}  // namespace tpplan
