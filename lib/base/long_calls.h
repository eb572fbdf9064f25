// Calls to the system that may never come back: a read from a file server that is gone, a GPU that has stopped. No
// thread can be taken out of one. So each is noted before it begins, and a thread of its own looks how old they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tpplan {

// For whom a thread works: said of the calls that it makes.
struct CallPlace {
  int rank = -1;     // -1: none in particular
  std::string step;  // "step 5 (load x)"; may be empty
};

void set_call_place(CallPlace place);  // of the calling thread
[[nodiscard]] CallPlace call_place();

inline constexpr uint64_t kNoOffset = UINT64_MAX;

// What one call reads or writes at most: it is to come back in time from a slow disk, too. Within 60 seconds at 1 MB/s.
inline constexpr uint64_t kBytesACall = uint64_t{64} << 20;

// A call that is under way.
struct LongCall {
  CallPlace place;
  std::string what;  // "a read", "fsync", "a page fault"
  std::string file;  // its path; or the device, "GPU 0"
  uint64_t offset = kNoOffset;
  double seconds = 0;  // since it began
};

// The calling thread is at work from here to there: it calculates, or is in a call that it has noted. Where it is
// neither, for as long as a call may take, it waits for a page of memory or in a call that nobody noted, and is told as
// one that is stuck. Its file and byte are then those of the program or library that it stands in.
void begin_work();
void end_work();

// From now on `tell` is called, once, on a thread of its own, when a call of this process is under way for `seconds`.
void watch_calls(double seconds, void (*tell)(const LongCall& call));

// The calling thread begins a call, and has come back from it. What the views name lives until then; one call a thread.
void begin_call(std::string_view what, std::string_view file, uint64_t offset = kNoOffset);
void end_call();

// The call's result, errno included.
template <typename Call>
[[nodiscard]] auto noted_call(std::string_view what, std::string_view file, uint64_t offset, Call call) {
  begin_call(what, file, offset);
  const auto result = call();
  end_call();
  return result;
}

}  // namespace tpplan
