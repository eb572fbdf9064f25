// The second half of an average, on any device.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace tpplan {

// data[i] /= count, by way of the host: averages are rare, and the device's table has no division. Done on return.
// Throws std::bad_alloc. The dtype has arithmetic (Device::reduce).
void divide(const Device& device, void* data, uint64_t elements, DType dtype, uint64_t count);

}  // namespace tpplan
