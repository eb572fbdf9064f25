#include "resolve/infer/check_loss.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "resolve/infer/axis_use.h"

namespace tpplan {
namespace {

std::string_view joined_text(Reduction joined) { return joined == Reduction::Sum ? "summed" : "averaged"; }

std::string count_text(const Loss& loss, AxisId axis, const Mesh& mesh) {
  const std::string& name = axis_name(mesh, axis);
  if (loss.reduction == Reduction::Sum) return "every rank sums the losses of its tokens";
  if (loss.count == TokenCount::PerRank) return "every rank divides by its local token count";
  return is_loss_axis(loss, axis)
             ? fmt::format("every rank divides by the token count of all ranks along `{}`", name)
             : fmt::format("the token count covers `loss.axes`, which does not include `{}`", name);
}

}  // namespace

void report_loss_scale(const TpPlan& plan, const Loss& loss, AxisId axis, Reduction joined, Diagnostics& diagnostics) {
  const LossScale scale = loss_scale_along(loss, axis, joined);
  if (scale == LossScale::Right) return;
  const MeshAxis& mesh_axis = plan.mesh.axes[axis];
  const bool means = scale == LossScale::MeanOfMeans;
  Diagnostic& d =
      report_message(diagnostics, means ? Code::MeanOfMeans : Code::LossDivisorMismatch, plan.loss->span, {});
  d.fails = kind_of(d.code).fails;
  const std::string why =
      fmt::format("{}, and the gradients of the {} ranks along `{}` are {}", count_text(loss, axis, plan.mesh),
                  mesh_axis.size, mesh_axis.name, joined_text(joined));
  if (means) {
    d.message = why + ": this is the mean over all tokens only if every rank counts the same number";
    d.help = "count tokens over all ranks and sum gradients: `count: global, gradients: sum`";
    return;
  }
  d.message = fmt::format("{}: the result is {} times too {}", why, mesh_axis.size,
                          scale == LossScale::TooLarge ? "large" : "small");
  if (scale == LossScale::TooSmall)
    d.help =
        fmt::format("multiply the loss by {} and write `gradients: sum`, or divide by the local count of each rank",
                    mesh_axis.size);
  else
    d.help = fmt::format("divide by the token count of all ranks: `count: global` with `{}` in `axes`", mesh_axis.name);
}

void report_repeated_loss(const TpPlan& plan, AxisId axis, std::string_view result, Diagnostics& diagnostics) {
  const MeshAxis& mesh_axis = plan.mesh.axes[axis];
  Diagnostic& d = report_message(
      diagnostics, Code::ReplicatedLossReduced, plan.loss->span,
      fmt::format("{} along `{}`: all {} compute the same loss and sum it, so gradients are {} times too large", result,
                  mesh_axis.name, mesh_axis.size, mesh_axis.size));
  d.fails = kind_of(d.code).fails;
  d.help = fmt::format(
      "remove `{}` from `loss.axes`, and make the gather of the result slice its gradient instead of reducing it",
      mesh_axis.name);
}

void check_loss(const TpPlan& plan, const ModelGraph& graph, const Loss& loss, const MatchTable& matches,
                const ShardingTable& table, bool infer, Diagnostics& diagnostics) {
  const size_t outputs = graph.operations.outputs.size();
  if (graph.operations.is_there && static_cast<size_t>(loss.output) >= outputs)
    report_message(
        diagnostics, Code::UnknownLossOutput, plan.loss->span,
        fmt::format("the loss uses output {}, but the model has {}", loss.output, counted(outputs, "output")));
  if (infer) return;
  const std::vector<bool> used = used_axes(plan, matches, table);
  for (size_t i = 0; i < plan.mesh.axes.size(); ++i) {
    const auto axis = static_cast<AxisId>(i);
    if (plan.mesh.axes[i].size == 1) continue;
    if (is_data_axis(plan, axis))
      report_loss_scale(plan, loss, axis, loss.gradients, diagnostics);
    else if (!used[i] && is_loss_axis(loss, axis))
      report_repeated_loss(plan, axis, "all ranks have the same values", diagnostics);
  }
}

}  // namespace tpplan
