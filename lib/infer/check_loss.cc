#include "infer/check_loss.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "infer/axis_use.h"

namespace tpplan {
namespace {

std::string_view joined_text(Reduction joined) { return joined == Reduction::Sum ? "summed" : "averaged"; }

std::string count_text(const Loss& loss, AxisId axis, const Mesh& mesh) {
  const std::string& name = axis_name(mesh, axis);
  if (loss.reduction == Reduction::Sum) return "every rank sums its terms";
  if (loss.count == TermCount::PerRank) return "every rank divides by the count of its own terms";
  return is_along(loss, axis)
             ? fmt::format("every rank divides by the count of all terms along `{}`", name)
             : fmt::format("the count of terms goes over `loss.axes`, and `{}` is not among them", name);
}

}  // namespace

void report_scale(const TpPlan& plan, const Loss& loss, AxisId axis, Reduction joined, Diagnostics& diagnostics) {
  const LossScale scale = scale_along(loss, axis, joined);
  if (scale == LossScale::Right) return;
  const MeshAxis& own = plan.mesh.axes[axis];
  const bool means = scale == LossScale::MeanOfMeans;
  Diagnostic& d = report_message(diagnostics, means ? Code::TP5119 : Code::TP5117, plan.loss->span, {});
  d.fails = means ? std::string_view{} : "gradient";
  const std::string why = fmt::format("{}, and the gradients of the {} ranks along `{}` are {}",
                                      count_text(loss, axis, plan.mesh), own.size, own.name, joined_text(joined));
  if (means) {
    d.message = why + ": that is the mean over all terms only where every rank counts as many";
    d.help = "count over all ranks and let gradients be summed: `count: global, gradients: sum`";
    return;
  }
  d.message =
      fmt::format("{}: they come out {} times too {}", why, own.size, scale == LossScale::TooLarge ? "large" : "small");
  if (scale == LossScale::TooSmall)
    d.help =
        fmt::format("multiply the loss by {} and write `gradients: sum`, or divide by the rank's own count", own.size);
  else
    d.help = fmt::format("divide by the count over all ranks: `count: global` with `{}` in `axes`", own.name);
}

void report_repeated(const TpPlan& plan, AxisId axis, std::string_view result, Diagnostics& diagnostics) {
  const MeshAxis& own = plan.mesh.axes[axis];
  Diagnostic& d = report_message(
      diagnostics, Code::TP5118, plan.loss->span,
      fmt::format(
          "{} along `{}`: all {} compute the same loss, and it is added up over them, gradients {} times too large",
          result, own.name, own.size, own.size));
  d.fails = "gradient";
  d.help = fmt::format("leave `{}` out of `loss.axes`, and let what gathers the result cut its gradient and not sum it",
                       own.name);
}

void check_loss(const TpPlan& plan, const ModelGraph& graph, const Loss& loss, const MatchTable& matches,
                const ShardingTable& table, bool infer, Diagnostics& diagnostics) {
  const size_t outputs = graph.operations.outputs.size();
  if (graph.operations.is_there && static_cast<size_t>(loss.output) >= outputs)
    report_message(
        diagnostics, Code::TP5120, plan.loss->span,
        fmt::format("the loss is made of output {}, and the model has {}", loss.output, counted(outputs, "output")));
  if (infer) return;
  const std::vector<bool> used = used_axes(plan, matches, table);
  for (size_t i = 0; i < plan.mesh.axes.size(); ++i) {
    const auto axis = static_cast<AxisId>(i);
    if (plan.mesh.axes[i].size == 1) continue;
    if (is_data_axis(plan, axis))
      report_scale(plan, loss, axis, loss.gradients, diagnostics);
    else if (!used[i] && is_along(loss, axis))
      report_repeated(plan, axis, "nothing differs between the ranks", diagnostics);
  }
}

}  // namespace tpplan
