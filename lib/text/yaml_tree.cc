#include "text/yaml_tree.h"

#include <spdlog/fmt/fmt.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <functional>
#include <istream>
#include <optional>
#include <streambuf>

#include "base/string_index.h"
#include "base/text.h"
#include "text/check_text.h"
#include "text/yaml_errors.h"
#include "text/yaml_line_scan.h"

namespace tpplan {
namespace {

// Reports a YAML error as a diagnostic of its file.
void report_error(const SourceFile& file, YamlError error, Diagnostics& diagnostics);

// Exception that ends the parse after an error was reported. yaml-cpp's event interface has no other way to stop.
struct Stop {};

// Stream buffer over text without a copy, in chunks. `check` is called before each chunk to limit memory: yaml-cpp's
// scanner stores every token of an unfinished flow collection or simple key, in 100 bytes or more per input byte.
struct TextBuffer : std::streambuf {
  static constexpr std::ptrdiff_t kChunk = std::ptrdiff_t{16} << 10;
  char* end;
  std::function<void(std::string_view)> check;  // receives the next chunk; throws to stop
  TextBuffer(const std::string& text, std::function<void(std::string_view)> asked) : check(std::move(asked)) {
    char* begin = const_cast<char*>(text.data());
    end = begin + text.size();
    setg(begin, begin, begin);
  }
  int_type underflow() override {
    if (egptr() == end) return traits_type::eof();
    char* next = egptr() + std::min(kChunk, end - egptr());
    check({egptr(), next});
    setg(egptr(), egptr(), next);
    return traits_type::to_int_type(*gptr());
  }
};

// Event handler of yaml-cpp that builds the tree.
struct YamlBuilder : YAML::EventHandler {
  const SourceFile& file;
  YamlTree& tree;
  Diagnostics& diagnostics;
  const YamlLimits& limits;
  std::vector<YamlId> open;
  std::vector<YamlId> anchors;               // by yaml-cpp's anchor id, which starts at 1
  std::vector<size_t> expanded;              // by node: number of its values with aliases expanded
  size_t values = 0;                         // number of values in the open collections so far
  uint64_t reached = 0, reached_before = 0;  // position of the last event: now, and at the last chunk
  size_t pending = 0;                        // in sixteenths
  std::vector<size_t> line_starts;

  YamlBuilder(const SourceFile& f, YamlTree& t, Diagnostics& d, const YamlLimits& l)
      : file(f), tree(t), diagnostics(d), limits(l), line_starts{0} {
    for (size_t i = 0; i < f.text.size(); ++i) {
      if (f.text[i] == '\n') line_starts.push_back(i + 1);
    }
  }

  uint64_t offset_of(const YAML::Mark& mark) const {
    if (mark.line < 0 || static_cast<size_t>(mark.line) >= line_starts.size()) return file.text.size();
    return std::min(line_starts[static_cast<size_t>(mark.line)] + static_cast<size_t>(std::max(0, mark.column)),
                    file.text.size());
  }

  [[noreturn]] void stop(Code code, uint64_t offset, std::string message, std::string help = {}) {
    report_message(diagnostics, code, {file.id, offset, 1}, std::move(message), std::move(help));
    throw Stop{};
  }

  YamlId push(YamlKind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    const uint64_t offset = offset_of(mark);
    count_values(1, offset);
    reached = offset;
    const auto id = static_cast<YamlId>(tree.nodes.size());
    YamlNode& node = tree.nodes.emplace_back();
    node.kind = kind;
    node.offset = offset;
    node.length = 1;
    node.line = static_cast<uint32_t>(mark.line + 1);
    expanded.push_back(1);
    if (anchor >= anchors.size()) anchors.resize(std::max<size_t>(anchor + 1, anchors.size() * 2), kNoYaml);
    anchors[anchor] = id;
    attach(id);
    return id;
  }

  // Limits the number of values with aliases expanded. An alias shares its node, but a traversal visits it each time.
  void count_values(size_t more, uint64_t offset) {
    values += more;
    if (values > limits.nodes)
      stop(Code::NestingTooDeep, offset,
           fmt::format("the file has more than {} values, including those of aliases", limits.nodes));
  }

  // Limits the punctuation without parser events. Called with each chunk before it is scanned. Every token except the
  // last needs one of these characters.
  void check_pending(std::string_view piece) {
    if (reached != reached_before) pending = 0;
    reached_before = reached;
    for (const char c : piece) {  // a quote counts 1/16, because a plan as one-line JSON has many
      if (std::string_view("[]{},:?-&*!").find(c) != std::string_view::npos)
        pending += 16;
      else if (c == '"' || c == '\'')
        ++pending;
    }
    if (pending > 16 * limits.pending)
      stop(Code::NestingTooDeep, reached, "too much text before a value ends", pending_help());
  }

  std::string pending_help() const {
    const std::string_view head = std::string_view(file.text).substr(0, 4096);
    return head.starts_with('{') && head.find("tpplan.model/") != std::string_view::npos
               ? "give the model first: tpplan compile MODEL PLAN"
               : "close an open bracket, brace or quote";
  }

