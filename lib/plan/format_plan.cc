#include "plan/format_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>

#include "plan/describe_format_loss.h"
#include "plan/read_plan.h"
#include "plan/read_plan_syntax.h"
#include "plan/write_plan_syntax.h"
#include "text/yaml_tree.h"

namespace tpplan {
namespace {

// True if the diagnostics mean that the file is no plan at all, which is not formatted.
bool is_no_plan(const Diagnostics& findings) {
  return std::any_of(findings.list.begin(), findings.list.end(), [](const Diagnostic& d) {
    return d.severity == Severity::Error && kind_of(d.code).failure != Failure::Content;
  });
}

}  // namespace

bool format_plan(const SourceFile& file, std::string& formatted, Diagnostics& diagnostics) {
  Diagnostics findings;
  YamlTree tree;
  std::optional<TpPlan> plan;
  const bool is_yaml = read_yaml(file, tree, findings);
  if (is_yaml) plan = read_plan(file, tree, {}, findings);
  if (has_errors(findings)) plan.reset();
  if (!is_yaml || is_no_plan(findings) || tree.root == kNoYaml || tree.nodes[tree.root].kind != YamlKind::Map) {
    diagnostics.list.insert(diagnostics.list.end(), findings.list.begin(), findings.list.end());
    return false;
  }
  PlanSyntax pieces;
  if (!read_plan_syntax(file, tree, pieces, diagnostics)) return false;
  const std::vector<std::string> comments = std::move(pieces.comments);
  std::string text = write_plan_syntax(std::move(pieces));
  const std::string lost = describe_format_loss(tree, plan, comments, text);
  if (!lost.empty()) {
    report_message(
        diagnostics, Code::UnsupportedYaml, {file.id, 0, 0}, fmt::format("the plan is not formatted: {}", lost),
        "check for an alias that would precede its anchor after sorting the keys, or for a stray carriage return");
    return false;
  }
  formatted = std::move(text);
  return true;
}

}  // namespace tpplan
