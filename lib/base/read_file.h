// Reads complete inputs into memory, up to a limit.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/source_file.h"

namespace tpplan {

enum class ReadError : uint8_t { None, CannotRead, TooLarge };

struct ReadResult {
  SourceFile file;
  ReadError fault = ReadError::None;
  std::string reason;  // "No such file or directory", "is a directory", ...
  uid_t owner = 0;     // of a file that was opened
};

// Reads `path`, or standard input for "-". Accepts regular files, pipes and terminals; rejects directories and devices
// before reading. More than `limit` bytes is TooLarge, for a regular file before reading.
[[nodiscard]] ReadResult read_file(const std::string& path, uint64_t limit);

// Reads a file that the user did not name. Accepts regular files only, does not wait for a pipe and does not follow a
// symbolic link: whoever created it may have no permission to read its target.
[[nodiscard]] ReadResult read_untrusted_file(const std::string& path, uint64_t limit);

// The reason of read_file_within for a file outside of the folder.
inline constexpr std::string_view kLeadsOut = "it is outside the project's folder";

// Reads a file that another file names. Accepts a regular file that is in `folder` after all links are followed,
// because the author of the other file may have no permission to read it.
[[nodiscard]] ReadResult read_file_within(const std::string& folder, const std::string& path, uint64_t limit);

}  // namespace tpplan
