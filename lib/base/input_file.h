// A regular file that is opened once: all that is read and said of it later is of one and the same file, whatever its
// name comes to stand for meanwhile.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/read_file.h"

namespace tpplan {

struct InputFile {
  std::string name;         // as people know it
  std::shared_ptr<int> fd;  // closes it; null: it is not open, or not any more
  struct stat identity {};  // as it was opened
};

// Why the file at `path` cannot be read; empty: it is open. Only regular files are, and a pipe is not waited for.
[[nodiscard]] std::string open_input(const std::string& path, InputFile& file);

[[nodiscard]] inline uint64_t size_of(const InputFile& file) { return static_cast<uint64_t>(file.identity.st_size); }

// Bytes [offset, offset + length), fewer where the file ends before. Nothing else of it is read.
[[nodiscard]] ReadResult read_part(const InputFile& file, uint64_t offset, uint64_t length);

// False when the file was written since it was opened, as far as its size and time say.
[[nodiscard]] bool is_unchanged(const InputFile& file);

}  // namespace tpplan
