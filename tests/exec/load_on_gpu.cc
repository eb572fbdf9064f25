// Loads with libtpplan_load into simulated GPU memory (simulated_cuda.cc): load_on_gpu MANIFEST WEIGHTS RANK GPU
// [CHECKSUMS]. Prints the GPU's bytes of each stored tensor in hex, in the order of the on_tensor calls.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "exec/device/device.h"
#include "exec/load/tpplan_load.h"

using tpplan::Device;

struct Told {
  tpplan_load* load = nullptr;
  const Device* device = nullptr;
  std::vector<void*> memory;
};

static int print_tensor(void* user, size_t number) {
  const Told& told = *static_cast<Told*>(user);
  tpplan_load_tensor tensor;
  if (tpplan_load_describe(told.load, number, &tensor) != 0) return 1;
  std::vector<unsigned char> bytes(tensor.bytes);
  if (tensor.bytes != 0) told.device->to_host(bytes.data(), told.memory[number], tensor.bytes);
  std::printf("%s ", tensor.path);
  for (const unsigned char byte : bytes) std::printf("%02x", byte);
  std::printf("\n");
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 5) return 98;
  std::string reason;
  Told told{.device = tpplan::cuda_device(reason)};
  if (told.device == nullptr) return std::fprintf(stderr, "%s\n", reason.c_str()), 97;
  tpplan_load_source source{};
  source.size = sizeof source;
  source.manifest = argv[1];
  source.weights = argv[2];
  source.rank = std::atoi(argv[3]);
  source.device = "cuda";
  source.device_number = std::atoi(argv[4]);
  source.dtype = std::getenv("LOAD_DTYPE");
  const char* only = std::getenv("LOAD_ONLY");
  int status = tpplan_load_open(&source, &told.load);
  const size_t tensors = tpplan_load_count(told.load);
  std::vector<tpplan_load_target> targets;
  told.memory.resize(tensors);
  told.device->use(source.device_number);
  for (size_t i = 0; i < tensors && status == 0; ++i) {
    tpplan_load_tensor tensor;
    status = tpplan_load_describe(told.load, i, &tensor);
    if (status != 0 || tensor.is_stored == 0 || (only != nullptr && std::strstr(only, tensor.path) == nullptr))
      continue;
    told.memory[i] = told.device->allocate(tensor.bytes);
    targets.push_back({i, told.memory[i], tensor.bytes});
  }
  tpplan_load_options options{};
  options.size = sizeof options;
  options.threads = 3;
  options.staging = 1 << 20;
  options.checksums = argc > 5 ? argv[5] : nullptr;
  options.on_tensor = print_tensor;
  options.user = &told;
  if (status == 0) status = tpplan_load_read(told.load, targets.data(), targets.size(), &options, nullptr);
  std::fprintf(stderr, "%s", tpplan_load_error(told.load));
  tpplan_load_close(told.load);
  for (void* memory : told.memory) {
    if (memory != nullptr) told.device->release(memory);
  }
  return status;
}
