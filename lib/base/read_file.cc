#include "base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/long_calls.h"
#include "base/path_status.h"

namespace tpplan {
namespace {

int open_noted(const std::string& path, int flags) {
  return make_registered_call("open", path, kNoOffset, [&] { return open(path.c_str(), flags); });
}

ReadResult rejected(ReadResult result, ReadError fault, std::string reason) {
  result.fault = fault;
  result.reason = std::move(reason);
  result.file.text.clear();
  return result;
}

ReadResult read_descriptor(int fd, ReadResult result, uint64_t limit) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return rejected(std::move(result), ReadError::CannotRead, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) return rejected(std::move(result), ReadError::CannotRead, "is a directory");
  result.owner = status.st_uid;
  const bool device = S_ISBLK(status.st_mode) || (S_ISCHR(status.st_mode) && !isatty(fd));
  // The writer of a pipe or terminal can take any time.
  const bool is_waiting = !S_ISREG(status.st_mode);
  if (device) return rejected(std::move(result), ReadError::CannotRead, "is a device");
  if (S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) > limit) {
    return rejected(std::move(result), ReadError::TooLarge, "");
  }
  std::string& text = result.file.text;
  size_t filled = 0, expected = S_ISREG(status.st_mode) ? static_cast<size_t>(status.st_size) + 1 : size_t{64} * 1024;
  for (;;) {
    if (filled == text.size()) text.resize(std::max(expected, filled * 2));
    const auto next = [&] { return read(fd, text.data() + filled, std::min(text.size() - filled, kBytesACall)); };
    const ssize_t got = is_waiting ? next() : make_registered_call("a read", result.file.name, filled, next);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return rejected(std::move(result), ReadError::CannotRead, std::strerror(errno));
    if (got == 0) break;
    filled += static_cast<size_t>(got);
    if (filled > limit) return rejected(std::move(result), ReadError::TooLarge, "");
  }
  text.resize(filled);
  return result;
}

}  // namespace

ReadResult read_file(const std::string& path, uint64_t limit) {
  ReadResult result;
  result.file.name = path == "-" ? "<stdin>" : path;
  if (path == "-") return read_descriptor(STDIN_FILENO, std::move(result), limit);
  const int fd = open_noted(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return rejected(std::move(result), ReadError::CannotRead, std::strerror(errno));
  result = read_descriptor(fd, std::move(result), limit);
  close(fd);
  return result;
}

ReadResult read_untrusted_file(const std::string& path, uint64_t limit) {
  ReadResult result;
  result.file.name = path;
  const int fd = open_noted(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    const std::string reason = errno == ELOOP ? "is a symbolic link" : std::strerror(errno);
    return rejected(std::move(result), ReadError::CannotRead, reason);
  }
  struct stat status {};
  if (fstat(fd, &status) != 0)
    result = rejected(std::move(result), ReadError::CannotRead, std::strerror(errno));
  else if (S_ISREG(status.st_mode))
    result = read_descriptor(fd, std::move(result), limit);
  else
    result = rejected(std::move(result), ReadError::CannotRead, "is not a regular file");
  close(fd);
  return result;
}

ReadResult read_file_within(const std::string& folder, const std::string& path, uint64_t limit) {
  ReadResult result;
  result.file.name = path;
  std::error_code failed;
  const std::filesystem::path home = std::filesystem::canonical(folder, failed);
  const std::filesystem::path file = failed ? std::filesystem::path() : std::filesystem::canonical(path, failed);
  if (failed == std::errc::not_enough_memory) throw std::bad_alloc();
  const bool is_nameless = failed == std::errc::no_such_file_or_directory && stat_path(path).exists;
  // A pipe or socket that /dev/stdin links to has no path.
  if (is_nameless) return rejected(std::move(result), ReadError::CannotRead, "is not a regular file");
  if (failed) return rejected(std::move(result), ReadError::CannotRead, failed.message());
  if (!is_within(file, home)) return rejected(std::move(result), ReadError::CannotRead, std::string(kLeadsOut));
  result = read_untrusted_file(file.string(), limit);
  result.file.name = path;
  return result;
}

}  // namespace tpplan
