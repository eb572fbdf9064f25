#include "exec/device/host_arithmetic.h"

namespace tpplan {

bool reduce_on_host(void* to, const void* from, uint64_t elements, DType dtype, ReduceOp op) {
  return visit_arithmetic_type(dtypes()[dtype].name, [&](auto zero) {
    using T = decltype(zero);
    T* a = static_cast<T*>(to);
    const T* b = static_cast<const T*>(from);
    for (uint64_t i = 0; i < elements; ++i) a[i] = reduce_pair(a[i], b[i], op);
  });
}

bool divide_on_host(void* data, uint64_t elements, DType dtype, uint64_t count) {
  return visit_arithmetic_type(dtypes()[dtype].name, [&](auto zero) {
    using T = decltype(zero);
    T* a = static_cast<T*>(data);
    for (uint64_t i = 0; i < elements; ++i) a[i] = divide_value(a[i], count);
  });
}

}  // namespace tpplan
