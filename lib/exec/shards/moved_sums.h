// Checksums of the stored boxes that the ranks of a reshard read and write, each rank a part of a box.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/crc32c.h"
#include "exec/ranks/backend.h"

namespace tpplan {

// The checksum of the bytes that ranks have read or written of one stored box.
struct MovedPart {
  uint32_t sum = 0;
  uint64_t bytes = 0, all = 0;  // bytes so far, and of the box
  uint32_t kept = 0;            // its checksum in the old folder
};
struct StoredBoxKey {
  uint64_t file = 0;  // the rank for a known folder and for the new one; else the index in the source
  uint32_t run = 0;   // index of the rank's file; else of the tensor's stored box
  uint32_t tensor = 0;
  auto operator<=>(const StoredBoxKey&) const = default;
};
using MovedParts = std::map<StoredBoxKey, MovedPart>;

// Checksums of all ranks of a process.
struct MovedSums {
  std::mutex mutex;
  MovedParts read, written;
};

// The checksum of ranges of a stored box that arrive in ascending order.
struct RunSum {
  uint32_t sum = 0;
  uint64_t end = 0, bytes = 0;  // end and total of the ranges so far
  uint64_t gap = 0;             // the distance of `shift`
  Crc32cShift shift;
};

// Adds the next range. @pre `offset` is at or behind the end of the ranges so far.
void add_run(RunSum& sum, const void* bytes, uint64_t count, uint64_t offset);

// Adds the checksum of some bytes of a box, shifted over the bytes after them (read_box).
void add_part(MovedPart& part, uint32_t sum, uint64_t bytes);

// Adds all parts of `from`.
void add_parts(MovedParts& to, const MovedParts& from);

// Sends every checksum to the rank that compares it: the owner of a new file, and rank `file % world` for an old one.
// Ranks of one process share `sums` and send nothing.
void exchange_parts(Comm& comm, MovedSums& sums);

}  // namespace tpplan
