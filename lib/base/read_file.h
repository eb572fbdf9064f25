// Whole inputs into memory, within a limit.
#pragma once

#include <cstdint>
#include <string>

#include "base/source_file.h"

namespace tpplan {

enum class ReadFault : uint8_t { None, CannotRead, TooLarge };

struct ReadResult {
  SourceFile file;
  ReadFault fault = ReadFault::None;
  std::string reason;  // "No such file or directory", "is a directory", ...
};

// Reads `path`, or standard input for "-". Regular files, pipes and terminals only: a directory or a device is refused
// before a byte of it is read. More than `limit` bytes is TooLarge, for a regular file before reading.
[[nodiscard]] ReadResult read_file(const std::string& path, uint64_t limit);

// The same of a file that nobody named and that is read because it is there: a regular file, and no other. A pipe is
// not waited for, a symbolic link is not followed: whoever put it there may not read what it leads to.
[[nodiscard]] ReadResult read_found_file(const std::string& path, uint64_t limit);

}  // namespace tpplan
