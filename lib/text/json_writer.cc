#include "text/json_writer.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <charconv>

#include "base/text.h"

namespace tpplan {
namespace {

constexpr size_t kChunkBytes = size_t{64} * 1024;

void begin_line(JsonWriter& json) {
  if (json.indent < 0) return;
  json.out += '\n';
  json.out.append(static_cast<size_t>(json.indent), ' ');
  json.indent = -1;
}

// Writes the separator before the next item.
void begin_item(JsonWriter& json) {
  if (json.has_key) {
    json.has_key = false;
    return;
  }
  if (json.has_item) json.out += json.is_tight || json.indent >= 0 ? "," : ", ";
  begin_line(json);
}

void begin_bracket(JsonWriter& json, char bracket) {
  begin_item(json);
  json.out += bracket;
  json.has_item = false;
}

void end_bracket(JsonWriter& json, char bracket) {
  begin_line(json);
  json.out += bracket;
  json.has_item = true;
  if (json.out.size() >= kChunkBytes) flush_json(json);
}

void write_item(JsonWriter& json, std::string_view text) {
  begin_item(json);
  json.out += text;
  json.has_item = true;
}

template <typename Number>
void write_digits(JsonWriter& json, Number number) {
  char digits[24];
  write_item(json, {digits, std::to_chars(digits, digits + sizeof digits, number).ptr});
}

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// The escape of a character in the text, empty if none is needed, and the character's number of bytes.
struct Escape {
  std::string text;
  size_t bytes = 1;
};

Escape escape_of(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text[0]);
  constexpr std::string_view letters = "\"\"\\\\\nn\tt\rr";
  for (size_t i = 0; i < letters.size(); i += 2) {
    if (letters[i] == text[0]) return {.text = {'\\', letters[i + 1]}};
  }
  if (byte == '#' && !text.starts_with("##[")) return {};  // "##[" is a command in the log of a CI job
  if (byte < 0x80) return {.text = fmt::format("\\u{:04x}", byte)};
  const size_t length = utf8_length(text.substr(0, 4));
  if (length == 0) return {.text = std::string(kReplacement)};
  const auto point = static_cast<uint32_t>(code_point(text.substr(0, length)));
  if (!is_invisible(point)) return {.text = {}, .bytes = length};
  if (point < 0x10000) return {.text = fmt::format("\\u{:04x}", point), .bytes = length};
  const uint32_t low = point - 0x10000;  // as a surrogate pair
  return {.text = fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (low >> 10), 0xdc00 + (low & 0x3ff)), .bytes = length};
}

// Flags of bytes that never need an escape, for a fast path: nearly all names consist of these.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (size_t byte = 0x20; byte < 0x7f; ++byte) plain[byte] = byte != '"' && byte != '\\' && byte != '#';
  return plain;
}();

}  // namespace

void begin_object(JsonWriter& json) { begin_bracket(json, '{'); }
void end_object(JsonWriter& json) { end_bracket(json, '}'); }
void begin_array(JsonWriter& json) { begin_bracket(json, '['); }
void end_array(JsonWriter& json) { end_bracket(json, ']'); }

void write_key(JsonWriter& json, std::string_view key) {
  begin_item(json);
  append_json_string(json.out, key);
  json.out += json.is_tight ? ":" : ": ";
  json.has_key = true;
}

void write_value(JsonWriter& json, std::string_view text) {
  begin_item(json);
  append_json_string(json.out, text);
  json.has_item = true;
}

void write_value(JsonWriter& json, bool value) { write_item(json, value ? "true" : "false"); }
void write_value(JsonWriter& json, int64_t number) { write_digits(json, number); }
void write_value(JsonWriter& json, uint64_t number) { write_digits(json, number); }
void write_value(JsonWriter& json, std::nullptr_t) { write_item(json, "null"); }
void write_json(JsonWriter& json, std::string_view text) { write_item(json, text); }
void write_number(JsonWriter& json, double number, int digits) {
  write_item(json, fmt::format("{:.{}f}", number, digits));
}

void write_exact(JsonWriter& json, double number) { write_json(json, fmt::format("{}", number)); }

void flush_json(JsonWriter& json) {
  if (json.sink == nullptr) return;
  if (!json.is_lost) json.is_lost = !(*json.sink)(json.out);
  json.out.clear();
}

bool finish_json(JsonWriter& json) {
  json.out += '\n';
  flush_json(json);
  return !json.is_lost;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    if (kPlain[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const Escape escape = escape_of(text.substr(at));
    if (!escape.text.empty()) {
      out.append(text, done, at - done);
      out += escape.text;
      done = at + escape.bytes;
    }
    at += escape.bytes;
  }
  out.append(text, done, text.size() - done);
  out += '"';
}

std::string json_text(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace tpplan
