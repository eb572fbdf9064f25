// Stands in for the GPU's files where the program is built without CUDA.
#include "device/device.h"

namespace tpplan {

const Device* cuda_device(std::string& reason) {
  reason = "this program was built without CUDA";
  return nullptr;
}

}  // namespace tpplan
