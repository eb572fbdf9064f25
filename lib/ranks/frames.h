// Messages between the processes of a job: a length, a type, and strings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

enum class FrameType : uint8_t { Hello = 1, Welcome, Reject, State, Late, Fault, Text, Agreed, End, Ends };

struct Frame {
  FrameType type{};
  std::vector<uint64_t> numbers;
  std::vector<std::string> texts;
};

inline constexpr uint64_t kMaxFrameBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMaxHelloBytes = uint64_t{1} << 16;  // before the other side is known

// Length (8 bytes), a check of the rest (8), type, counts, numbers and strings; little endian, which is what all
// machines with GPUs are.
[[nodiscard]] std::string encode(const Frame& frame);

enum class DecodeState { Frame, NeedMore, Malformed };

// Takes the first frame off `bytes`. Malformed: no frame of at most `limit` bytes begins there, or a damaged one.
[[nodiscard]] DecodeState decode(std::string& bytes, uint64_t limit, Frame& frame);

// Sends all of it within `seconds`; false when the other side is gone or does not take it.
bool send_frame(int socket, const Frame& frame, double seconds);

// Appends what has arrived to `bytes`; false at the end of the connection.
[[nodiscard]] bool receive_available(int socket, std::string& bytes);

}  // namespace tpplan
