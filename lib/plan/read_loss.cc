#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "plan/plan_sections.h"

namespace tpplan {
namespace {

constexpr std::string_view kLossKeys[] = {"output", "reduction", "count", "axes", "gradients", "cross_entropy"};

void read_loss_axes(PlanReader& reader, YamlId id, std::vector<AxisId>& axes) {
  for (const YamlId item : items_of(reader, id)) {
    AxisId axis = kNoAxis;
    if (!read_axis(reader, item, "an axis of the loss", axis)) continue;
    if (std::find(axes.begin(), axes.end(), axis) == axes.end())
      axes.push_back(axis);
    else
      report_error(reader, Code::AxisUsedTwice, item,
                   fmt::format("axis `{}` occurs twice in `loss.axes`", node_at(reader, item).text));
  }
  std::sort(axes.begin(), axes.end());
}

template <typename Choice>
bool read_word(PlanReader& reader, YamlId id, std::string_view what, std::span<const std::string_view> names,
               Choice& choice) {
  size_t index = 0;
  if (!read_choice(reader, id, what, names, index)) return false;
  choice = static_cast<Choice>(index);
  return true;
}

void read_field(PlanReader& reader, std::string_view name, YamlId value, PlanLoss& loss) {
  Loss& given = loss.given;
  if (name == "output") {
    int64_t output = 0;
    if (read_integer(reader, value, "`loss.output`", 0, output, Code::InvalidPlanValue, 1 << 16))
      given.output = static_cast<int>(output);
  } else if (name == "reduction") {
    read_word(reader, value, "`loss.reduction`", kReductionNames, given.reduction);
  } else if (name == "count") {
    read_word(reader, value, "`loss.count`", kTermCountNames, given.count);
  } else if (name == "axes") {
    loss.names_axes = true;
    read_loss_axes(reader, value, given.axes);
  } else if (name == "gradients") {
    loss.names_gradients = read_word(reader, value, "`loss.gradients`", kReductionNames, given.gradients);
  } else if (name == "cross_entropy") {
    size_t index = 0;
    if (read_choice(reader, value, "`loss.cross_entropy`", std::span(kCrossEntropyNames).subspan(1), index))
      loss.cross_entropy = static_cast<CrossEntropy>(index + 1);
  }
}

}  // namespace

void read_loss(PlanReader& reader, YamlId id) {
  PlanLoss loss;
  loss.span = span_at(reader, id);
  YamlId count = kNoYaml;
  for_each_entry(
      reader, id, "`loss`",
      [&](YamlId key, YamlId value) {
        const std::string& name = node_at(reader, key).text;
        if (std::find(std::begin(kLossKeys), std::end(kLossKeys), name) == std::end(kLossKeys))
          return report_unknown_key(reader, key, "`loss`", kLossKeys);
        if (name == "count") count = value;
        read_field(reader, name, value, loss);
      },
      "write how the loss is reduced: `loss: {reduction: mean}`");
  if (count != kNoYaml && loss.given.reduction == Reduction::Sum)
    report_error(reader, Code::SettingWithoutEffect, count, "`loss.count` has no effect on a sum",
                 "remove `count`: only a mean is divided by a count");
  reader.plan.loss = std::move(loss);
}

}  // namespace tpplan
