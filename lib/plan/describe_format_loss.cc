#include "plan/describe_format_loss.h"

#include <algorithm>
#include <unordered_map>

#include "plan/read_plan.h"
#include "plan/read_plan_syntax.h"

namespace tpplan {
namespace {

// Pairs of nodes that were compared, so that nodes shared by aliases are compared once.
using Proven = std::unordered_map<YamlId, YamlId>;

bool same_value(const YamlTree& a, YamlId i, const YamlTree& b, YamlId j, Proven& proven) {
  const auto known = proven.find(i);
  if (known != proven.end() && known->second == j) return true;
  const YamlNode &x = a.nodes[i], &y = b.nodes[j];
  if (x.kind != y.kind || x.children.size() != y.children.size()) return false;
  if (x.kind == YamlKind::Scalar && (x.text != y.text || x.is_plain != y.is_plain)) return false;
  for (size_t k = 0; k < x.children.size(); ++k) {
    if (!same_value(a, x.children[k], b, y.children[k], proven)) return false;
  }
  proven[i] = j;
  return true;
}

// Returns the entries of the root in canonical order.
std::vector<std::pair<YamlId, YamlId>> sorted_entries(const YamlTree& tree) {
  const std::vector<YamlId>& children = tree.nodes[tree.root].children;
  std::vector<std::pair<YamlId, YamlId>> members;
  for (size_t i = 0; i + 1 < children.size(); i += 2) members.emplace_back(children[i], children[i + 1]);
  const auto rank = [&](const auto& member) { return plan_key_rank(tree.nodes[member.first].text); };
  std::stable_sort(members.begin(), members.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return members;
}

bool same_tree(const YamlTree& a, const YamlTree& b) {
  const auto x = sorted_entries(a), y = sorted_entries(b);
  Proven proven;
  return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), [&](const auto& p, const auto& q) {
           return same_value(a, p.first, b, q.first, proven) && same_value(a, p.second, b, q.second, proven);
         });
}

std::vector<std::string> sorted(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  return texts;
}

}  // namespace

// Three independent comparisons: the YAML values, the plan, and the comments.
std::string describe_format_loss(const YamlTree& tree, const std::optional<TpPlan>& plan,
                                 const std::vector<std::string>& comments, const std::string& formatted) {
  const SourceFile again{.name = "formatted", .text = formatted};
  YamlTree tree_again;
  Diagnostics faults, findings;
  if (!read_yaml(again, tree_again, faults) || tree_again.root == kNoYaml)
    return "the formatted text could not be read";
  if (!same_tree(tree, tree_again)) return "its values would change";
  const TpPlan plan_again = read_plan(again, tree_again, {}, findings);
  // A plan with errors cannot be compared; its values were.
  if (has_errors(findings) != !plan || (plan && !same_plan(*plan, plan_again)))
    return "it would become a different plan";
  PlanSyntax pieces;
  if (!read_plan_syntax(again, tree_again, pieces, faults)) return "the formatted comments could not be read";
  return sorted(pieces.comments) == sorted(comments) ? "" : "comments would be lost";
}

}  // namespace tpplan