  void attach(YamlId id) {
    if (open.empty()) {
      tree.root = id;
      return;
    }
    const YamlNode& parent = tree.nodes[open.back()];
    // An omitted value gets the position of its key.
    const bool is_value = parent.kind == YamlKind::Map && parent.children.size() % 2 == 1;
    if (is_value && tree.nodes[id].kind == YamlKind::Null) {
      const YamlNode& key = tree.nodes[parent.children.back()];
      tree.nodes[id].offset = key.offset;
      tree.nodes[id].length = key.length;
    }
    tree.nodes[open.back()].children.push_back(id);
  }

  void enter(YamlKind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (open.size() >= limits.depth)
      stop(Code::NestingTooDeep, offset_of(mark), fmt::format("values are nested deeper than {} levels", limits.depth));
    const YamlId id = push(kind, mark, anchor);
    expanded[id] = values;  // until it is closed: the count before it, including itself
    tree.nodes[id].length = bracket_length(tree.nodes[id].offset);
    open.push_back(id);
  }

  void check_tag(const std::string& tag, const YAML::Mark& mark) {
    static constexpr std::string_view core = "tag:yaml.org,2002:";
    static constexpr std::string_view known[] = {"str", "int", "float", "bool", "null", "seq", "map"};
    if (tag.empty() || tag == "?" || tag == "!") return;
    const std::string_view rest = tag.starts_with(core) ? std::string_view(tag).substr(core.size()) : "";
    if (std::find(std::begin(known), std::end(known), rest) != std::end(known)) return;
    stop(Code::UnsupportedYaml, offset_of(mark), fmt::format("tag `{}` is not one of YAML's core tags", tag),
         "remove the tag: a plan is plain data");
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { push(YamlKind::Null, mark, anchor); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const YamlId named = anchor < anchors.size() ? anchors[anchor] : kNoYaml;
    reached = offset_of(mark);
    if (named == kNoYaml) stop(Code::InvalidYaml, reached, "the alias names no anchor");
    if (std::find(open.begin(), open.end(), named) != open.end()) {
      stop(Code::UnsupportedYaml, reached, "the alias is inside the value that it names", "write the value out");
    }
    count_values(expanded[named], reached);
    attach(named);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(tag, mark);
    const bool plain = tag == "?" || tag.empty();
    const bool is_null =
        plain && (value == "null" || value == "~" || value == "Null" || value == "NULL" || value.empty());
    YamlNode& node = tree.nodes[push(is_null ? YamlKind::Null : YamlKind::Scalar, mark, anchor)];
    node.is_plain = plain;
    node.text = value;
    if (is_null) {
      if (value.empty()) return;
      node.offset = offset_of(mark);
    }
    node.length = static_cast<uint32_t>(std::max<size_t>(1, plain ? value.size() : quoted_length(node.offset)));
  }

  // Returns the bytes from an opening bracket to its end if that is near and on the same line, otherwise 1.
  uint32_t bracket_length(uint64_t offset) const {
    constexpr size_t kFar = 4096;
    const std::string_view text = std::string_view(file.text).substr(0, offset + kFar);
    int depth = 0;
    for (size_t i = offset; i < text.size() && text[i] != '\n'; ++i) {
      depth += text[i] == '[' || text[i] == '{';
      depth -= text[i] == ']' || text[i] == '}';
      if (depth == 0) return static_cast<uint32_t>(i + 1 - offset);
    }
    return 1;
  }

  // Returns the bytes from an opening quote to its end, at most to the end of the line. Reports a quote without end,
  // which yaml-cpp 0.7 accepts.
  size_t quoted_length(uint64_t offset) {
    const std::string& text = file.text;
    const char quote = offset < text.size() ? text[offset] : '\0';
    if (quote != '"' && quote != '\'') return 1;
    size_t i = offset + 1;
    while (i < text.size() && text[i] != quote) i += text[i] == '\\' && quote == '"' ? 2 : 1;
    if (i >= text.size())
      stop(Code::InvalidYaml, offset, "the quote is never closed", fmt::format("close it with {}", quote));
    return std::min(i + 1 - offset, std::string_view(text).substr(offset, i + 1 - offset).find('\n'));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_tag(tag, mark);
    enter(YamlKind::Sequence, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void close() {
    expanded[open.back()] = values - expanded[open.back()] + 1;
    open.pop_back();
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_tag(tag, mark);
    enter(YamlKind::Map, mark, anchor);
  }
  void OnMapEnd() override {
    check_keys(tree.nodes[open.back()]);
    close();
  }

  static std::optional<YamlError> key_error(const YamlNode& key, const YamlNode& value) {
    // An omitted value has the position of its key.
    const bool has_value = value.kind != YamlKind::Null || value.offset != key.offset;
    return key.is_plain ? find_key_error(key.text, has_value, key.offset) : std::nullopt;
  }

  // Reports a key that is a list or a mapping: usually a template variable, a list of paths, or an open bracket.
  [[noreturn]] void stop_at_collection(const YamlNode& key) {
    if (std::optional<YamlError> error = find_variable_error(file.text, key.offset)) {
      report_error(file, std::move(*error), diagnostics);
      throw Stop{};
    }
    const bool is_closed = file.text.find_first_of("]\n", key.offset) != std::string::npos &&
                           file.text[file.text.find_first_of("]\n", key.offset)] == ']';
    stop(Code::UnsupportedYaml, key.offset, fmt::format("a key is {}, not text", describe(key)),
         key.kind == YamlKind::Sequence && is_closed ? "write one rule for each path, without brackets"
                                                     : "close an open bracket, brace or quote above");
  }

  void check_keys(const YamlNode& map) {
    StringIndex index;
    const auto key_of = [&](uint32_t i) -> std::string_view { return tree.nodes[map.children[i]].text; };
    for (uint32_t i = 0; i + 1 < map.children.size(); i += 2) {
      const YamlNode& key = tree.nodes[map.children[i]];
      if (key.kind != YamlKind::Scalar) stop_at_collection(key);
      if (key.is_plain && key.text == "<<")
        stop(Code::UnsupportedYaml, key.offset, "merge keys (`<<`) are not supported", "write the merged keys out");
      if (std::optional<YamlError> error = key_error(key, tree.nodes[map.children[i + 1]])) {
        report_error(file, std::move(*error), diagnostics);
        throw Stop{};
      }
      const uint32_t earlier = insert(index, key.text, i, key_of);
      if (earlier == kNotFound) continue;
      Diagnostic& d = report_message(diagnostics, Code::DuplicateKey, span_of(file.id, key),
                                     fmt::format("key `{}` appears twice", key.text), "keep one of the two");
      d.notes.push_back({"first one", span_of(file.id, tree.nodes[map.children[earlier]])});
      throw Stop{};
    }
  }
};

// Event handler that detects a second document.
struct SecondDocument : YAML::EventHandler {
  bool found = false;
  YAML::Mark mark;
  void OnDocumentStart(const YAML::Mark& at) override {
    found = true;
    mark = at;
    throw Stop{};
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

void report_error(const SourceFile& file, YamlError error, Diagnostics& diagnostics) {
  Diagnostic& d =
      report_message(diagnostics, Code::InvalidYaml, {file.id, error.offset, static_cast<uint32_t>(error.length)},
                     std::move(error.message), std::move(error.help));
  for (YamlEdit& edit : error.edits)
    d.edits.push_back({{file.id, edit.offset, static_cast<uint32_t>(edit.length)}, std::move(edit.text)});
}

void report_syntax(const YamlBuilder& builder, const YAML::Exception& stop) {
  const uint64_t offset = builder.offset_of(stop.mark);
  if (std::optional<YamlError> error = find_yaml_error(builder.file.text, offset)) {
    report_error(builder.file, std::move(*error), builder.diagnostics);
    return;
  }
  report_message(builder.diagnostics, Code::InvalidYaml, {builder.file.id, offset, 1}, stop.msg,
                 offset >= builder.file.text.find_last_not_of(" \n\r\t") + 1
                     ? "close an open bracket, brace or quote above"
                     : "check this line and the line above");
}

}  // namespace

bool read_yaml(const SourceFile& file, YamlTree& tree, Diagnostics& diagnostics, const YamlLimits& limits) {
  if (!check_text(file, limits.bytes, diagnostics)) return false;
  tree.file = file.id;
  YamlBuilder builder(file, tree, diagnostics, limits);
  TextBuffer buffer(file.text, [&builder](std::string_view piece) { builder.check_pending(piece); });
  std::istream stream(&buffer);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return true;
    // Parses only one more document, because yaml-cpp 0.7 can yield documents forever (jbeder/yaml-cpp#1040).
    SecondDocument second;
    const bool is_null = tree.root != kNoYaml && tree.nodes[tree.root].kind == YamlKind::Null;
    try {
      if (!is_null) parser.HandleNextDocument(second);
    } catch (const Stop&) {
    }
    if (second.found) {
      // A line that begins with `%` is parsed as a directive of another document.
      if (std::optional<YamlError> error = find_yaml_error(file.text, builder.offset_of(second.mark))) {
        report_error(file, std::move(*error), diagnostics);
        return false;
      }
      builder.stop(Code::TrailingDocument, builder.offset_of(second.mark),
                   "a second YAML document follows the plan: only one is read", "keep one plan in a file");
    }
  } catch (const Stop&) {
    return false;
  } catch (const YAML::Exception& error) {
    report_syntax(builder, error);
    return false;
  }
  return true;
}

Span span_of(FileId file, const YamlNode& node) { return {file, node.offset, node.length}; }

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlKind::Null:
      return "null";
    case YamlKind::Sequence:
      return "a list";
    case YamlKind::Map:
      return "a mapping";
    case YamlKind::Scalar:
      break;
  }
  constexpr size_t kShown = 60;
  std::string text = node.text;
  shorten(text, kShown);
  return node.is_plain ? fmt::format("`{}`", text) : fmt::format("the text \"{}\"", text);
}

}  // namespace tpplan
