// Redistributions with their expected results, which are computed per element from the definition. The unit tests and
// the ranks driver use them.
#pragma once

#include <string>
#include <vector>

#include "exec/run/redistribute_step.h"

namespace tpplan {

struct RedistributeCase {
  std::vector<int64_t> shape;
  DType dtype = 0;
  std::vector<Placement> from, to;
};

std::string to_text(const RedistributeCase& one, const Mesh& mesh);

// Returns cases for every pair of layouts on every axis: Replicate, Shard of every dim and of -1, Partial. The shapes
// divide evenly or not, are shorter than the mesh, empty, or without dims. The dtypes rotate; Partial uses only
// arithmetic ones.
std::vector<RedistributeCase> all_cases(const Mesh& mesh);

// True if at each step every rank finds its elements on the ranks of its group. Counts single elements.
bool is_servable(const RedistributeCase& one, const Mesh& mesh);

// Returns the local tensor of comm.rank before the first step.
LocalTensor first_tensor(Comm& comm, const Mesh& mesh, const RedistributeCase& one);

// Executes the steps and compares the local tensor of comm.rank with the definition. Returns an error text, or "".
// Stores the result in `bytes`.
std::string run_case(Comm& comm, const Mesh& mesh, const RedistributeCase& one, std::string& bytes);

}  // namespace tpplan
