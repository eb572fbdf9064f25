// FSDP policies: which dim of a tensor is sharded. Each is a row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "diagnostics/diagnostics.h"
#include "sharding/check_sharding.h"
#include "sharding/mesh.h"
#include "sharding/partition_spec.h"

namespace tpplan {

// A tensor with the sharding of the rules, and the FSDP axis, which is not in the sharding yet.
struct FsdpTensor {
  std::span<const int64_t> shape;
  const Sharding& sharding;
  const Mesh& mesh;
  AxisId axis = kNoAxis;
};

struct FsdpPolicyRow {
  std::string_view name;
  bool has_minimum_size = true;  // tensors of at most `min_weight_size` elements are not sharded
  UnevenPolicy uneven_policy =
      UnevenPolicy::Error;           // Torch: uneven as torch.chunk, also if the plan's rules require even shards
  Code no_dim = Code::NoDimForFsdp;  // reported if no dim can be sharded
  std::string_view no_dim_help{};
  // Returns the dim to shard; nullopt if there is none.
  std::optional<size_t> (*choose)(const FsdpTensor&) = nullptr;
};

// Returns all policies; the first is the default of `policy:`.
[[nodiscard]] std::span<const FsdpPolicyRow> fsdp_policy_table();

}  // namespace tpplan
