#include "exec/ranks/frames.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/fnv1a.h"
#include "exec/ranks/deadline.h"

namespace tpplan {
namespace {

constexpr size_t kLength = 8, kCheck = 8;

void append_number(std::string& out, uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Removes a number from the front of `text`. Returns false if the text is too short.
bool take_number(std::string_view& text, uint64_t& value) {
  if (text.size() < sizeof value) return false;
  std::memcpy(&value, text.data(), sizeof value);
  text.remove_prefix(sizeof value);
  return true;
}

// Decodes the body of a frame. Counts are compared with the available bytes before memory is allocated, so a damaged
// frame cannot exhaust memory.
bool parse_body(std::string_view body, Frame& frame) {
  uint64_t type = 0, numbers = 0, texts = 0;
  if (!take_number(body, type) || !take_number(body, numbers) || !take_number(body, texts)) return false;
  if (type < static_cast<uint64_t>(FrameType::Hello) || type > static_cast<uint64_t>(FrameType::Ends)) return false;
  if (numbers > body.size() / 8 || texts > body.size() / 8) return false;
  frame = {.type = static_cast<FrameType>(type)};
  frame.numbers.resize(numbers);
  for (uint64_t& number : frame.numbers) take_number(body, number);
  for (uint64_t i = 0; i < texts; ++i) {
    uint64_t size = 0;
    if (!take_number(body, size) || size > body.size()) return false;
    frame.texts.emplace_back(body.substr(0, size));
    body.remove_prefix(size);
  }
  return body.empty();
}

}  // namespace

std::string encode(const Frame& frame) {
  std::string body;
  append_number(body, static_cast<uint64_t>(frame.type));
  append_number(body, frame.numbers.size());
  append_number(body, frame.texts.size());
  for (const uint64_t number : frame.numbers) append_number(body, number);
  for (const std::string& text : frame.texts) {
    append_number(body, text.size());
    body += text;
  }
  std::string out;
  append_number(out, kCheck + body.size());
  append_number(out, fnv1a(body));
  return out + body;
}

DecodeState decode(std::string& bytes, uint64_t limit, Frame& frame) {
  std::string_view rest = bytes;
  uint64_t size = 0;
  if (!take_number(rest, size)) return DecodeState::NeedMore;
  if (size > limit) return DecodeState::Malformed;
  if (rest.size() < size) return DecodeState::NeedMore;
  std::string_view body = rest.substr(0, size);
  uint64_t check = 0;
  if (!take_number(body, check) || check != fnv1a(body) || !parse_body(body, frame)) return DecodeState::Malformed;
  bytes.erase(0, kLength + size);
  return DecodeState::Frame;
}

bool send_frame(int socket, const Frame& frame, double seconds) {
  const std::string bytes = encode(frame);
  const Clock::time_point end = after(seconds);
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      sent += static_cast<size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    pollfd item{.fd = socket, .events = POLLOUT, .revents = 0};
    if (poll(&item, 1, static_cast<int>(left > 1000 ? 1000 : left)) < 0 && errno != EINTR) return false;
  }
  return true;
}

bool receive_available(int socket, std::string& bytes) {
  std::array<char, 65536> buffer;
  for (int pieces = 0; pieces < 64; ++pieces) {  // a limit, so that one busy peer cannot starve the others
    const ssize_t n = recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n > 0) {
      bytes.append(buffer.data(), static_cast<size_t>(n));
      if (static_cast<size_t>(n) < buffer.size()) return true;
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
  return true;
}

}  // namespace tpplan
