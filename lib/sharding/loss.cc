#include "sharding/loss.h"

#include <algorithm>

namespace tpplan {

std::string_view to_text(Reduction reduction) { return kReductionNames[static_cast<size_t>(reduction)]; }
std::string_view to_text(TokenCount count) { return kTermCountNames[static_cast<size_t>(count)]; }

bool is_loss_axis(const Loss& loss, AxisId axis) {
  return std::find(loss.axes.begin(), loss.axes.end(), axis) != loss.axes.end();
}

LossScale loss_scale_along(const Loss& loss, AxisId axis, Reduction joined) {
  const bool is_sum = joined == Reduction::Sum;
  // The ranks' losses add up to the loss if they are sums, or means that divide by the global token count.
  const bool adds_up =
      loss.reduction == Reduction::Sum || (loss.count == TokenCount::Global && is_loss_axis(loss, axis));
  if (adds_up) return is_sum ? LossScale::Right : LossScale::TooSmall;
  return is_sum ? LossScale::TooLarge : LossScale::MeanOfMeans;
}

std::string to_text(const Loss& loss, const Mesh& mesh) {
  std::string axes;
  for (const AxisId axis : loss.axes) axes += (axes.empty() ? "" : ", ") + axis_name(mesh, axis);
  std::string text(to_text(loss.reduction));
  text += " of output " + std::to_string(loss.output);
  if (loss.reduction == Reduction::Mean)
    text += loss.count == TokenCount::Global ? ", counted over all ranks" : ", counted by each rank";
  text += " over [" + axes + "], gradients ";
  return text + (loss.gradients == Reduction::Sum ? "summed" : "averaged");
}

}  // namespace tpplan
