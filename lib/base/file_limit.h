// How many files and connections this process may have open.
#pragma once

#include <cstdint>
#include <string>

namespace tpplan {

// Raises the limit to what the system allows this process: many start with 1024, and a checkpoint may have more files,
// a job more ranks.
void raise_file_limit();

struct FileCount {
  uint64_t open = 0, limit = 0;
};

[[nodiscard]] FileCount count_files();

// What errno says, for people; of files that are too many also how many there may be, and how that is changed.
[[nodiscard]] std::string error_text(int error);

}  // namespace tpplan
