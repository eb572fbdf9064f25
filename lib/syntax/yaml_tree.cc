#include "syntax/yaml_tree.h"

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
#include "syntax/check_text.h"
#include "syntax/yaml_slips.h"

namespace tpplan {
namespace {

// A slip as a finding of its file.
void report_slip(const SourceFile& file, YamlSlip slip, Diagnostics& diagnostics);

// Ends the parse after a fault has been reported. yaml-cpp's event interface has no other way out.
struct Stop {};

// A stream over text that is not copied, handed out in pieces. yaml-cpp's scanner keeps every token of an unfinished
// flow collection or simple key in memory, a hundred bytes or more for one of input: `check` is asked before each
// piece.
struct TextBuffer : std::streambuf {
  static constexpr std::ptrdiff_t kPiece = std::ptrdiff_t{16} << 10;
  char* end;
  std::function<void(std::string_view)> check;  // told the piece that comes; throws to stop
  TextBuffer(const std::string& text, std::function<void(std::string_view)> asked) : check(std::move(asked)) {
    char* begin = const_cast<char*>(text.data());
    end = begin + text.size();
    setg(begin, begin, begin);
  }
  int_type underflow() override {
    if (egptr() == end) return traits_type::eof();
    char* next = egptr() + std::min(kPiece, end - egptr());
    check({egptr(), next});
    setg(egptr(), egptr(), next);
    return traits_type::to_int_type(*gptr());
  }
};

// yaml-cpp demands a class here; it only builds the tree.
struct YamlBuilder : YAML::EventHandler {
  const SourceFile& file;
  YamlTree& tree;
  Diagnostics& diagnostics;
  const YamlLimits& limits;
  std::vector<YamlId> open;
  std::vector<YamlId> anchors;               // by yaml-cpp's number, which counts from 1
  std::vector<size_t> expanded;              // by node: how many values it is, with aliases as what they stand for
  size_t values = 0;                         // sum of what the open collections hold so far
  uint64_t reached = 0, reached_before = 0;  // where the last event was, now and when the last piece was scanned
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

  // An alias shares the node that it names, and costs nothing here; who walks the tree walks it every time.
  void count_values(size_t more, uint64_t offset) {
    values += more;
    if (values > limits.nodes)
      stop(Code::TP1007, offset,
           fmt::format("the file has more than {} values, aliases counted as what they stand for", limits.nodes));
  }

  // Called with each piece of the text before it is scanned. Every token but the last takes one of these characters.
  void check_pending(std::string_view piece) {
    if (reached != reached_before) pending = 0;
    reached_before = reached;
    for (const char c :
         piece) {  // a quote counts a sixteenth: many stand in a plan that is written as JSON on one line
      if (std::string_view("[]{},:?-&*!").find(c) != std::string_view::npos)
        pending += 16;
      else if (c == '"' || c == '\'')
        ++pending;
    }
    if (pending > 16 * limits.pending)
      stop(Code::TP1007, reached, "too much stands here before a value ends", pending_help());
  }

  std::string pending_help() const {
    const std::string_view head = std::string_view(file.text).substr(0, 4096);
    return head.starts_with('{') && head.find("tpplan.model/") != std::string_view::npos
               ? "this is a model, which comes first: tpplan compile MODEL PLAN"
               : "is a bracket, a brace or a quote left open?";
  }

  void attach(YamlId id) {
    if (open.empty()) {
      tree.root = id;
      return;
    }
    const YamlNode& parent = tree.nodes[open.back()];
    // A value that is not written stands, for the reader, where its key does.
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
      stop(Code::TP1007, offset_of(mark), fmt::format("values are nested deeper than {} levels", limits.depth));
    const YamlId id = push(kind, mark, anchor);
    expanded[id] = values;  // until it is closed: what stands before it, itself counted
    tree.nodes[id].length = bracket_length(tree.nodes[id].offset);
    open.push_back(id);
  }

