// What a build without CUDA says of GPUs.
#include "device/cuda_checks.h"
#include "device/device.h"

namespace tpplan {

const Device* cuda_device(std::string& reason) {
  reason = "this tpplan-exec was built without CUDA";
  return nullptr;
}

std::vector<Check> cuda_checks() {
  return {{.name = "CUDA",
           .state = CheckState::Absent,
           .found = "this tpplan-exec was built without CUDA",
           .remedy = "build it where nvcc is installed to run on GPUs"}};
}

}  // namespace tpplan
