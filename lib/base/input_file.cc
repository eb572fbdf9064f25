#include "base/input_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file_limit.h"
#include "base/long_calls.h"
#include "base/shared_fd.h"

namespace tpplan {

std::string open_input(const std::string& path, InputFile& file) {
  const int fd = make_registered_call("open", path, kNoOffset,
                                      [&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (fd < 0) return errno_text(errno);
  file.fd = share_fd(fd);
  if (fstat(fd, &file.identity) != 0) return std::strerror(errno);
  if (S_ISDIR(file.identity.st_mode)) return "is a directory";
  return S_ISREG(file.identity.st_mode) ? "" : "is not a regular file";
}

ReadResult read_part(const InputFile& file, uint64_t offset, uint64_t length) {
  ReadResult result;
  result.file.name = file.name;
  std::string& text = result.file.text;
  text.resize(offset < size_of(file) ? std::min(length, size_of(file) - offset) : 0);
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = make_registered_call("a read", file.name, offset + filled, [&] {
      return pread(*file.fd, text.data() + filled, text.size() - filled, static_cast<off_t>(offset + filled));
    });
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      result.fault = ReadError::CannotRead;
      result.reason = std::strerror(errno);
    }
    if (got <= 0) break;
    filled += static_cast<size_t>(got);
  }
  text.resize(filled);
  return result;
}

bool is_unchanged(const InputFile& file) {
  struct stat now {};
  const int asked = make_registered_call("fstat", file.name, kNoOffset, [&] { return fstat(*file.fd, &now); });
  return asked == 0 && now.st_size == file.identity.st_size && now.st_mtim.tv_sec == file.identity.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == file.identity.st_mtim.tv_nsec;
}

}  // namespace tpplan
