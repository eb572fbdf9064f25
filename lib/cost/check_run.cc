#include "cost/check_run.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

bool is_given(const RunFile& file, std::string_view key) {
  return std::ranges::find(file.run.given, key) != file.run.given.end();
}

void check_checkpointing(const RunFile& file, const TpPlan& plan, Diagnostics& diagnostics) {
  if (plan.remat.empty() || !is_given(file, "checkpointing")) return;
  Diagnostic& d =
      report_message(diagnostics, Code::RunContradictsPlan, key_span(file, "checkpointing"),
                     fmt::format("the run has `checkpointing: {}`, but the plan recomputes the modules of `remat`",
                                 run_value(file.run, "checkpointing")),
                     "remove `checkpointing` from the run, or `remat` from the plan");
  d.notes.push_back({"`remat` of the plan", plan.remat.front().span});
}

void check_loss_kernel(const RunFile& file, const TpPlan& plan, Diagnostics& diagnostics) {
  const bool in_plan = plan.loss && plan.loss->cross_entropy == CrossEntropy::Parallel;
  const bool in_run = file.run.loss == LossKernel::Parallel;
  if (in_plan == in_run) return;
  Diagnostic& d =
      report_message(diagnostics, Code::RunContradictsPlan, key_span(file, "loss"),
                     in_run ? "the run has `loss: parallel`, but the plan does not have `cross_entropy: parallel`: the "
                              "logits are gathered"
                            : fmt::format("the plan has `cross_entropy: parallel`, but the run has `loss: {}`",
                                          run_value(file.run, "loss")),
                     in_run ? "write `loss: {cross_entropy: parallel}` in the plan, or `loss: plain` in the run"
                            : "write `loss: parallel` in the run, or `loss: {cross_entropy: plain}` in the plan");
  if (plan.loss) d.notes.push_back({"`loss` of the plan", plan.loss->span});
}

}  // namespace

void check_run(RunFile& file, const TpPlan& plan, Diagnostics& diagnostics) {
  check_checkpointing(file, plan, diagnostics);
  if (is_given(file, "loss")) return check_loss_kernel(file, plan, diagnostics);
  if (plan.loss && plan.loss->cross_entropy == CrossEntropy::Parallel) file.run.loss = LossKernel::Parallel;
}

void complete_run(RunFile& file, const TpPlan& plan, const OpGraph& graph, Diagnostics& diagnostics) {
  check_run(file, plan, diagnostics);
  if (file.run.batch == 0) file.run.batch = graph.batch;
  if (file.run.sequence == 0) file.run.sequence = graph.sequence;
}

}  // namespace tpplan
