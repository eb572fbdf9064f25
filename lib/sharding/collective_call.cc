#include "sharding/collective_call.h"

#include "sharding/dtype.h"

namespace tpplan {

uint64_t payload_bytes(const CollectiveCall& call, int64_t ranks) {
  const auto input = static_cast<uint64_t>(call.bytes);
  uint64_t gathered = 0;
  if (call.kind != CollectiveKind::AllGather) return input;
  return __builtin_mul_overflow(input, static_cast<uint64_t>(ranks), &gathered) ? kTooManyBytes : gathered;
}

}  // namespace tpplan
