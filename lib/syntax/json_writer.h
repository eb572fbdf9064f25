// JSON out: commas, quotes and escapes in one place, whole in memory or piece by piece to a sink.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/write_file.h"

namespace tpplan {

// `{"a": [1, 2]}` on one line, except where `next_line` says otherwise. What is written must nest: nothing here checks
// that a bracket is closed as it was opened.
struct JsonWriter {
  std::string out;             // what the sink has not taken yet; without a sink, everything
  const Sink* sink = nullptr;  // takes `out` whenever it has grown large
  bool is_tight = false;       // no blanks behind commas and colons
  bool is_lost = false;        // the sink refused: what follows is dropped
  bool has_item = false;       // the innermost bracket holds something
  bool has_key = false;        // a key waits for its value
  int indent = -1;             // of the line that comes next; -1: what comes next stands on this one
};

void begin_object(JsonWriter& json);
void end_object(JsonWriter& json);
void begin_array(JsonWriter& json);
void end_array(JsonWriter& json);

// The next item, or closing bracket, stands on a line of its own behind `indent` blanks.
inline void next_line(JsonWriter& json, int indent) { json.indent = indent; }

void write_key(JsonWriter& json, std::string_view key);

// An element of an array, or the value of the key before it. Text may be any bytes (see append_json_string).
void write_value(JsonWriter& json, std::string_view text);
void write_value(JsonWriter& json, bool value);
void write_value(JsonWriter& json, int64_t number);
void write_value(JsonWriter& json, uint64_t number);
void write_value(JsonWriter& json, std::nullptr_t null);
// A finite number with so many digits behind the point.
void write_number(JsonWriter& json, double number, int digits);
// What is JSON already: a value, or in an object members with commas between them.
void write_json(JsonWriter& json, std::string_view text);

inline void write_value(JsonWriter& json, const char* text) { write_value(json, std::string_view(text)); }
inline void write_value(JsonWriter& json, const std::string& text) { write_value(json, std::string_view(text)); }
template <std::integral T>
void write_value(JsonWriter& json, T number) {
  if constexpr (std::signed_integral<T>)
    write_value(json, static_cast<int64_t>(number));
  else
    write_value(json, static_cast<uint64_t>(number));
}

// An array with what `write` makes of each item, a value each.
template <typename Range, typename Write>
void write_array(JsonWriter& json, const Range& items, Write write) {
  begin_array(json);
  for (const auto& item : items) write(item);
  end_array(json);
}

// An array of texts or numbers.
template <typename Range>
void write_array(JsonWriter& json, const Range& items) {
  write_array(json, items, [&json](const auto& item) { write_value(json, item); });
}

template <typename Value>
void write_member(JsonWriter& json, std::string_view key, const Value& value) {
  write_key(json, key);
  write_value(json, value);
}

// Sends what is left, and a line break behind it. False when the sink has refused anything.
[[nodiscard]] bool finish(JsonWriter& json);

// What `write` makes of a writer, as text.
template <typename Write>
[[nodiscard]] std::string json_of(Write write) {
  JsonWriter json;
  write(json);
  return std::move(json.out);
}

// Appends `text` as a JSON string with its quotes. Control characters, DEL and what some readers take for the end of a
// line (U+0085, U+2028, U+2029) are written as escapes, so that JavaScript, Python and YAML read the same; a byte that
// is no UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);
[[nodiscard]] std::string json_text(std::string_view text);

}  // namespace tpplan
