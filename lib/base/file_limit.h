// The limit of open files and connections of this process.
#pragma once

#include <cstdint>
#include <string>

namespace tpplan {

// Raises the soft limit to the hard limit: many processes start with 1024, and a checkpoint can have more files, a job
// more ranks.
void raise_file_limit();

struct FileCount {
  uint64_t open = 0, limit = 0;
};

[[nodiscard]] FileCount count_files();

// Returns the message of an errno value; for EMFILE also the limit and how to change it.
[[nodiscard]] std::string errno_text(int error);

}  // namespace tpplan
