#include "text/json_reader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "text/key_set.h"

namespace tpplan {
namespace {

// The read position, shared by the iterator and the SAX handler. nlohmann's SAX interface before 3.12 has no positions.
struct Position {
  const char* begin;
  const char* at;
  const char* limit;  // end of the input, or of the longest token that may start here
  const char* end;
};

// Input iterator over a Position. The end iterator is used only in comparisons.
struct PositionIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  Position* position;
  const char& operator*() const { return *position->at; }
  PositionIterator& operator++() {
    ++position->at;
    return *this;
  }
  bool operator!=(const PositionIterator&) const { return position->at != position->limit; }
  bool operator==(const PositionIterator&) const { return position->at == position->limit; }
};

// A visited object, and its field that is being read.
struct VisitedObject {
  const JsonVisitor* visitor;
  std::string_view key = {};
  JsonField mode = JsonField::Skip;
};

// Returns the useful part of nlohmann's "[json.exception...] parse error at line 1, column 2: syntax error while
// parsing value - unexpected ...; last read: '...'; expected ...". The diagnostic shows the position.
std::string error_words(std::string text) {
  if (const size_t bracket = text.find("] "); text.starts_with('[') && bracket != std::string::npos)
    text.erase(0, bracket + 2);
  if (const size_t colon = text.find(": "); text.starts_with("parse error") && colon != std::string::npos)
    text.erase(0, colon + 2);
  const size_t last_read = text.find("; last read: '");
  const size_t last_read_end = text.rfind('\'');
  if (last_read != std::string::npos && last_read_end > last_read) text.erase(last_read, last_read_end + 1 - last_read);
  if (text.size() > 200) text.resize(200);
  return text;
}

// SAX handler that builds trees for the visitors. nlohmann calls its functions by name.
struct TreeBuilder {
  const SourceFile& file;
  const JsonVisitor& document;
  std::deque<std::string>& strings;
  Diagnostics& diagnostics;
  const JsonLimits& limits;
  Position& position;

  const char* last_event;
  const char* last_word;  // end of the last text, number or literal
  bool failed = false;
  size_t depth = 0;
  std::vector<bool> in_object;
  std::vector<KeySet> key_sets;  // one per open object, reused
  size_t open_objects = 0;
  std::vector<VisitedObject> visited;  // the document and its visited descendants, innermost last
  bool collecting = false;
  size_t collect_depth = 0;  // depth at which the current tree is complete
  JsonTree tree;
  std::vector<uint32_t> open_nodes;
  std::string_view pending_key;
  uint64_t pending_key_offset = 0;

  uint64_t offset_of(const char* p) const { return static_cast<uint64_t>(p - position.begin); }

