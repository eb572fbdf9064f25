// Output that is there whole or not at all.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// Takes the next piece of the output; false when it could not be taken, after which nothing more should be sent.
using Sink = std::function<bool(std::string_view)>;

// Sends a whole output to a sink; false when it could not.
using Producer = std::function<bool(const Sink&)>;

// True when `path` names the same file as one of `inputs` (same device and inode; links are followed). Where the system
// does not say so much, `error` says why.
[[nodiscard]] bool is_same_file(const std::string& path, const std::vector<std::string>& inputs, int& error);

// Where a chain of symbolic links ends, whether something is there or not; empty, with errno, when it does not end or
// cannot be followed.
[[nodiscard]] std::string link_end(const std::string& path);

// Lets `produce` write the file at `path`. A regular file is written to a temporary file beside it (with the umask's
// permissions), synced and renamed, so that `path` holds the old content or the new, never a part. Anything else that
// exists (a pipe, a device) is written directly, and so is standard output for "-". A symbolic link is followed, and
// its target replaced. Returns the reason of a failure, empty on success; after a failure no temporary file is left.
[[nodiscard]] std::string write_output(const std::string& path, const Producer& produce);

// The same for a regular file that is there already and keeps its permissions. One that may not be written, or is no
// regular file, is refused.
[[nodiscard]] std::string rewrite_file(const std::string& path, const Producer& produce);

}  // namespace tpplan
