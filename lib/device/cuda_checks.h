// What of GPUs and their libraries is found on this machine.
#pragma once

#include <string>
#include <vector>

namespace tpplan {

// Ok: works. Missing: something that was meant to be there does not work. Absent: not there, and nothing suffers but
// what needs it.
enum class CheckState { Ok, Missing, Absent };

struct Check {
  std::string name;  // "MPI library", "driver"
  CheckState state = CheckState::Ok;
  std::string found;   // version, path, amount; or what went wrong
  std::string remedy;  // what to do about it; empty: nothing needs doing
};

// Driver, GPUs, NCCL, cuBLAS: one row where the program was built without CUDA.
[[nodiscard]] std::vector<Check> cuda_checks();

}  // namespace tpplan
