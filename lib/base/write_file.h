// Output files that are written atomically.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// Receives the next chunk of the output. Returns false on failure; then no more chunks should follow.
using Sink = std::function<bool(std::string_view)>;

// Returns a sink that appends to the text.
[[nodiscard]] inline Sink append_to(std::string& text) {
  return [&text](std::string_view piece) {
    text += piece;
    return true;
  };
}

// Sends an output to a sink. Returns false if it could not.
using Producer = std::function<bool(const Sink&)>;

// True if `path` is the same file as one of `inputs` (same device and inode, links followed). If that is unknown,
// `error` has the errno.
[[nodiscard]] bool is_same_file(const std::string& path, const std::vector<std::string>& inputs, int& error);

// Returns the end of a chain of symbolic links, whether it exists or not; empty with errno for a loop or an unreadable
// link.
[[nodiscard]] std::string resolve_links(const std::string& path);

// Lets `produce` write the file at `path`. A regular file is written to a temporary file next to it (with the umask's
// permissions), synced and renamed, so that `path` has the old or the new content, never a part. A pipe, a device, and
// standard output for "-" are written directly. A symbolic link is followed and its target replaced. Returns the reason
// of a failure, empty on success. Leaves no temporary file.
[[nodiscard]] std::string write_output(const std::string& path, const Producer& produce);

// The reason that rewrite_file returns if the file was saved after `before` was read.
inline constexpr std::string_view kChangedSinceRead = "it has changed since it was read";

// Rewrites an existing regular file in the same way, with its permissions. Fails if it is not writable or not regular,
// or if it no longer has the text `before` that was read from it.
[[nodiscard]] std::string rewrite_file(const std::string& path, std::string_view before, const Producer& produce);

}  // namespace tpplan
