#include "editor/frames.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"

namespace tpplan {
namespace {

constexpr std::string_view kLineEnd = "\r\n", kHeadersEnd = "\r\n\r\n", kLength = "content-length";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

bool is_length(std::string_view name) {
  return std::ranges::equal(name, kLength, {},
                            [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
}

// Reads Content-Length into `awaited`, or sets `fault`.
void read_headers(FrameBuffer& buffer, std::string_view headers) {
  int64_t length = -1;
  while (!headers.empty()) {
    const size_t end = std::min(headers.find(kLineEnd), headers.size());
    const std::string_view line = headers.substr(0, end);
    headers.remove_prefix(std::min(end + kLineEnd.size(), headers.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_length(trimmed(line.substr(0, colon)))) continue;
    if (!parse_decimal(trimmed(line.substr(colon + 1)), length)) {
      buffer.fault = "Content-Length is not a number";
      return;
    }
  }
  if (length < 0)
    buffer.fault = "a message without Content-Length";
  else if (static_cast<uint64_t>(length) > kMaxMessageBytes)
    buffer.fault = fmt::format("a message of {} exceeds the limit of {}", human_bytes(static_cast<uint64_t>(length)),
                               human_bytes(kMaxMessageBytes));
  else
    buffer.awaited = static_cast<size_t>(length);
}

}  // namespace

void add_bytes(FrameBuffer& buffer, std::string_view bytes) {
  if (buffer.at > 0 && buffer.at >= buffer.bytes.size() / 2) {
    buffer.bytes.erase(0, buffer.at);
    buffer.at = 0;
  }
  buffer.bytes += bytes;
}

bool take_frame(FrameBuffer& buffer, std::string& body) {
  if (!buffer.fault.empty()) return false;
  if (!buffer.awaited) {
    const std::string_view rest = std::string_view(buffer.bytes).substr(buffer.at);
    const size_t end = rest.substr(0, kMaxHeadersBytes).find(kHeadersEnd);
    if (end == std::string_view::npos) {
      if (rest.size() >= kMaxHeadersBytes) buffer.fault = "the headers of a message do not end";
      return false;
    }
    read_headers(buffer, rest.substr(0, end));
    if (!buffer.awaited) return false;
    buffer.at += end + kHeadersEnd.size();
  }
  if (buffer.bytes.size() - buffer.at < *buffer.awaited) return false;
  body = buffer.bytes.substr(buffer.at, *buffer.awaited);
  buffer.at += *buffer.awaited;
  buffer.awaited.reset();
  return true;
}

std::string add_frame_header(std::string_view body) {
  return fmt::format("Content-Length: {}\r\n\r\n{}", body.size(), body);
}

}  // namespace tpplan
