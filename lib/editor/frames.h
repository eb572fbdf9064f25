// Messages of the Language Server Protocol as they stand in a stream: headers, an empty line, and so many bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tpplan {

// A plan has 8 MiB at most, and each of its bytes may be six in JSON.
inline constexpr size_t kMaxMessageBytes = size_t{64} << 20;
inline constexpr size_t kMaxHeadersBytes = size_t{8} << 10;

// What has been read of a stream and not been taken. After a fault nobody knows where the next message begins.
struct FrameBuffer {
  std::string bytes;
  size_t at = 0;                  // what stands before has been taken
  std::optional<size_t> awaited;  // bytes of the body whose headers have been taken
  std::string fault;              // why nothing more can be taken; empty: nothing is wrong
};

void add_bytes(FrameBuffer& buffer, std::string_view bytes);

// Takes the body of the next message. False where more bytes are needed for it, or after a fault.
[[nodiscard]] bool take_frame(FrameBuffer& buffer, std::string& body);

// A body with its headers.
[[nodiscard]] std::string framed(std::string_view body);

}  // namespace tpplan
