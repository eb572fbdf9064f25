// Removal of unfinished output when a signal ends the process: Ctrl-C, a launcher's SIGTERM, a closed terminal.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace tpplan {

// The suffix of a file or folder that is being removed.
inline constexpr std::string_view kRemovedSuffix = "-removed";

// Removes a temporary file or folder. It is renamed first, so that no other rank can give it the final name halfway.
void remove_temporary(const std::string& path);

// Guards `path` until the last copy of the result is destroyed: SIGINT, SIGTERM and SIGHUP remove it before they end
// the process. Signals that are ignored or have another handler are unaffected.
[[nodiscard]] std::shared_ptr<void> guard_temporary(const std::string& path);

// Creates and guards a new file by mkstemp. Returns its descriptor, or -1 with errno.
[[nodiscard]] int create_temporary_file(std::string& path, std::shared_ptr<void>& guard);

// Removes everything that is guarded, for callers that handle a signal or a lack of memory. Files are removed without
// allocating memory.
void remove_all_temporary();

}  // namespace tpplan
