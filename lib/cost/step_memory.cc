#include "cost/step_memory.h"

#include "sharding/tensor_size.h"

namespace tpplan {

DType dtype_in(const StepTrace& trace, uint32_t value) { return dtype_of(trace.values[value].dtype); }

uint64_t bytes_in(const StepTrace& trace, uint32_t value) {
  return byte_size(dtype_in(trace, value), elements_of(shape_of(trace, value)));
}

StridedShape strided_shape(const StepTrace& trace, const StepMemory& memory, uint32_t value) {
  return {shape_of(trace, value), memory.strides[value]};
}

}  // namespace tpplan
