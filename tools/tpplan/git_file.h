// Reads files at a commit of their git repository, with the `git` on the PATH.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tpplan {

enum class GitError { None, NotRequested, NoGit, NoRepository, NoCommit, NotThere, TooLarge };

struct GitFile {
  std::string text;
  GitError fault = GitError::None;
  std::string reason;  // the first line of git's error, or why git could not be started; may be empty
};

// True if `ref` can be passed to git: it is not empty and not an option.
[[nodiscard]] bool is_git_ref(std::string_view ref);

// Reads `path` at the commit `ref`, at most `limit` bytes. The file may no longer exist. Symbolic links are resolved in
// the working tree. git is started without a shell.
[[nodiscard]] GitFile read_git_file(const std::string& path, const std::string& ref, uint64_t limit);

// The message and the help for a failed read.
struct GitWords {
  std::string message, help;
};
[[nodiscard]] GitWords describe(const GitFile& file, const std::string& path, const std::string& ref, uint64_t limit);

}  // namespace tpplan
