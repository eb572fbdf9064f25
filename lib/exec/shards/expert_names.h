// Names of the matrices of single experts, which checkpoints store one by one where models hold them stacked.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tpplan {

// A parameter of stacked experts, of shape [experts, rows, columns], and the leaf names of the matrices of one expert
// whose rows follow each other in it.
struct ExpertRow {
  std::string_view stacked;
  std::array<std::string_view, 2> parts;  // the second may be empty
  std::string_view naming;                // of all matrices of a model: the first part of `gate_up_proj`
};

// The namings of expert_rows.
inline constexpr std::string_view kExpertNamings[] = {"gate_proj", "w1"};

// The rows that apply to a parameter are those whose `stacked` is its last name. The matrices of expert 3 of
// `layers.0.mlp.experts.down_proj` are called `layers.0.mlp.experts.3.PART.weight`.
[[nodiscard]] std::span<const ExpertRow> expert_rows();

[[nodiscard]] std::string expert_name(std::string_view path, uint64_t expert, std::string_view part);

}  // namespace tpplan
