#include "fix_plan.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/text.h"
#include "base/unified_diff.h"
#include "base/write_file.h"
#include "diagnostics/text_edits.h"
#include "inputs.h"
#include "model/read_model.h"
#include "syntax/yaml_tree.h"

namespace tpplan {
namespace {

// A parser says one thing at a time: so many rounds are gone through.
constexpr int kMostRounds = 32;

// The plan's text with all edits that its findings propose, and those of the findings that come up then.
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
    std::string next = apply_edits(plan, diagnostics);
    if (next == plan.text) break;
    plan.text = std::move(next);
  }
  return plan.text;
}

}  // namespace

int fix_plan(const InputArguments& inputs, bool dry, int descriptor) {
  if (inputs.plan == "-") return usage_error("--fix and --diff need the plan as a file");
  Session session;
  const bool read = read_input(inputs.model, kMaxModelBytes, session.model, session.diagnostics) &&
                    read_input(inputs.plan, YamlLimits{}.bytes, session.plan, session.diagnostics);
  if (!read) return kExitFine;  // who checks says why
  const std::string text = fixed_text(session, inputs);
  const std::string name = escape_for_terminal(session.plan.name);
  const std::string diff = unified_diff(name, name, session.plan.text, text);
  if (!print(descriptor, diff, {.is_patch = true})) return kExitUsage;
  if (dry || diff.empty()) return kExitFine;
  const std::string fault = rewrite_file(inputs.plan, [&text](const Sink& sink) { return sink(text); });
  return fault.empty() ? kExitFine : refuse_write(inputs.plan, fault);
}

}  // namespace tpplan
