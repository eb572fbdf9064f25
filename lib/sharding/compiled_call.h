// One collective that XLA inserts into the program of a JAX or Keras model, forecast from its shardings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

struct CompiledCall {
  bool backward = false;
  std::string_view kind;          // "all_reduce", "all_gather", "all_to_all", "collective_permute", "reduce_scatter"
  std::vector<std::string> axes;  // of the mesh; "model:1:2" is a part of an axis
  std::string module;             // where the program calls for it; empty: the model
  std::string operation;          // that needs the other layout; "result" of the program
  int64_t bytes = 0;              // of one rank's tensor: the output of an all_gather, the input of other kinds
  int64_t times = 1;              // in a step: the iterations of the loops around it
  double wire = 0;                // bytes that a rank sends in all these times, in a ring
  std::string parameter;          // that the operation reads or whose gradient it is; empty if there is none
  std::string rule;               // key of the rule that shards `parameter`, or that applies to `module`; may be empty
};

}  // namespace tpplan
