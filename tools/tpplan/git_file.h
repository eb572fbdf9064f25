// Files as they stand at a commit of the git repository that they are in, by the `git` on the PATH.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tpplan {

enum class GitFault { None, NotAsked, NoGit, NoRepository, NoCommit, NotThere, TooLarge };

struct GitFile {
  std::string text;
  GitFault fault = GitFault::None;
  std::string reason;  // what git said, one line, or why it could not be asked; may be empty
};

// Whether `ref` can be given to git: it is no option, and not empty.
[[nodiscard]] bool is_git_ref(std::string_view ref);

// The file `path`, which need not be there any more, of at most `limit` bytes, at the commit that `ref` names. Links
// are followed as they are now. No shell sees any of these words.
[[nodiscard]] GitFile read_git_file(const std::string& path, const std::string& ref, uint64_t limit);

// What went wrong, and what to do.
struct GitWords {
  std::string message, help;
};
[[nodiscard]] GitWords describe(const GitFile& file, const std::string& path, const std::string& ref, uint64_t limit);

}  // namespace tpplan
