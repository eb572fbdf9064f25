// The division of an average, on any device.
#pragma once

#include <cstdint>

#include "exec/device/device.h"

namespace tpplan {

// Computes data[i] /= count on the host, synchronously: averages are rare, so the device's table has no division.
// Throws std::bad_alloc. @pre the dtype has arithmetic (Device::reduce)
void divide(const Device& device, void* data, uint64_t elements, DType dtype, uint64_t count);

}  // namespace tpplan
