#include "base/file_limit.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>

namespace tpplan {

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

FileCount count_files() {
  FileCount count;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) count.limit = limit.rlim_cur;
  std::error_code failed;
  const std::filesystem::directory_iterator files("/proc/self/fd", failed);
  if (!failed) count.open = static_cast<uint64_t>(std::distance(begin(files), end(files))) - 1;  // less that of `files`
  return count;
}

std::string errno_text(int error) {
  if (error != EMFILE) return std::strerror(error);
  return std::string(std::strerror(error)) + ": the limit of this process is " + std::to_string(count_files().limit) +
         ", set by ulimit -Hn and the settings of the container or machine";
}

}  // namespace tpplan
