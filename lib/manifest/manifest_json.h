// Writes the values of a manifest as JSON, for the manifest writer and for programs that print parts of a manifest.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"
#include "sharding/rank_offsets.h"
#include "text/json_writer.h"

namespace tpplan {

// Each function writes one JSON value unless stated otherwise. write_sent_dtypes writes the fields `forward_dtype` and
// `backward_dtype`, if present.
void write_sent_dtypes(JsonWriter& json, std::optional<DType> forward, std::optional<DType> backward);
void write_mesh(JsonWriter& json, const Mesh& mesh);

// Writes one entry per dim: null, an axis, or a list of axes from major to minor.
void write_spec(JsonWriter& json, const PartitionSpec& spec, const Mesh& mesh);
// Writes an entry for each sharded dim: the dim, [rank stride, ranks, shard stride] of each axis, and [shards, length]
// of each segment in order. Writes null if `offsets` is empty.
void write_offsets(JsonWriter& json, const std::optional<std::vector<DimOffsets>>& offsets);
void write_placements(JsonWriter& json, const std::optional<std::vector<Placement>>& placements);

// Writes the sizes of the segments by dim: {"0": [11008, 11008]}.
void write_segments(JsonWriter& json, std::span<const DimSegments> segments);
void write_shapes(JsonWriter& json, std::span<const std::vector<int64_t>> shapes);
void write_grad_reduce(JsonWriter& json, std::span<const GradReduce> reductions, const Mesh& mesh);
void write_step(JsonWriter& json, const ManifestStep& step, const Mesh& mesh);
void write_step_costs(JsonWriter& json, const StepCosts& costs);
void write_param_steps(JsonWriter& json, const ParamLayout& layout, const Mesh& mesh);
void write_values(JsonWriter& json, std::span<const ManifestValue> values, const Mesh& mesh);
// Writes the summary fields of a rule: parameter counts, and conversions of inputs and outputs.
void write_rule_facts(JsonWriter& json, const ManifestRule& rule, const Mesh& mesh);
void write_data(JsonWriter& json, const std::optional<ManifestData>& data, const Mesh& mesh);
void write_loss(JsonWriter& json, const std::optional<Loss>& loss, const Mesh& mesh);
void write_local_attributes(JsonWriter& json, const std::optional<ManifestLocalAttributes>& local, const Mesh& mesh);
void write_fsdp(JsonWriter& json, const std::optional<ManifestFsdp>& fsdp, const Mesh& mesh);

// Writes a distribution in the syntax of plans: `"zeros"`, `{"constant": 0.5}`, `{"normal": {"mean": 0, "std": 0.02}}`.
void write_distribution(JsonWriter& json, const Distribution& distribution);

// Writes the text, or null if it is empty.
void write_optional(JsonWriter& json, std::string_view text);

}  // namespace tpplan
