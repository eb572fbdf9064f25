// Export of ONNX multi-device messages (IR version 11; docs/proposals/ONNXMultiDeviceProposal.md).
#pragma once

#include "emit/format_limit.h"

namespace tpplan {

extern const FormatLimit kOnnxLimitRows[2];
inline constexpr std::span<const FormatLimit> kOnnxLimits = kOnnxLimitRows;
inline constexpr int64_t kMaxOnnxRanks = int64_t{1} << 16;

// Writes two messages in protobuf's JSON form. `model` is a ModelProto with the device configuration.
// `device_configuration` is a NodeDeviceConfigurationProto with one ShardingSpecProto per parameter; a node needs those
// of the tensors that it reads. Devices are ranks. Shards are in row-major order over the sharded dims. A shard that
// several ranks hold has a negative device number, and index_to_device_group_map lists its ranks. Returns false if the
// sink fails.
[[nodiscard]] bool write_onnx(const Manifest& manifest, const Sink& sink);

}  // namespace tpplan
