// Checks of this machine's GPUs and their libraries.
#pragma once

#include <string>
#include <vector>

namespace tpplan {

// Ok: it works. Missing: it should work on this machine, but does not. Absent: it does not exist, and only features
// that need it are unavailable.
enum class CheckState { Ok, Missing, Absent };

struct Check {
  std::string name;  // "MPI library", "driver"
  CheckState state = CheckState::Ok;
  std::string found;   // version, path, amount; or what went wrong
  std::string remedy;  // what to do; empty if nothing is needed
};

// Returns a row for each of driver, GPUs, NCCL and cuBLAS; one row if the program was built without CUDA.
[[nodiscard]] std::vector<Check> cuda_checks();

}  // namespace tpplan