  void check_tag(const std::string& tag, const YAML::Mark& mark) {
    static constexpr std::string_view core = "tag:yaml.org,2002:";
    static constexpr std::string_view known[] = {"str", "int", "float", "bool", "null", "seq", "map"};
    if (tag.empty() || tag == "?" || tag == "!") return;
    const std::string_view rest = tag.starts_with(core) ? std::string_view(tag).substr(core.size()) : "";
    if (std::find(std::begin(known), std::end(known), rest) != std::end(known)) return;
    stop(Code::TP1011, offset_of(mark), fmt::format("tag `{}` is not one of YAML's core tags", tag),
         "a plan is plain data: remove the tag");
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { push(YamlKind::Null, mark, anchor); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const YamlId named = anchor < anchors.size() ? anchors[anchor] : kNoYaml;
    reached = offset_of(mark);
    if (named == kNoYaml) stop(Code::TP1004, reached, "the alias names no anchor");
    if (std::find(open.begin(), open.end(), named) != open.end()) {
      stop(Code::TP1011, reached, "the alias stands inside the value that it names", "write the value out");
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

  // Bytes from an opening bracket or brace to its end, where that is on the same line and not far; 1 otherwise.
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

  // Bytes from an opening quote to its end, on the first line of it. yaml-cpp 0.7 lets a quote run into the end of the
  // file.
  size_t quoted_length(uint64_t offset) {
    const std::string& text = file.text;
    const char quote = offset < text.size() ? text[offset] : '\0';
    if (quote != '"' && quote != '\'') return 1;
    size_t i = offset + 1;
    while (i < text.size() && text[i] != quote) i += text[i] == '\\' && quote == '"' ? 2 : 1;
    if (i >= text.size())
      stop(Code::TP1004, offset, "the quote is never closed", fmt::format("close it with {}", quote));
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

  static std::optional<YamlSlip> key_slip(const YamlNode& key, const YamlNode& value) {
    // A value that is not written stands where its key does.
    const bool has_value = value.kind != YamlKind::Null || value.offset != key.offset;
    return key.is_plain ? find_key_slip(key.text, has_value, key.offset) : std::nullopt;
  }

  // A key that is a list or a mapping: most often a variable of a template, a list of paths, or a bracket left open.
  [[noreturn]] void stop_at_collection(const YamlNode& key) {
    if (std::optional<YamlSlip> slip = find_variable_slip(file.text, key.offset)) {
      report_slip(file, std::move(*slip), diagnostics);
      throw Stop{};
    }
    const bool is_closed = file.text.find_first_of("]\n", key.offset) != std::string::npos &&
                           file.text[file.text.find_first_of("]\n", key.offset)] == ']';
    stop(Code::TP1011, key.offset, fmt::format("a key is {}, not text", describe(key)),
         key.kind == YamlKind::Sequence && is_closed ? "a key is one path: write one rule for each, without brackets"
                                                     : "is a bracket, a brace or a quote left open above?");
  }

  void check_keys(const YamlNode& map) {
    StringIndex index;
    const auto key_of = [&](uint32_t i) -> std::string_view { return tree.nodes[map.children[i]].text; };
    for (uint32_t i = 0; i + 1 < map.children.size(); i += 2) {
      const YamlNode& key = tree.nodes[map.children[i]];
      if (key.kind != YamlKind::Scalar) stop_at_collection(key);
      if (key.is_plain && key.text == "<<")
        stop(Code::TP1011, key.offset, "merge keys (`<<`) are not read", "write the merged keys out");
      if (std::optional<YamlSlip> slip = key_slip(key, tree.nodes[map.children[i + 1]])) {
        report_slip(file, std::move(*slip), diagnostics);
        throw Stop{};
      }
      const uint32_t earlier = insert(index, key.text, i, key_of);
      if (earlier == kNotFound) continue;
      Diagnostic& d = report_message(diagnostics, Code::TP1006, span_of(file.id, key),
                                     fmt::format("key `{}` stands twice", key.text), "keep one of the two");
      d.notes.push_back({"first one", span_of(file.id, tree.nodes[map.children[earlier]])});
      throw Stop{};
    }
  }
};

// Sees whether anything follows the first document.
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

void report_slip(const SourceFile& file, YamlSlip slip, Diagnostics& diagnostics) {
  Diagnostic& d = report_message(diagnostics, Code::TP1004, {file.id, slip.offset, static_cast<uint32_t>(slip.length)},
                                 std::move(slip.message), std::move(slip.help));
  for (YamlEdit& edit : slip.edits)
    d.edits.push_back({{file.id, edit.offset, static_cast<uint32_t>(edit.length)}, std::move(edit.text)});
}

void report_syntax(const YamlBuilder& builder, const YAML::Exception& error) {
  const uint64_t offset = builder.offset_of(error.mark);
  if (std::optional<YamlSlip> slip = find_yaml_slip(builder.file.text, offset)) {
    report_slip(builder.file, std::move(*slip), builder.diagnostics);
    return;
  }
  report_message(builder.diagnostics, Code::TP1004, {builder.file.id, offset, 1}, error.msg,
                 offset >= builder.file.text.find_last_not_of(" \n\r\t") + 1
                     ? "a bracket, a brace or a quote is left open above"
                     : "look at this line and the one above it");
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
    // Only one more look: yaml-cpp 0.7 can hand out documents without end (jbeder/yaml-cpp#1040).
    SecondDocument second;
    const bool is_null = tree.root != kNoYaml && tree.nodes[tree.root].kind == YamlKind::Null;
    try {
      if (!is_null) parser.HandleNextDocument(second);
    } catch (const Stop&) {
    }
    if (second.found) {
      // What begins with `%` reads as the head of another document.
      if (std::optional<YamlSlip> slip = find_yaml_slip(file.text, builder.offset_of(second.mark))) {
        report_slip(file, std::move(*slip), diagnostics);
        return false;
      }
      builder.stop(Code::TP3011, builder.offset_of(second.mark),
                   "the plan goes on after its end: only one YAML document is read", "keep one plan in a file");
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
