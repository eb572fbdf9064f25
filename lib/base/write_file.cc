#include "base/write_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "base/path_status.h"
#include "base/read_file.h"
#include "base/temporary_files.h"

namespace tpplan {
namespace {

constexpr size_t kBufferSize = size_t{256} << 10;
constexpr size_t kLargeChunk = size_t{32} << 10;

// Buffers small chunks and writes large ones directly. Stores the first error.
struct Writer {
  int fd = -1;
  std::string buffer;
  int error = 0;
};

bool write_all(Writer& writer, std::string_view rest) {
  while (!rest.empty() && writer.error == 0) {
    const ssize_t put = write(writer.fd, rest.data(), rest.size());
    if (put >= 0) {
      rest.remove_prefix(static_cast<size_t>(put));
    } else if (errno != EINTR) {
      writer.error = errno;
    }
  }
  return writer.error == 0;
}

bool flush(Writer& writer) {
  write_all(writer, writer.buffer);
  writer.buffer.clear();
  return writer.error == 0;
}

std::string write_to(int fd, const Producer& produce) {
  Writer writer{.fd = fd};
  const Sink sink = [&writer](std::string_view piece) {
    if (writer.buffer.empty() && piece.size() >= kLargeChunk) return write_all(writer, piece);
    writer.buffer.append(piece);
    return writer.buffer.size() < kBufferSize || flush(writer);
  };
  const bool produced = produce(sink) && flush(writer);
  if (writer.error != 0) return std::strerror(writer.error);
  return produced ? "" : "the content could not be produced";
}

mode_t umask_permissions() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

// True if the file holds this text and no other.
bool holds(const std::string& path, std::string_view text) {
  const ReadResult now = read_untrusted_file(path, text.size());
  return now.fault == ReadError::None && now.file.text == text;
}

// Replaces the file `target`; with `before`, only if it still has this text.
std::string replace_file(const std::string& target, mode_t permissions, const Producer& produce,
                         const std::optional<std::string_view>& before) {
  const size_t slash = target.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : target.substr(0, slash);
  std::string temporary = directory + "/.tpplan-XXXXXX";
  std::shared_ptr<void> guard;  // removes the file if a signal ends the process
  const int fd = create_temporary_file(temporary, guard);
  if (fd < 0) return std::strerror(errno);
  std::string fault;
  try {
    fault = write_to(fd, produce);
  } catch (...) {  // out of memory: leave nothing behind
    close(fd);
    unlink(temporary.c_str());
    throw;
  }
  if (fault.empty() && (fchmod(fd, permissions) != 0 || fsync(fd) != 0)) fault = std::strerror(errno);
  if (close(fd) != 0 && fault.empty()) fault = std::strerror(errno);
  if (fault.empty() && before && !holds(target, *before)) fault = kChangedSinceRead;
  if (fault.empty() && rename(temporary.c_str(), target.c_str()) != 0) fault = std::strerror(errno);
  if (!fault.empty()) {
    unlink(temporary.c_str());
    return fault;
  }
  return "";
}

}  // namespace

std::string resolve_links(const std::string& path) {
  constexpr int kMaxLinks = 40;  // the limit of Linux
  std::filesystem::path end = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code failed;
    const std::filesystem::path next = std::filesystem::read_symlink(end, failed);
    if (failed.value() == EINVAL || is_absence_error(failed.value())) return end;  // no link
    if (failed) {
      errno = failed.value();
      return "";
    }
    end = next.is_absolute() ? next : end.parent_path() / next;
  }
  errno = ELOOP;
  return "";
}

namespace {

PathStatus input_status(const std::string& input) {
  if (input != "-") return stat_path(input);
  PathStatus found;
  found.exists = fstat(STDIN_FILENO, &found.status) == 0;
  return found;
}

}  // namespace

bool is_same_file(const std::string& path, const std::vector<std::string>& inputs, int& error) {
  const PathStatus output = stat_path(path);
  error = output.error;
  if (!output.exists) return false;
  for (const std::string& input : inputs) {
    const PathStatus other = input_status(input);
    if (other.error != 0) error = other.error;
    if (is_regular_file(other) && other.status.st_dev == output.status.st_dev &&
        other.status.st_ino == output.status.st_ino)
      return true;
  }
  return false;
}

std::string write_output(const std::string& path, const Producer& produce) {
  if (path == "-") return write_to(STDOUT_FILENO, produce);
  struct stat status {};
  const bool exists = stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) return std::strerror(errno);
  if (exists && S_ISDIR(status.st_mode)) return "is a directory";
  if (!exists || S_ISREG(status.st_mode)) {
    const std::string target = resolve_links(path);
    return target.empty() ? std::strerror(errno) : replace_file(target, umask_permissions(), produce, std::nullopt);
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return std::strerror(errno);
  std::string fault = write_to(fd, produce);
  if (close(fd) != 0 && fault.empty()) fault = std::strerror(errno);
  return fault;
}

std::string rewrite_file(const std::string& path, std::string_view before, const Producer& produce) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::strerror(errno);
  if (!S_ISREG(status.st_mode)) return "is not a regular file";
  if (access(path.c_str(), W_OK) != 0) return std::strerror(errno);
  const std::string target = resolve_links(path);
  return target.empty() ? std::strerror(errno) : replace_file(target, status.st_mode & 07777, produce, before);
}

}  // namespace tpplan
