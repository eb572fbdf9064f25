// The layouts at the boundaries of a module, as the steps of its style determine them. They are the manifest's `input`
// and `output` if the rule has no options.
#pragma once

#include <algorithm>

#include "styles/style_row.h"

namespace tpplan {

struct StyleBoundary {
  BoundaryRow input, output;
  bool operator==(const StyleBoundary&) const = default;
};

// Returns the boundary of a value after these steps. `given`: its layout before them if no step declares one.
[[nodiscard]] constexpr BoundaryRow boundary_after(Steps steps, const Placement& given) {
  BoundaryRow row{.used = false, .from = given, .to = given};
  for (const BoundaryStep& step : steps) {
    if (!has_layout(step.kind)) continue;
    row.used = true;
    const Placement placement = step.placements.empty() ? Placement{} : step.placements[0];
    switch (step.kind) {
      case StepKind::FromLocal:
      case StepKind::FromLocalSized:
      case StepKind::FromLocalCounted:
        row.from = row.to = placement;
        break;
      case StepKind::Redistribute:
      case StepKind::RedistributeOther:
        row.to = placement;
        break;
      case StepKind::SumValue:
        row.from = {.kind = PlacementKind::Partial};
        row.to = {};
        break;
      case StepKind::ToLocalPartial:
      case StepKind::SumGradient:
        row.gradient_is_partial = true;
        break;
      default:
        break;
    }
  }
  return row;
}

// Returns the layout of a module's result before the output steps: a matmul with shards of the dim `out` has shards of
// its last dim, and with shards of the dim `in` a partial sum. Other modules keep the layout of their input.
[[nodiscard]] constexpr Placement result_layout(const StyleRow& row, const BoundaryRow& input) {
  if (row.shard_dim == "out") return {.kind = PlacementKind::Shard, .dim = -1};
  if (row.shard_dim == "in") return {.kind = PlacementKind::Partial};
  return input.to;
}

// Returns the boundary of a style with these steps.
[[nodiscard]] constexpr StyleBoundary derive_boundary(const StyleRow& row, Steps input_steps, Steps output_steps) {
  StyleBoundary boundary{.input = boundary_after(input_steps, {}), .output = {}};
  // A matmul of a replicated input with shards of the dim `out` has a partial gradient. Token ids have no gradient.
  if (boundary.input.used && boundary.input.to.kind == PlacementKind::Replicate && row.shard_dim == "out" &&
      row.modules != StyleModules::EmbeddingOnly)
    boundary.input.gradient_is_partial = true;
  const BoundaryRow output = boundary_after(output_steps, result_layout(row, boundary.input));
  if (output.used) boundary.output = output;
  if (!boundary.input.used) boundary.input = {};
  return boundary;
}

// Returns the first of these lists of steps that changes a layout; an empty list if none does.
[[nodiscard]] constexpr Steps first_with_layout(Steps tpplan, Steps transformers, Steps torch) {
  for (const Steps steps : {tpplan, transformers, torch}) {
    if (std::any_of(steps.begin(), steps.end(), [](const BoundaryStep& step) { return has_layout(step.kind); }))
      return steps;
  }
  return {};
}

// Fills in the columns of a row that follow from its steps.
[[nodiscard]] constexpr StyleRow with_boundary(StyleRow row) {
  const StyleBoundary boundary =
      derive_boundary(row, first_with_layout(row.tpplan.input, row.transformers.input, row.torch.input),
                      first_with_layout(row.tpplan.output, row.transformers.output, row.torch.output));
  row.input = boundary.input;
  row.output = boundary.output;
  row.second_input = row.transformers.second.empty() ? 0 : 2;
  return row;
}

}  // namespace tpplan
