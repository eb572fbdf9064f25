// Formats fields of a manifest as text for a diff. Names are not escaped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "manifest/manifest.h"

namespace tpplan {

// Returns "a, b", or "none" for an empty list.
[[nodiscard]] std::string comma_list(const std::vector<std::string>& items);
[[nodiscard]] std::string placement_list_text(const std::optional<std::vector<Placement>>& placements);
[[nodiscard]] std::string segments_text(const std::vector<DimSegments>& segments);

// Returns the local shapes in order; consecutive equal shapes are one text with their count.
[[nodiscard]] std::string local_shapes_text(const std::vector<std::vector<int64_t>>& shapes);
[[nodiscard]] std::string grad_reduce_text(const std::vector<GradReduce>& reductions, const Mesh& mesh);

// Returns the rule's block and key, or "none" for nullptr.
[[nodiscard]] std::string rule_name_text(const ManifestRule* rule);
[[nodiscard]] std::string style_text(const std::string& style);
[[nodiscard]] std::string values_text(const std::vector<ManifestValue>& values, const Mesh& mesh);
[[nodiscard]] std::string costs_text(const StepCosts& costs);
[[nodiscard]] std::string param_steps_text(const ManifestStep& step, const Mesh& mesh);
[[nodiscard]] std::string data_text(const std::optional<ManifestData>& data, const Mesh& mesh);

// Returns the patterns of the paths with their counts.
[[nodiscard]] std::string paths_text(const std::vector<std::string>& paths);
[[nodiscard]] std::string local_attributes_text(const std::optional<ManifestLocalAttributes>& local, const Mesh& mesh);
[[nodiscard]] std::string fsdp_text(const std::optional<ManifestFsdp>& fsdp, const Mesh& mesh);

}  // namespace tpplan
