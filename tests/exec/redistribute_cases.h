// Redistributions with their expected results, element by element from the definition: for the unit tests, and for the
// program that runs them under a launcher.
#pragma once

#include <string>
#include <vector>

#include "run/redistribute_step.h"

namespace tpplan {

struct RedistributeCase {
  std::vector<int64_t> shape;
  DType dtype = 0;
  std::vector<Placement> from, to;
};

std::string to_text(const RedistributeCase& one, const Mesh& mesh);

// Every pair of layouts (Replicate, Shard of every dim and of -1, Partial) on every axis, over shapes that divide, do
// not divide, are shorter than the mesh, empty or without dims; dtypes by turns, those of the sums with arithmetic.
std::vector<RedistributeCase> all_cases(const Mesh& mesh);

// Whether each rank finds what it needs with the ranks of its group, at each step: found by counting elements one by
// one.
bool is_servable(const RedistributeCase& one, const Mesh& mesh);

// The tensor as comm.rank holds it before the first step.
LocalTensor first_tensor(Comm& comm, const Mesh& mesh, const RedistributeCase& one);

// Runs the steps and compares what comm.rank holds with the definition; empty, or what is wrong. `bytes` becomes the
// result.
std::string run_case(Comm& comm, const Mesh& mesh, const RedistributeCase& one, std::string& bytes);

}  // namespace tpplan
