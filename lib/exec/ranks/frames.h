// Messages between the processes of a job: a type, numbers and strings, with a length prefix.
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
inline constexpr uint64_t kMaxHelloBytes = uint64_t{1} << 16;  // limit before the sender is identified

// Returns the frame's bytes: length (8 bytes), checksum of the rest (8 bytes), type, counts, numbers and strings. The
// byte order is little endian, as on all machines with GPUs.
[[nodiscard]] std::string encode(const Frame& frame);

enum class DecodeState { Frame, NeedMore, Malformed };

// Removes the first frame from `bytes` and decodes it. Malformed if it is damaged or longer than `limit` bytes.
[[nodiscard]] DecodeState decode(std::string& bytes, uint64_t limit, Frame& frame);

// Sends the complete frame within `seconds`. Returns false if the peer is disconnected or does not read it in time.
bool send_frame(int socket, const Frame& frame, double seconds);

// Appends the bytes that have arrived to `bytes`. Returns false at the end of the connection.
[[nodiscard]] bool receive_available(int socket, std::string& bytes);

}  // namespace tpplan
