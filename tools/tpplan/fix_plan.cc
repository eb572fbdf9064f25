#include "fix_plan.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "base/unified_diff.h"
#include "base/write_file.h"
#include "diagnostics/text_edits.h"
#include "inputs.h"
#include "model/read_model.h"
#include "text/yaml_tree.h"

namespace tpplan {
namespace {

// The maximum number of rounds. A parser reports one error at a time, so fixing all of them takes several rounds.
constexpr int kMostRounds = 32;

bool is_yaml(const SourceFile& file) {
  YamlTree tree;
  Diagnostics ignored;
  return read_yaml(file, tree, ignored);
}

// Returns the plan's text with the edits of all diagnostics. If together they make the YAML invalid, for example by
// creating a duplicate key, applies only those of the first diagnostic with edits.
std::string edited_text(const SourceFile& plan, const Diagnostics& diagnostics) {
  std::string text = apply_edits(plan, diagnostics);
  if (is_yaml({.name = plan.name, .text = text}) || !is_yaml(plan)) return text;
  const auto first =
      std::ranges::find_if(diagnostics.list, [&plan](const Diagnostic& d) { return !text_edits(plan, d).empty(); });
  return with_edits(plan.text, text_edits(plan, *first));
}

// Returns the plan's text after applying edits and compiling again until no diagnostic has edits.
std::string fixed_text(const Session& session, const InputArguments& inputs) {
  SourceFile plan = session.plan;
  MeshSizes sizes;
  if (!parse_mesh(inputs.mesh, sizes)) return plan.text;
  for (int round = 0; round < kMostRounds; ++round) {
    Diagnostics diagnostics;
    std::ignore = compile(
        {.model = session.model, .plan = plan, .mesh_sizes = sizes, .last = Phase::Operations, .walk = {}, .step = {}},
        diagnostics);
    finish_diagnostics(diagnostics);
    std::string next = edited_text(plan, diagnostics);
    if (next == plan.text) break;
    plan.text = std::move(next);
  }
  return plan.text;
}

}  // namespace

int fix_plan(const InputArguments& inputs, bool dry, int descriptor) {
  if (inputs.plan == "-") return usage_error("--fix and --diff require the plan as a file, not standard input");
  Session session;
  const bool read = read_input(inputs.model, kMaxModelBytes, session.model, session.diagnostics) &&
                    read_input(inputs.plan, YamlLimits{}.bytes, session.plan, session.diagnostics);
  if (!read) return kExitFine;  // the later check reports why
  const std::string text = fixed_text(session, inputs);
  const std::string name = escape_for_terminal(session.plan.name);
  const std::string diff = unified_diff(name, name, session.plan.text, text);
  if (!print(descriptor, diff, {.is_patch = true})) return kExitUsage;
  if (dry || diff.empty()) return kExitFine;
  const std::string fault =
      rewrite_file(inputs.plan, session.plan.text, [&text](const Sink& sink) { return sink(text); });
  return fault.empty() ? kExitFine : reject_write(inputs.plan, fault);
}

}  // namespace tpplan
