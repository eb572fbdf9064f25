// System calls that may never return: a read from a dead file server, a call to a GPU that hangs. Such a call cannot be
// cancelled. So threads register each call before it begins, and a watcher thread checks their ages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tpplan {

// The rank and step that a thread works for, for reports of its calls.
struct CallPlace {
  int rank = -1;     // -1: no specific rank
  std::string step;  // "step 5 (load x)"; may be empty
};

void set_call_place(CallPlace place);  // of the calling thread
[[nodiscard]] CallPlace call_place();

inline constexpr uint64_t kNoOffset = UINT64_MAX;

// The maximum bytes of one read or write, so that a slow disk is not mistaken for a hang: 60 seconds at 1 MB/s.
inline constexpr uint64_t kBytesACall = uint64_t{64} << 20;

// A call in progress.
struct LongCall {
  CallPlace place;
  std::string what;  // "a read", "fsync", "a page fault"
  std::string file;  // its path; or the device, "GPU 0"
  uint64_t offset = kNoOffset;
  double seconds = 0;  // since it began
};

// Between begin_work and end_work the calling thread computes or is in a registered call. If it does neither for longer
// than the limit, it waits for a page of memory or in an unregistered call, and is reported as stuck, with the file and
// offset of the program or library code that it executes.
void begin_work();
void end_work();

// Starts a watcher thread that calls `report_call` once, when a call of this process has taken `seconds`.
void watch_calls(double seconds, void (*report_call)(const LongCall& call));

// Register the begin and the end of a call of the calling thread, one at a time. The views must be valid until the end.
void begin_call(std::string_view what, std::string_view file, uint64_t offset = kNoOffset);
void end_call();

// Registers and makes a call. Returns its result and preserves errno.
template <typename Call>
[[nodiscard]] auto make_registered_call(std::string_view what, std::string_view file, uint64_t offset, Call call) {
  begin_call(what, file, offset);
  const auto result = call();
  end_call();
  return result;
}

}  // namespace tpplan
