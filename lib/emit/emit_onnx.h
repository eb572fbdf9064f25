// Export of ONNX multi-device messages (IR version 11; docs/proposals/ONNXMultiDeviceProposal.md).
#pragma once

#include "emit/loss_row.h"

namespace tpplan {

extern const LossRow kOnnxLossRows[2];
inline constexpr std::span<const LossRow> kOnnxLosses = kOnnxLossRows;
inline constexpr int64_t kMaxOnnxRanks = int64_t{1} << 16;

// Two messages in protobuf's JSON form: `model`, a ModelProto with the device configuration, and
// `device_configuration`, a NodeDeviceConfigurationProto with one ShardingSpecProto for each parameter: a node takes
// those of the tensors that it reads. Devices are ranks. Shards stand row-major over the sharded dims; a shard that
// several ranks hold is a negative number, and index_to_device_group_map says which ranks those are.
[[nodiscard]] bool write_onnx(const Manifest& manifest, const Sink& sink);

}  // namespace tpplan
