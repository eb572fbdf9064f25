// Converts a folder of shards to the sharding of another manifest.
#pragma once

#include <cstdint>
#include <string>

#include "exec/ranks/backend.h"
#include "exec/shards/moved_sums.h"
#include "exec/shards/reshard_input.h"

namespace tpplan {

// Computes the fields of `input` that follow from input.after and input.known or input.source. Returns false if the
// folder is known and its tensors differ from those of input.after: open_weights then reports the differences.
[[nodiscard]] bool list_moves(ReshardInput& input);

// Writes the folder `input.from` again at `path`, sharded by `input.after`. All ranks of its mesh call it. Each byte is
// read once and written once. If fewer ranks write a tensor than exist, the other ranks help them. A rank buffers at
// most `staging` bytes.
//
// An unchanged file becomes a hard link, so that a later write into it changes both folders, or a copy if linking
// fails. Bytes are compared with the checksums of the old folder when they are read, and the new folder gets checksums
// of the bytes that are written. Returns the byte counts of this rank. Throws if nothing was written.
[[nodiscard]] ReshardResult reshard(Comm& comm, const ReshardInput& input, MovedSums& sums,
                                    const std::string& shardings_sha256, const std::string& path, uint64_t staging);

}  // namespace tpplan
