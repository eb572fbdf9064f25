// Writes JSON with commas, quotes and escapes, into memory or in chunks to a sink.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/write_file.h"

namespace tpplan {

// State of a JSON writer. It writes everything on one line, `{"a": [1, 2]}`, unless `next_line` is called. @pre calls
// nest correctly; the writer does not check that brackets match.
struct JsonWriter {
  std::string out;             // text not yet sent to the sink; without a sink, all text
  const Sink* sink = nullptr;  // receives `out` in chunks
  bool is_tight = false;       // no blanks after commas and colons
  bool is_lost = false;        // the sink failed; later text is dropped
  bool has_item = false;       // the innermost bracket is not empty
  bool has_key = false;        // a key waits for its value
  int indent = -1;             // indent of the next line; -1 if the next item is on the current line
};

void begin_object(JsonWriter& json);
void end_object(JsonWriter& json);
void begin_array(JsonWriter& json);
void end_array(JsonWriter& json);

// Puts the next item or closing bracket on a new line with `indent` blanks.
inline void next_line(JsonWriter& json, int indent) { json.indent = indent; }

void write_key(JsonWriter& json, std::string_view key);

// Writes an element of an array, or the value of the preceding key. Text may be any bytes (see append_json_string).
void write_value(JsonWriter& json, std::string_view text);
void write_value(JsonWriter& json, bool value);
void write_value(JsonWriter& json, int64_t number);
void write_value(JsonWriter& json, uint64_t number);
void write_value(JsonWriter& json, std::nullptr_t null);
// Writes a finite number with `digits` digits after the decimal point.
void write_number(JsonWriter& json, double number, int digits);

// Writes the shortest number that reads back as the same double.
void write_exact(JsonWriter& json, double number);
inline void write_exact_field(JsonWriter& json, std::string_view key, double number) {
  write_key(json, key);
  write_exact(json, number);
}

// Writes text that is JSON already: a value, or in an object one or more fields with commas between them.
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

// Writes an array. `write` writes one value for each item.
template <typename Range, typename Write>
void write_array(JsonWriter& json, const Range& items, Write write) {
  begin_array(json);
  for (const auto& item : items) write(item);
  end_array(json);
}

// Writes an array of texts or numbers.
template <typename Range>
void write_array(JsonWriter& json, const Range& items) {
  write_array(json, items, [&json](const auto& item) { write_value(json, item); });
}

template <typename Value>
void write_field(JsonWriter& json, std::string_view key, const Value& value) {
  write_key(json, key);
  write_value(json, value);
}

// Sends the text so far to the sink.
void flush_json(JsonWriter& json);

// Sends the rest of the text and a line break. Returns false if the sink has failed.
[[nodiscard]] bool finish_json(JsonWriter& json);

// Returns the JSON that `write` writes, as text.
template <typename Write>
[[nodiscard]] std::string json_of(Write write) {
  JsonWriter json;
  write(json);
  return std::move(json.out);
}

// Appends `text` as a JSON string with quotes. Escapes control characters, DEL and the line separators U+0085, U+2028
// and U+2029, so that JavaScript, Python and YAML read the same text. Invalid UTF-8 bytes become U+FFFD.
void append_json_string(std::string& out, std::string_view text);
[[nodiscard]] std::string json_text(std::string_view text);

}  // namespace tpplan
