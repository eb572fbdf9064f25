#include "plan/lost_by_format.h"

#include <algorithm>
#include <unordered_map>

#include "plan/read_pieces.h"
#include "plan/read_plan.h"

namespace tpplan {
namespace {

// Nodes that aliases share are compared once.
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

// The children of the root, key by key in canonical order.
std::vector<std::pair<YamlId, YamlId>> sorted_members(const YamlTree& tree) {
  const std::vector<YamlId>& children = tree.nodes[tree.root].children;
  std::vector<std::pair<YamlId, YamlId>> members;
  for (size_t i = 0; i + 1 < children.size(); i += 2) members.emplace_back(children[i], children[i + 1]);
  const auto rank = [&](const auto& member) { return plan_key_rank(tree.nodes[member.first].text); };
  std::stable_sort(members.begin(), members.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return members;
}

bool same_tree(const YamlTree& a, const YamlTree& b) {
  const auto x = sorted_members(a), y = sorted_members(b);
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

// Three proofs, each of what the others do not see: the YAML values are the same, the plan read from them is, and so
// are the comments.
std::string lost_by_format(const YamlTree& tree, const std::optional<TpPlan>& plan,
                           const std::vector<std::string>& comments, const std::string& formatted) {
  const SourceFile again{.name = "formatted", .text = formatted};
  YamlTree tree_again;
  Diagnostics faults, findings;
  if (!read_yaml(again, tree_again, faults) || tree_again.root == kNoYaml) return "it could not be read again";
  if (!same_tree(tree, tree_again)) return "its values would not be the same";
  const TpPlan plan_again = read_plan(again, tree_again, {}, findings);
  // A plan with errors means nothing; its values have been compared.
  if (has_errors(findings) != !plan || (plan && !same_plan(*plan, plan_again))) return "it would not be the same plan";
  PlanPieces pieces;
  if (!read_pieces(again, tree_again, pieces, faults)) return "its comments could not be read again";
  return sorted(pieces.comments) == sorted(comments) ? "" : "comments would be lost";
}

}  // namespace tpplan