  // Returns the first byte of the current token.
  const char* token_start() const {
    const char* p = last_event;
    while (p < position.at && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t' || *p == ',' || *p == ':')) ++p;
    return p;
  }

  // Updates the limits after a token. `bare` is true for a bracket.
  void next_token(bool bare) {
    last_event = position.at;
    if (!bare) last_word = position.at;
    const auto left = static_cast<size_t>(position.end - position.at);
    const size_t bare_left =
        limits.bare_bytes - std::min(limits.bare_bytes, static_cast<size_t>(position.at - last_word));
    position.limit = position.at + std::min({left, limits.token_bytes, bare_left});
  }

  bool fail(Code code, uint64_t offset, uint32_t length, std::string message, std::string help = {}) {
    report_message(diagnostics, code, {file.id, offset, length}, std::move(message), std::move(help));
    failed = true;
    return false;
  }

  // Returns the string's text: a view into the file if it has no escapes, otherwise into `strings`.
  std::string_view keep(std::string& value, const char* start) {
    const auto raw = static_cast<size_t>(position.at - start) - 2;
    if (raw == value.size()) return {start + 1, raw};
    return strings.emplace_back(std::move(value));
  }

  JsonNode* push(JsonKind kind, const char* start) {
    const std::string_view key = std::exchange(pending_key, {});
    if (!collecting) return nullptr;
    if (tree.nodes.size() >= limits.tree_nodes) {
      fail(Code::NestingTooDeep, offset_of(start), 1,
           fmt::format("one entry of `{}` has more than {} values", visited.back().key, limits.tree_nodes));
      return nullptr;
    }
    JsonNode& node = tree.nodes.emplace_back();
    node.kind = kind;
    node.offset = offset_of(start);
    node.key = key;
    node.key_offset = pending_key_offset;
    node.end = static_cast<uint32_t>(tree.nodes.size());
    return &node;
  }

  // Passes the tree to the visitor if it is complete. Called after each value.
  bool close_value(bool bare = false) {
    if (failed) return false;
    next_token(bare);
    if (!collecting || depth != collect_depth) return true;
    tree.end = offset_of(position.at);
    const VisitedObject& object = visited.back();
    const bool wanted = object.visitor->value(object.key, tree);
    collecting = false;
    tree.nodes.clear();
    return wanted;
  }

  // True if the next value is a field of the innermost visited object. Visited objects are nested, so their number is
  // the depth of its fields; the elements of a field's array are one level deeper.
  bool is_at_field() const { return depth == visited.size(); }
  bool at_element() const {
    const JsonField mode = visited.back().mode;
    return (mode == JsonField::Elements || mode == JsonField::Fields) && depth == visited.size() + 1 &&
           !in_object.back();
  }

  // Decides whether to collect a tree. Called before each value except the document.
  void open_value(JsonKind kind) {
    if (is_at_field()) {
      const JsonField mode = visited.back().mode;
      collecting = mode == JsonField::Whole || (mode == JsonField::Elements && kind != JsonKind::Array) ||
                   (mode == JsonField::Fields && kind != JsonKind::Object && kind != JsonKind::Array);
      collect_depth = depth;
    } else if (at_element()) {
      collecting = true;
      collect_depth = depth;
    }
  }

  // Handles a scalar. Calls `fill` with its node and its first byte if a tree is being collected.
  template <typename Fill>
  bool scalar(JsonKind kind, Fill fill) {
    const char* start = token_start();
    if (depth == 0)
      return fail(Code::InvalidJson, offset_of(start), 1, "the document is not a JSON object",
                  "start the file with `{`");
    open_value(kind);
    if (JsonNode* node = push(kind, start)) fill(*node, start);
    return close_value();
  }

  bool null() {
    return scalar(JsonKind::Null, [](JsonNode&, const char*) {});
  }
  bool boolean(bool value) {
    return scalar(JsonKind::Bool, [&](JsonNode& node, const char*) { node.is_true = value; });
  }
  // nlohmann calls this for negative integers, and with 0 only for "-0", which an int64 cannot represent.
  bool number_integer(int64_t value) {
    return scalar(value == 0 ? JsonKind::Number : JsonKind::Integer, [&](JsonNode& node, const char*) {
      node.integer = value;
      if (value == 0) node.text = "-0";
    });
  }
  bool number_unsigned(uint64_t value) {
    const bool fits = value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return scalar(fits ? JsonKind::Integer : JsonKind::Number, [&](JsonNode& node, const char*) {
      node.integer = fits ? static_cast<int64_t>(value) : 0;
      if (!fits) node.text = strings.emplace_back(std::to_string(value));
    });
  }
  bool number_float(double, const std::string& text) {
    return scalar(JsonKind::Number, [&](JsonNode& node, const char* start) { node.text = {start, text.size()}; });
  }
  bool string(std::string& value) {
    return scalar(JsonKind::String, [&](JsonNode& node, const char* start) { node.text = keep(value, start); });
  }
  template <typename Binary>
  bool binary(Binary&) {
    return false;
  }

  bool enter(bool object) {
    const char* start = position.at - 1;
    if (depth == 0 && !object) {
      return fail(Code::InvalidJson, offset_of(start), 1, "the document is an array, not a JSON object",
                  "start the file with `{`");
    }
    if (depth >= limits.depth) {
      return fail(Code::NestingTooDeep, offset_of(start), 1,
                  fmt::format("values are nested deeper than {} levels", limits.depth));
    }
    const bool is_visited = depth == 0 || (object && is_at_field() && visited.back().mode == JsonField::Fields);
    const JsonKind kind = object ? JsonKind::Object : JsonKind::Array;
    if (depth > 0) open_value(kind);
    if (collecting) open_nodes.push_back(static_cast<uint32_t>(tree.nodes.size()));
    push(kind, start);
    if (failed) return false;
    in_object.push_back(object);
    ++depth;
    if (is_visited) visited.push_back({depth == 1 ? &document : visited.back().visitor->inner});
    if (object) {
      if (open_objects == key_sets.size()) key_sets.emplace_back();
      clear_keys(key_sets[open_objects++]);
    }
    next_token(true);
    return true;
  }
  bool leave(bool object) {
    --depth;
    in_object.pop_back();
    if (object) --open_objects;
    if (depth < visited.size()) visited.pop_back();
    if (!open_nodes.empty() && collecting) {
      tree.nodes[open_nodes.back()].end = static_cast<uint32_t>(tree.nodes.size());
      open_nodes.pop_back();
    }
    return close_value(true);
  }
  bool start_object(size_t) { return enter(true); }
  bool start_array(size_t) { return enter(false); }
  bool end_object() { return leave(true); }
  bool end_array() { return leave(false); }

  bool key(std::string& value) {
    const char* start = token_start();
    const auto length = static_cast<uint32_t>(position.at - start);
    // Compares keys of skipped values too, because a duplicate is always an error.
    const bool escaped = static_cast<size_t>(length) - 2 != value.size();
    const bool kept = collecting || is_at_field();  // the tree or the visitor keeps the name
    const std::string_view name = kept      ? keep(value, start)
                                  : escaped ? std::string_view(value)
                                            : std::string_view(start + 1, value.size());
    KeySet& set = key_sets[open_objects - 1];
    const uint64_t offset = offset_of(start);
    if (const uint32_t earlier = find_key(set, position.begin, name); earlier != kNotFound) {
      Diagnostic& d = report_message(diagnostics, Code::DuplicateKey, {file.id, offset, length},
                                     fmt::format("key `{}` appears twice in one object", name), "keep one of the two");
      d.notes.push_back({"first one", {file.id, set.keys[earlier].offset, length}});
      failed = true;
      return false;
    }
    if (set.keys.size() >= limits.keys_per_object) {
      return fail(Code::NestingTooDeep, offset, length,
                  fmt::format("an object has more than {} keys", limits.keys_per_object));
    }
    add_key(set, static_cast<uint32_t>(offset), name, escaped);
    pending_key = kept ? name : std::string_view{};
    pending_key_offset = offset;
    if (is_at_field()) {
      VisitedObject& object = visited.back();
      object.key = name;
      object.mode = object.visitor->member(name, {file.id, offset, length});
    }
    next_token(false);
    return true;
  }

  // True if a comma precedes the last bracket.
  bool follows_comma() const {
    if (offset_of(position.at) < 2 || (position.at[-1] != '}' && position.at[-1] != ']')) return false;
    const size_t before = file.text.find_last_not_of(" \t\r\n", offset_of(position.at) - 2);
    return before != std::string::npos && file.text[before] == ',';
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) {
    failed = true;
    const char* at = position.at;
    if (at == position.limit && position.limit != position.end) {
      return fail(Code::NestingTooDeep, offset_of(last_event), 1,
                  fmt::format("no text, number or bracket ends within {}",
                              human_bytes(static_cast<size_t>(position.limit - last_event))));
    }
    if (offset_of(position.end) == 0)
      return fail(Code::EmptyFile, 0, 0, "the file is empty", std::string(document.kind_help));
    const uint64_t offset = at > position.begin && at != position.end ? offset_of(at) - 1 : offset_of(at);
    return fail(Code::InvalidJson, offset, 1, error_words(error.what()),
                at == position.end ? "copy the file again: it ends before its last value"
                : offset < offset_of(position.end) && position.begin[offset] == '\''
                    ? "write it with json.dump, not with print: JSON has double quotes only"
                : follows_comma() ? "remove the comma before it"
                                  : "");
  }
};

}  // namespace

bool read_json(const SourceFile& file, const JsonVisitor& visitor, std::deque<std::string>& strings,
               Diagnostics& diagnostics, const JsonLimits& limits) {
  const char* begin = file.text.data();
  Position position{begin, begin, begin + file.text.size(), begin + file.text.size()};
  if (file.text.starts_with("\xef\xbb\xbf") || file.text.starts_with("\xff\xfe") || file.text.starts_with("\xfe\xff")) {
    report_message(diagnostics, Code::InvalidText, {file.id, 0, 1}, "the file starts with a byte order mark",
                   "save it as UTF-8 without BOM");
    return false;
  }
  TreeBuilder builder{.file = file,
                      .document = visitor,
                      .strings = strings,
                      .diagnostics = diagnostics,
                      .limits = limits,
                      .position = position,
                      .last_event = begin,
                      .last_word = begin};
  builder.tree.file = file.id;
  builder.next_token(false);
  // Not strict, because the code below checks the text after the document and knows its position.
  constexpr bool kStrict = false;
  const bool parsed = nlohmann::json::sax_parse(PositionIterator{&position}, PositionIterator{nullptr}, &builder,
                                                nlohmann::json::input_format_t::json, kStrict);
  if (!parsed || builder.failed) return false;
  const size_t behind = file.text.find_first_not_of(" \t\r\n", static_cast<size_t>(builder.last_event - begin));
  if (behind == std::string::npos) return true;
  return builder.fail(Code::InvalidJson, behind, 1, "text after the end of the document",
                      "remove it: a file holds one JSON object");
}

}  // namespace tpplan
