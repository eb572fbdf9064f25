#include "report/render_notices.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "report/group_params.h"
#include "report/html_text.h"
#include "report/memory_text.h"

namespace tpplan {
namespace {

constexpr size_t kMostPatterns = 3, kMostRules = 3;  // listed before a count of the others

// The fully replicated parameters of a rule, or of no rule.
struct ReplicatedParams {
  std::vector<std::string_view> paths;
  uint64_t bytes = 0;
};

ReplicatedParams replicated_params(const Manifest& manifest, const RuleNode& node,
                                   const std::vector<bool>& is_counted) {
  ReplicatedParams replicated;
  for (const uint32_t param : node.params) {
    const ParamLayout& layout = layout_of(manifest, manifest.parameters[param]);
    if (!is_fully_replicated(layout.sharding.spec, manifest.mesh)) continue;
    replicated.paths.push_back(path_of(manifest, manifest.parameters[param]));
    if (is_counted[param]) replicated.bytes += global_bytes(layout);
  }
  return replicated;
}

std::string first_patterns(const std::vector<std::string_view>& paths) {
  const std::vector<PathPattern> patterns = path_patterns(paths);
  std::string text;
  for (size_t i = 0; i < std::min(patterns.size(), kMostPatterns); ++i)
    text += (i == 0 ? "" : ", ") + code(patterns[i].text);
  if (patterns.size() > kMostPatterns)
    text += fmt::format(" and <a href=\"#replicated\">{} more</a>", grouped(patterns.size() - kMostPatterns));
  return text;
}

std::string size_text(const Manifest& manifest, uint64_t bytes) {
  return fmt::format("{}, {} of the model", bytes_html(bytes), percent_text(bytes, manifest.totals.bytes));
}

std::string uncovered_html(const Manifest& manifest, const ReplicatedParams& replicated) {
  return fmt::format("No rule names {}: replicated, {}: {}", grouped(replicated.paths.size(), "parameter"),
                     size_text(manifest, replicated.bytes), first_patterns(replicated.paths));
}

std::string rule_name(const Manifest& manifest, uint32_t rule) {
  return fmt::format("{} (line {})", code(manifest.rules[rule].key), manifest.rules[rule].line);
}

struct ReplicatedRule {
  uint32_t rule = 0;
  ReplicatedParams replicated;
};

}  // namespace

// A mesh of one rank has no notices, because it replicates nothing.
std::string notices_html(const Manifest& manifest, const ManifestMeasure& measure) {
  if (device_count(manifest.mesh) == 1) return {};
  const std::vector<bool> is_counted = untied_params(manifest);
  std::vector<std::string> items, idle;
  std::vector<ReplicatedRule> saved;
  size_t idle_rules = 0;
  for (const RuleBlock& block : group_by_rule(manifest)) {
    for (const RuleNode& node : block.nodes) {
      ReplicatedParams replicated = replicated_params(manifest, node, is_counted);
      const bool has_rule = node.rule != kNoManifestRule;
      if (!has_rule && !replicated.paths.empty() && node.reason == "default")
        items.push_back(uncovered_html(manifest, replicated));
      if (has_rule && !replicated.paths.empty()) saved.push_back({node.rule, std::move(replicated)});
      if (has_rule && node.params.empty() && node.modules.empty() && ++idle_rules <= kMostRules)
        idle.push_back(rule_name(manifest, node.rule));
    }
  }
  std::ranges::stable_sort(saved, std::ranges::greater{},
                           [](const ReplicatedRule& rule) { return rule.replicated.bytes; });
  for (size_t i = 0; i < std::min(saved.size(), kMostRules); ++i)
    items.push_back(fmt::format("{} replicates {}, {}", rule_name(manifest, saved[i].rule),
                                grouped(saved[i].replicated.paths.size(), "parameter"),
                                size_text(manifest, saved[i].replicated.bytes)));
  if (saved.size() > kMostRules)
    items.push_back(fmt::format("{} more with <a href=\"#replicated\">replicated parameters</a>",
                                grouped(saved.size() - kMostRules, "rule")));
  for (std::string& name : idle) items.push_back(fmt::format("{} has no effect", std::move(name)));
  if (idle_rules > kMostRules)
    items.push_back(
        fmt::format("{} more <a href=\"#rules\">without effect</a>", grouped(idle_rules - kMostRules, "rule")));
  const CallSums &hidden = measure.collectives.hidden, &total = measure.collectives.total;
  if (hidden.calls > 0)
    items.push_back(
        fmt::format("No rule requests {} of the <a href=\"#collectives\">{}</a> of a step, {} of {}: DTensor adds them "
                    "to redistribute operands that do not match",
                    grouped(hidden.calls), grouped(total.calls, "collective"), bytes_html(hidden.payload),
                    bytes_html(total.payload)));
  if (items.empty()) return {};
  std::string out = "<ul class=\"notices\" aria-label=\"Notices\">\n";
  for (const std::string& item : items) out += fmt::format("<li>{}</li>\n", item);
  return out + "</ul>\n";
}

}  // namespace tpplan
