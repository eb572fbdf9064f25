// The framing of the Language Server Protocol: headers, an empty line, and a body of Content-Length bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tpplan {

// A plan has at most 8 MiB, and JSON escapes can need six bytes for each byte.
inline constexpr size_t kMaxMessageBytes = size_t{64} << 20;
inline constexpr size_t kMaxHeadersBytes = size_t{8} << 10;

// The bytes of a stream that are not consumed yet. After an error the start of the next message is unknown.
struct FrameBuffer {
  std::string bytes;
  size_t at = 0;                  // offset of the first unconsumed byte
  std::optional<size_t> awaited;  // length of the body whose headers were consumed
  std::string fault;              // the error that makes the stream unusable; empty without error
};

void add_bytes(FrameBuffer& buffer, std::string_view bytes);

// Moves the body of the next message to `body`. Returns false if the message is incomplete, or after an error.
[[nodiscard]] bool take_frame(FrameBuffer& buffer, std::string& body);

// Returns a body with its headers.
[[nodiscard]] std::string add_frame_header(std::string_view body);

}  // namespace tpplan
