// A regular file that is opened once, so that all later reads are from the same file even if its name changes.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/read_file.h"

namespace tpplan {

struct InputFile {
  std::string name;         // for messages
  std::shared_ptr<int> fd;  // closes the file; null if it is not open
  struct stat identity {};  // when it was opened
};

// Opens the file at `path`. Returns why it cannot be read; empty on success. Accepts regular files only and does not
// wait for a pipe.
[[nodiscard]] std::string open_input(const std::string& path, InputFile& file);

[[nodiscard]] inline uint64_t size_of(const InputFile& file) { return static_cast<uint64_t>(file.identity.st_size); }

// Reads bytes [offset, offset + length), fewer if the file ends before.
[[nodiscard]] ReadResult read_part(const InputFile& file, uint64_t offset, uint64_t length);

// False if size or mtime of the file changed since it was opened.
[[nodiscard]] bool is_unchanged(const InputFile& file);

}  // namespace tpplan
