#include "report/render_rules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "report/group_params.h"
#include "report/html_text.h"

namespace tpplan {
namespace {

// Limits of the entries shown before a sentence that counts the rest.
constexpr size_t kMaxRules = 400, kMaxReasons = 20, kMaxPatterns = 40;

struct ReasonText {
  std::string_view reason, text;
};

constexpr ReasonText kReasons[] = {
    {"default", "no rule: replicated"},
    {"fsdp", "no rule: sharded by FSDP only"},
    {"tied", "no rule: sharded like the tensor that it is tied to"},
};

std::string title_of(const RuleNode& node, const Manifest& manifest) {
  if (node.rule != kNoManifestRule) return code(manifest.rules[node.rule].key);
  for (const ReasonText& row : kReasons) {
    if (row.reason == node.reason) return std::string(row.text);
  }
  return "no rule: " + html(node.reason);
}

// Returns the distinct styles that a rule applies.
std::string styles_of(const RuleNode& node, const Manifest& manifest) {
  std::vector<std::string> styles;
  const auto note = [&](const std::string& style) {
    if (!style.empty() && styles.size() < 4 && std::find(styles.begin(), styles.end(), style) == styles.end())
      styles.push_back(style);
  };
  for (const uint32_t param : node.params) note(layout_of(manifest, manifest.parameters[param]).style);
  for (const uint32_t module : node.modules) note(layout_of(manifest, manifest.modules[module]).style);
  for (std::string& style : styles) style = html(style);
  return join(styles, ", ");
}

template <typename Items>
std::vector<PathPattern> patterns_of(const Manifest& manifest, const std::vector<uint32_t>& indices,
                                     const Items& items) {
  std::vector<std::string_view> paths;
  for (const uint32_t i : indices) paths.push_back(path_of(manifest, items[i]));
  return path_patterns(paths);
}

std::string rule_html(const Manifest& manifest, const RuleNode& node) {
  uint64_t bytes = 0;
  for (const uint32_t param : node.params) bytes += global_bytes(layout_of(manifest, manifest.parameters[param]));
  std::vector<std::string> counts;
  if (!node.params.empty())
    counts.push_back(fmt::format("{}, {}", grouped(node.params.size(), "parameter"), bytes_html(bytes)));
  if (node.params.empty() && !node.modules.empty()) counts.push_back(grouped(node.modules.size(), "boundary"));
  if (counts.empty()) counts.push_back("no effect");
  const std::string style = styles_of(node, manifest);
  std::string out = fmt::format(
      "<details class=\"rule\">\n<summary><span class=\"what\">{}{}</span> <span "
      "class=\"count\">{}</span></summary>\n<div "
      "class=\"body\">\n",
      title_of(node, manifest), style.empty() ? "" : fmt::format(" <span class=\"muted\">{}</span>", style),
      join(counts, ", "));
  out += "<dl class=\"facts\">\n";
  if (node.rule != kNoManifestRule) {
    const ManifestRule& rule = manifest.rules[node.rule];
    out += description_item("In the plan", fmt::format("line {}, matches {}", rule.line, grouped(rule.matches)));
    if (rule.forward_dtype) out += description_item("Values are sent in", html(dtypes()[*rule.forward_dtype].name));
    if (rule.backward_dtype)
      out += description_item("Gradients are sent in", html(dtypes()[*rule.backward_dtype].name));
  }
  if (!node.params.empty())
    out += description_item("Parameters", patterns_html(patterns_of(manifest, node.params, manifest.parameters),
                                                        kMaxPatterns, "parameter"));
  if (!node.modules.empty())
    out += description_item(
        "Boundaries of", patterns_html(patterns_of(manifest, node.modules, manifest.modules), kMaxPatterns, "module"));
  return out + "</dl>\n</div>\n</details>\n";
}

}  // namespace

// Rules and reasons have separate limits, so that parameters without a rule are shown however many rules there are.
std::string rules_html(const Manifest& manifest) {
  std::string out =
      "<section id=\"rules\">\n<h2>Rules</h2>\n<p>The parameters and module boundaries of each rule; every parameter "
      "is listed once.</p>\n";
  size_t remaining_rules = kMaxRules, remaining_reasons = kMaxReasons, rules_over = 0;
  uint64_t params_over = 0;
  for (const RuleBlock& block : group_by_rule(manifest)) {
    if (remaining_rules == 0 && block.nodes[0].rule != kNoManifestRule) {
      rules_over += block.nodes.size();
      for (const RuleNode& node : block.nodes) params_over += node.params.size();
      continue;
    }
    uint64_t params = 0;
    for (const RuleNode& node : block.nodes) params += node.params.size();
    if (block.in_block) {
      out += fmt::format(
          "<details class=\"block\" open>\n<summary><span class=\"what\">block {}</span> <span class=\"count\">{}, "
          "{}</span></summary>\n<div class=\"body\">\n",
          code(block.block), grouped(block.nodes.size(), "rule"), grouped(params, "parameter"));
    }
    for (const RuleNode& node : block.nodes) {
      size_t& remaining = node.rule == kNoManifestRule ? remaining_reasons : remaining_rules;
      if (remaining > 0) {
        out += rule_html(manifest, node);
        --remaining;
      } else {
        ++rules_over;
        params_over += node.params.size();
      }
    }
    if (block.in_block) out += "</div>\n</details>\n";
  }
  if (rules_over > 0)
    out += fmt::format("<p class=\"more\">And {} rules or reasons more, with {}.</p>\n", grouped(rules_over),
                       grouped(params_over, "parameter"));
  return out + "</section>\n";
}

}  // namespace tpplan
