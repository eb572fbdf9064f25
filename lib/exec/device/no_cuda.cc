// The GPU functions of a build without CUDA.
#include "exec/device/cuda_checks.h"
#include "exec/device/device.h"

namespace tpplan {

const Device* cuda_device(std::string& reason) {
  reason = "this tpplan-exec was built without CUDA";
  return nullptr;
}

std::vector<Check> cuda_checks() {
  return {{.name = "CUDA",
           .state = CheckState::Absent,
           .found = "this tpplan-exec was built without CUDA",
           .remedy = "build it with nvcc installed to run on GPUs"}};
}

}  // namespace tpplan
