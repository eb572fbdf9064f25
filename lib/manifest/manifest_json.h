// The values of a manifest as JSON, for its writer and for others that print pieces of one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"

namespace tpplan {

// "text" with its quotes.
std::string json_text(std::string_view text);
std::string names_json(std::span<const std::string> names);
std::string sizes_json(std::span<const int64_t> sizes);
std::string shapes_json(std::span<const std::vector<int64_t>> shapes);
std::string mesh_json(const Mesh& mesh);

// One entry a dim: null, an axis, or a list of axes major to minor.
std::string spec_json(const PartitionSpec& spec, const Mesh& mesh);
std::string placements_json(const std::optional<std::vector<Placement>>& placements);

// {"0": [11008, 11008]}; the sizes of the segments by dim. @pre there are some
std::string segments_json(std::span<const DimSegments> segments);
std::string grad_reduce_json(std::span<const GradReduce> reductions, const Mesh& mesh);
std::string values_json(std::span<const ManifestValue> values, const Mesh& mesh);
std::string data_json(const std::optional<ManifestData>& data, const Mesh& mesh);
std::string init_json(std::span<const Distribution> distributions);
std::string fsdp_json(const std::optional<ManifestFsdp>& fsdp, const Mesh& mesh);

}  // namespace tpplan
