// The values of a manifest as JSON, for its writer and for others that print pieces of one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"
#include "sharding/rank_offsets.h"
#include "syntax/json_writer.h"

namespace tpplan {

// Each writes one value.
// Under the keys `forward_dtype` and `backward_dtype`, where they are there.
void write_sent_dtypes(JsonWriter& json, std::optional<DType> forward, std::optional<DType> backward);
void write_mesh(JsonWriter& json, const Mesh& mesh);

// One entry a dim: null, an axis, or a list of axes major to minor.
void write_spec(JsonWriter& json, const PartitionSpec& spec, const Mesh& mesh);
// Of each cut dim: its number, of each axis that cuts it [stride of ranks, ranks, stride of pieces], and of each
// segment [pieces, length] in order. Null where there is no such thing.
void write_offsets(JsonWriter& json, const std::optional<std::vector<DimOffsets>>& offsets);
void write_placements(JsonWriter& json, const std::optional<std::vector<Placement>>& placements);

// {"0": [11008, 11008]}: the sizes of the segments by dim.
void write_segments(JsonWriter& json, std::span<const DimSegments> segments);
void write_shapes(JsonWriter& json, std::span<const std::vector<int64_t>> shapes);
void write_grad_reduce(JsonWriter& json, std::span<const GradReduce> reductions, const Mesh& mesh);
void write_step(JsonWriter& json, const ManifestStep& step, const Mesh& mesh);
void write_step_costs(JsonWriter& json, const StepCosts& costs);
void write_param_steps(JsonWriter& json, const ParamLayout& layout, const Mesh& mesh);
void write_values(JsonWriter& json, std::span<const ManifestValue> values, const Mesh& mesh);
// Members of a rule: what it holds, and what it does to values.
void write_rule_facts(JsonWriter& json, const ManifestRule& rule, const Mesh& mesh);
void write_data(JsonWriter& json, const std::optional<ManifestData>& data, const Mesh& mesh);
void write_loss(JsonWriter& json, const std::optional<Loss>& loss, const Mesh& mesh);
void write_fsdp(JsonWriter& json, const std::optional<ManifestFsdp>& fsdp, const Mesh& mesh);

// `"zeros"`, `{"constant": 0.5}`, `{"normal": {"mean": 0, "std": 0.02}}`: what a plan may hold as it is.
void write_distribution(JsonWriter& json, const Distribution& distribution);

// null for a text that is empty.
void write_optional(JsonWriter& json, std::string_view text);

}  // namespace tpplan
