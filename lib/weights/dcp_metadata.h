// The `.metadata` of a checkpoint of torch.distributed.checkpoint: its tensors, without their bytes.
#pragma once

#include <string>

#include "weights/weight_files.h"

namespace tpplan {

// Reads the file `.metadata` at `path`, a pickle that is parsed and never executed (format: torch 2.13,
// distributed/checkpoint/metadata.py). Adds one header with the tensors of the model to `files`; their offsets in files
// are 0. `omitted`: what else the checkpoint has, in a sentence; empty if there is nothing.
//
// A checkpoint with several objects, such as `model` and `optimizer`, names each tensor below its object. Only those of
// the object `model` are tensors of the model then. Returns false after reporting an error.
[[nodiscard]] bool read_dcp_metadata(const std::string& path, WeightFiles& files, std::string& omitted);

}  // namespace tpplan
