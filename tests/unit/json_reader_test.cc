#include "text/json_reader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

using namespace tpplan;

namespace {

bool reads(std::string text, std::vector<std::string>* codes = nullptr) {
  const SourceFile file{.name = "t.json", .text = std::move(text)};
  Diagnostics diagnostics;
  std::deque<std::string> strings;
  const JsonVisitor visitor{.member = [](std::string_view, Span) { return JsonField::Whole; },
                            .value = [](std::string_view, const JsonTree&) { return true; }};
  const bool good = read_json(file, visitor, strings, diagnostics);
  if (codes != nullptr) {
    for (const Diagnostic& d : diagnostics.list) codes->push_back(std::string(kind_of(d.code).id));
  }
  CHECK(good == diagnostics.list.empty());
  return good;
}

}  // namespace

TEST_CASE("the JSON reader accepts what RFC 8259 does, as one object") {
  CHECK(reads(R"({"a": [1, -2, 3.5, "x\u0061", null, true, {}], "b": {"c": []}})"));
  for (const char* text :
       {"", "[]", "1", "null", "\"x\"", "{", "{\"a\"", "{\"a\":1,}", "{\"a\":1}}", "{} {}", "{'a':1}", "{\"a\":NaN}",
        "{\"a\":1e999}", "{\"a\":\"\xff\"}", "{\"a\":01}", "{\"a\":\"\\ud800\"}", "\xef\xbb\xbf{}"}) {
    CAPTURE(text);
    CHECK_FALSE(reads(text));
  }
}

TEST_CASE("duplicate keys are found by their decoded text") {
  std::vector<std::string> codes;
  CHECK_FALSE(reads(R"({"a": 1, "\u0061": 2})", &codes));
  CHECK(codes == std::vector<std::string>{"TP1006"});
  std::string large = "{";
  for (int i = 0; i < 100; ++i) large += "\"k" + std::to_string(i) + "\": 0, ";
  CHECK(reads(large + "\"z\": 0}"));
  CHECK_FALSE(reads(large + "\"k7\": 0}"));
}

TEST_CASE("a streamed array passes each element with its place") {
  const SourceFile file{.name = "t.json", .text = R"({"x": [ {"p": 1}, [2], 3 ], "y": {"q": "r"}})"};
  Diagnostics diagnostics;
  std::deque<std::string> strings;
  std::vector<uint64_t> offsets;
  const JsonVisitor visitor{.member = [](std::string_view, Span) { return JsonField::Elements; },
                            .value =
                                [&](std::string_view, const JsonTree& tree) {
                                  offsets.push_back(tree.nodes[0].offset);
                                  return true;
                                }};
  CHECK(read_json(file, visitor, strings, diagnostics));
  CHECK(offsets == std::vector<uint64_t>{8, 18, 23, 33});
}

namespace {

// Returns the events of a visitor, as `path: count of nodes` of each tree. The fields of `a` and `a.b` are visited; the
// elements of `xs` are streamed.
std::vector<std::string> trees_of(const std::string& text) {
  const SourceFile file{.name = "t.json", .text = text};
  Diagnostics diagnostics;
  std::deque<std::string> strings;
  std::vector<std::string> seen;
  const auto mode = [](std::string_view key, Span) {
    if (key == "a" || key == "b") return JsonField::Fields;
    return key == "xs" ? JsonField::Elements : key == "skip" ? JsonField::Skip : JsonField::Whole;
  };
  const auto note = [&seen](std::string_view prefix) {
    return [&seen, prefix](std::string_view key, const JsonTree& tree) {
      const std::string whole = tree.nodes[0].key.empty() ? "" : "=";
      seen.push_back(std::string(prefix) + std::string(key) + whole + ":" + std::to_string(tree.nodes.size()));
      return true;
    };
  };
  const JsonVisitor innermost{.member = mode, .value = note("a.b.")};
  const JsonVisitor inner{.member = mode, .value = note("a."), .inner = &innermost};
  const JsonVisitor document{.member = mode, .value = note(""), .inner = &inner};
  CHECK(read_json(file, document, strings, diagnostics));
  return seen;
}

}  // namespace

TEST_CASE("visited object fields arrive one by one at every depth") {
  using Seen = std::vector<std::string>;
  CHECK(trees_of(R"({"a": {"w": [1, 2], "xs": [[3], {"xs": [4]}, 5], "skip": {"b": {}}, "b": {"xs": [6], "w": {"q": 7}},
                     "xs2": 0}, "xs": [8], "w": {"xs": [9]}})") ==
        Seen{"a.w=:3", "a.xs:2", "a.xs:3", "a.xs:1", "a.b.xs:1", "a.b.w=:2", "a.xs2=:1", "xs:1", "w=:3"});
  CHECK(trees_of(R"({"a": [{"xs": [1]}], "xs": {"b": {}}, "w": 1})") == Seen{"a:3", "xs=:2", "w=:1"});
  CHECK(trees_of(R"({"a": {"b": {}, "xs": []}, "w": 1})") == Seen{"w=:1"});
  CHECK(trees_of(R"({"a": {"b": null, "xs": ""}})") == Seen{"a.b=:1", "a.xs=:1"});
}

TEST_CASE("a million elements of an inner array need memory for one") {
  SourceFile file{.name = "t.json", .text = R"({"graph": {"nodes": [)"};
  for (int i = 0; i < 1'000'000; ++i) file.text += "[12,[[3],null],[],[4]],";
  file.text.back() = ']';
  file.text += "}}";
  Diagnostics diagnostics;
  std::deque<std::string> strings;
  size_t trees = 0, nodes = 0, capacity = 0;
  const JsonVisitor inner{.member = [](std::string_view, Span) { return JsonField::Elements; },
                          .value =
                              [&](std::string_view, const JsonTree& tree) {
                                ++trees;
                                nodes = std::max(nodes, tree.nodes.size());
                                capacity = std::max(capacity, tree.nodes.capacity());
                                return true;
                              }};
  const JsonVisitor document{
      .member = [](std::string_view, Span) { return JsonField::Fields; }, .value = {}, .inner = &inner};
  CHECK(read_json(file, document, strings, diagnostics));
  CHECK(trees == 1'000'000);
  CHECK(nodes == 9);
  CHECK(capacity <= 16);
  CHECK(strings.empty());
}

TEST_CASE("errors inside a visited object have their places") {
  const std::string text = R"({"a": {"xs": [1], "xs": [2]}})";
  const SourceFile file{.name = "t.json", .text = text};
  Diagnostics diagnostics;
  std::deque<std::string> strings;
  const JsonVisitor inner{.member = [](std::string_view, Span) { return JsonField::Skip; }, .value = {}};
  const JsonVisitor document{
      .member = [](std::string_view, Span) { return JsonField::Fields; }, .value = {}, .inner = &inner};
  CHECK_FALSE(read_json(file, document, strings, diagnostics));
  REQUIRE(diagnostics.list.size() == 1);
  CHECK(diagnostics.list[0].code == Code::DuplicateKey);
  CHECK(diagnostics.list[0].span.offset == text.rfind("\"xs\""));
}
