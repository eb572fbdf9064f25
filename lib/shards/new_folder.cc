#include "shards/new_folder.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "base/text.h"
#include "base/unfinished.h"
#include "base/write_file.h"
#include "shards/work_together.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

std::runtime_error failure(const std::string& path, int error) {
  return std::runtime_error(fmt::format("{}: {}", escape_for_terminal(path), std::strerror(error)));
}

OutputFile open_output(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0) throw failure(path, errno);
  return {path, std::shared_ptr<int>(new int(fd), [](int* open_fd) {
            close(*open_fd);
            delete open_fd;
          })};
}

void sync_folder(const fs::path& folder) {
  const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw failure(folder.string(), errno);
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  if (error != 0 && error != EINVAL) throw failure(folder.string(), error);
}

// Path without a slash at its end, so that a name can be put behind it; a symbolic link stays, and what it names is
// replaced.
std::string bare(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::string end = link_end(path);
  if (end.empty()) throw failure(path, ELOOP);
  return end;
}

// A name beside `path` that nothing has yet; throws when `path` itself may not be written.
std::string name_beside(const std::string& path, bool is_folder) {
  std::error_code error;
  if (is_folder && fs::exists(path, error) && !(fs::is_directory(path, error) && fs::is_empty(path, error)))
    throw std::runtime_error(
        fmt::format("{}: is there already; name a folder that is not, or remove it first", escape_for_terminal(path)));
  if (!is_folder && fs::exists(path, error) && !fs::is_regular_file(path, error))
    throw std::runtime_error(fmt::format("{}: is no regular file", escape_for_terminal(path)));
  uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) throw failure(path, errno);
  return fmt::format("{}.tmp-{:08x}", path, number);
}

void make(const std::string& name, bool is_folder) {
  if (is_folder) {
    if (mkdir(name.c_str(), 0777) != 0) throw failure(name, errno);
  } else {
    create_file(name);
  }
}

// Rank 0's text on every rank; nothing after a failure of the job.
std::optional<std::string> text_of_first(Comm& comm, std::string_view step, std::string_view mine) {
  begin_step(comm, std::string(step));
  std::vector<std::string> all;
  if (!comm.backend->gather_texts(comm, comm.rank == 0 ? mine : "", all)) return std::nullopt;
  return std::move(all[0]);
}

std::string write_beside(Comm& comm, const std::string& wanted, bool is_folder, const FolderSteps& steps) {
  const std::string path = bare(wanted);
  std::string made, fault;
  if (comm.rank == 0) {
    try {
      made = name_beside(path, is_folder);
    } catch (const std::exception& error) {
      fault = error.what();
    }
  }
  // Every rank knows the name before there is anything under it, so that whoever is left can remove it.
  constexpr std::string_view kMade = "made ";  // before the name; a fault comes behind other words
  const std::optional<std::string> text =
      text_of_first(comm, fmt::format("save: making {}", path),
                    fault.empty() ? fmt::format("{}{}", kMade, made) : fmt::format("rank 0: {}", fault));
  if (text && !text->starts_with(kMade)) return *text;
  if (text) made = text->substr(kMade.size());
  const std::shared_ptr<void> guard = made.empty() ? nullptr : guard_unfinished(made);
  fault = text ? "" : comm.fault;
  const auto step = [&](const char* what, const std::function<void(const std::string&)>& function, bool by_all) {
    if (!fault.empty() || !function) return;
    fault = work_together(comm, fmt::format("save: {} {}", what, path), [&] {
      if (by_all || comm.rank == 0) function(made);
    });
  };
  step(
      "preparing",
      [&](const std::string& name) {
        make(name, is_folder);
        if (steps.prepare) steps.prepare(name);
      },
      false);
  step("writing", steps.write, true);
  step("finishing", steps.finish, false);
  step(
      "renaming",
      [&](const std::string& folder) {
        if (is_folder) sync_folder(folder);
        if (rename(folder.c_str(), path.c_str()) != 0) throw failure(path, errno);
        sync_folder(fs::path(path).parent_path());
      },
      false);
  // Every rank that is left takes it away; rank 0 may be giving it the final name at this moment, and what has that is
  // whole.
  if (!fault.empty() && !made.empty()) remove_unfinished(made);
  return fault;
}

}  // namespace

OutputFile create_file(const std::string& path) { return open_output(path, O_CREAT | O_EXCL); }
OutputFile open_for_writing(const std::string& path) { return open_output(path, 0); }

void write_at(const OutputFile& file, const void* bytes, uint64_t count, uint64_t offset) {
  for (uint64_t done = 0; done < count;) {
    const ssize_t put = pwrite(*file.fd, static_cast<const char*>(bytes) + done,
                               std::min<uint64_t>(count - done, 1u << 30), static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw failure(file.path, put == 0 ? ENOSPC : errno);
    done += static_cast<uint64_t>(put);
  }
}

void sync_file(const OutputFile& file) {
  if (fsync(*file.fd) != 0) throw failure(file.path, errno);
}

std::string write_folder(Comm& comm, const std::string& path, const FolderSteps& steps) {
  return write_beside(comm, path, true, steps);
}
std::string write_file_together(Comm& comm, const std::string& path, const FolderSteps& steps) {
  return write_beside(comm, path, false, steps);
}

}  // namespace tpplan
