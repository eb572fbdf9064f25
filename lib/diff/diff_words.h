// Formats fields of a manifest as text for a diff. Names are not escaped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "manifest/manifest.h"

namespace tpplan {

// Returns "a, b", or "none" for an empty list.
[[nodiscard]] std::string list_words(const std::vector<std::string>& words);
[[nodiscard]] std::string placements_words(const std::optional<std::vector<Placement>>& placements);
[[nodiscard]] std::string segments_words(const std::vector<DimSegments>& segments);

// Returns the local shapes in order; consecutive equal shapes are one text with their count.
[[nodiscard]] std::string local_shapes_words(const std::vector<std::vector<int64_t>>& shapes);
[[nodiscard]] std::string grad_reduce_words(const std::vector<GradReduce>& reductions, const Mesh& mesh);

// Returns the rule's block and key, or "none" for nullptr.
[[nodiscard]] std::string rule_words(const ManifestRule* rule);
[[nodiscard]] std::string style_words(const std::string& style);
[[nodiscard]] std::string values_words(const std::vector<ManifestValue>& values, const Mesh& mesh);
[[nodiscard]] std::string costs_words(const StepCosts& costs);
[[nodiscard]] std::string step_words(const ManifestStep& step, const Mesh& mesh);
[[nodiscard]] std::string data_words(const std::optional<ManifestData>& data, const Mesh& mesh);

// Returns the patterns of the paths with their counts.
[[nodiscard]] std::string paths_words(const std::vector<std::string>& paths);
[[nodiscard]] std::string local_attributes_words(const std::optional<ManifestLocalAttributes>& local, const Mesh& mesh);
[[nodiscard]] std::string fsdp_words(const std::optional<ManifestFsdp>& fsdp, const Mesh& mesh);

}  // namespace tpplan
