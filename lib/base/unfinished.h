// What is being written and must not stay when a signal ends the process: Ctrl-C, a launcher's SIGTERM, a lost
// terminal.
#pragma once

#include <memory>
#include <string>

namespace tpplan {

// Takes away a file or folder that bears a temporary name: first its name, so that nobody who is about to give it the
// final one does so halfway, then what it holds.
void remove_unfinished(const std::string& path);

// From now until the last copy of the result is gone, SIGINT, SIGTERM and SIGHUP take `path` away before they end the
// process as ever. Signals that are ignored, or that somebody else handles, stay so.
[[nodiscard]] std::shared_ptr<void> guard_unfinished(const std::string& path);

// A new file whose name ends as mkstemp asks, open and guarded from its first moment on: -1 with errno where there is
// none.
[[nodiscard]] int make_unfinished(std::string& path, std::shared_ptr<void>& guard);

// Takes away all that is guarded, files without asking for memory: for those who handle a signal, or the want of
// memory, themselves.
void remove_all_unfinished();

}  // namespace tpplan
