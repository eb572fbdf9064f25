#include "base/text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/source_file.h"
#include "resolve/match/pattern.h"

using namespace tpplan;

TEST_CASE("a long text keeps both ends within the limit") {
  std::string text = "short";
  shorten(text, 640);
  CHECK(text == "short");
  text = std::string(1'000'000, 'a') + "z";
  shorten(text, 100);
  CHECK(text == std::string(50, 'a') + " [...] " + std::string(49, 'a') + "z");
  text.clear();
  for (int i = 0; i < 1000; ++i) text += "\xe4\xb8\xad";
  shorten(text, 100);
  CHECK(find_invalid_utf8(text) == std::string::npos);
  CHECK(text.size() == 16 * 3 + 7 + 16 * 3);
  text = std::string(1000, '\r');
  shorten(text, 100);
  CHECK(escape_for_terminal(text).size() <= 107);
  text = std::string(1000, '\x80');
  shorten(text, 100);
  CHECK(escape_for_terminal(text).size() <= 107);
}

TEST_CASE("edit distance counts one typo as one") {
  struct Row {
    const char *a, *b;
    size_t distance;
  };
  for (const Row& row : {Row{"feed_foward", "feed_forward", 1}, Row{"wq", "wk", 1}, Row{"colwsie", "colwise", 1},
                         Row{"", "abc", 3}, Row{"same", "same", 0}}) {
    CHECK(edit_distance(row.a, row.b, 10) == row.distance);
    CHECK(edit_distance(row.b, row.a, 10) == row.distance);
  }
  CHECK(edit_distance("abcdef", "uvwxyz", 2) == 3);
}

TEST_CASE("nearest name suggests only similar names") {
  const std::string_view names[] = {"colwise", "rowwise", "replicate"};
  CHECK(nearest_name("colwize", names) == "colwise");
  CHECK(nearest_name("zzz", names) == "");
}

TEST_CASE("hostile names cannot move the cursor or reorder text") {
  CHECK(escape_for_terminal("a\x1b[31mb\n\tc\x7f") == "a\\x1b[31mb\\n\\tc\\x7f");
  CHECK(escape_for_terminal("x\xe2\x80\xaey\xe2\x81\xa6z") == "x\\u202ey\\u2066z");
  CHECK(escape_for_terminal("a\xe2\x80\x8b"
                            "b\xc2\xa0"
                            "c\xef\xbb\xbf"
                            "d\xe2\x81\xa0"
                            "e") == "a\\u200bb\\u00a0c\\ufeffd\\u2060e");
  CHECK(escape_for_terminal("\xe8\xa8\x88\xf0\x9f\x98\x80") == "\xe8\xa8\x88\xf0\x9f\x98\x80");
  CHECK(escape_for_terminal("a\xc3"
                            "b\xe8\xa8"
                            "c\x80") == "a\\xc3b\\xe8\\xa8c\\x80");
  CHECK(escape_for_terminal("gr\xc3\xbc\xc3\x9f"
                            "e") ==
        "gr\xc3\xbc\xc3\x9f"
        "e");
}

TEST_CASE("text has no CI command and no codes other than colours") {
  CHECK(escape_lines("a\n::error::b\n  ::warning c\nd ::e\n##[f]g") ==
        "a\n\\x3a:error::b\n  \\x3a:warning c\nd ::e\n\\x23#[f]g");
  CHECK(escape_lines("###[a]## #[") == "#\\x23#[a]## #[");
  CHECK(escape_lines("a\x1b[1mb\n\x1b[31mc") == "a\\x1b[1mb\n\\x1b[31mc");
  CHECK(escape_lines(paint("a", kRed, true) + "\x1b[31mb\x1b[8m", {.color = true}) ==
        "\x1b[1;31ma\x1b[0m\\x1b[31mb\\x1b[8m");
  CHECK(escape_lines("a\t\n\t::b", {.is_patch = true}) == "a\t\n\t\\x3a:b");
  CHECK(escape_lines("a\r\nb\rc\r", {.is_patch = true}) == "a\r\nb\\x0dc\\x0d");
  CHECK(escape_lines("") == "");
  CHECK(escape_lines("\n\na") == "\n\na");
}

TEST_CASE("invisible characters, tags and direction marks are escaped") {
  CHECK(escape_for_terminal("\xd8\x9c") == "\\u061c");
  CHECK(escape_for_terminal("\xe2\x80\xa8") == "\\u2028");
  CHECK(escape_for_terminal("\xf3\xa0\x81\x81") == "\\U000e0041");
  CHECK(escape_for_terminal("\xc2\x85") == "\\x85");
  CHECK(escape_for_terminal("\xe3\x85\xa4") == "\\u3164");
}

TEST_CASE("invalid UTF-8 is found at its first byte") {
  CHECK(find_invalid_utf8("abc\xff") == 3);
  CHECK(find_invalid_utf8("\xc0\x80") == 0);          // overlong
  CHECK(find_invalid_utf8("a\xed\xa0\x80") == 1);     // surrogate
  CHECK(find_invalid_utf8("\xf4\x90\x80\x80") == 0);  // past U+10FFFF
  CHECK(find_invalid_utf8("\xe2\x82") == 0);          // truncated
  CHECK(find_invalid_utf8("\xf0\x9f\x98\x80 ok") == std::string_view::npos);
}

TEST_CASE("decimals are unsigned, without leading zeros, below 2^63") {
  int64_t value = 0;
  CHECK(parse_decimal("9223372036854775807", value));
  for (const char* text : {"", "-1", "+1", "017", "1e3", "1.0", "0x1F", "9223372036854775808", " 1", "1 "})
    CHECK_FALSE(parse_decimal(text, value));
}

TEST_CASE("places are 1-based lines and byte columns") {
  const SourceFile file{.name = "f", .text = "ab\r\ncd\n"};
  CHECK(line_column(file, 4).line == 2);
  CHECK(line_column(file, 5).column == 2);
  CHECK(line_at(file, 1) == "ab");
  CHECK(line_column(file, 99).line == 3);
}

TEST_CASE("globs follow Python's fnmatch") {
  struct Row {
    const char *glob, *text;
    bool matches;
  };
  const Row rows[] = {{"*self.query", "bert.layer.0.attention.self.query", true},
                      {"layers.*", "layers.0.mlp", true},
                      {"w?", "w1", true},
                      {"w?", "w12", false},
                      {"[ab]x", "bx", true},
                      {"[!ab]x", "bx", false},
                      {"[!ab]x", "cx", true},
                      {"[a-c]", "b", true},
                      {"[", "[", true},
                      {"[]a]", "]", true},
                      {"a.b", "axb", false},
                      {"*", "", true},
                      {"", "", true},
                      {"[b-a]", "a", false},
                      {"[!b-a]", "a", true},
                      {"a\\b", "a\\b", true},
                      {"?", "\xc3\xbc", true},
                      {"[a-\u00e9]", "b", true},
                      {"[a-\u00e9]", "\u00e9", true},
                      {"[a-\u00e9]", "\u00ea", false},
                      {"[!\u00e9]x", "\u00eax", true},
                      {"[!\u00e9]x", "\u00e9x", false},
                      {"[.-/]**[+*]", "/a.*", true}};
  for (const Row& row : rows) {
    CAPTURE(row.glob);
    CAPTURE(row.text);
    const std::vector<std::string> expression = {glob_to_regex(row.glob)};
    CHECK(matches_any(*compile_patterns(expression, PatternAnchor::Whole, nullptr), row.text) == row.matches);
    const std::vector<std::string> glob = {row.glob};
    CHECK(matches_any(*compile_globs(glob), row.text) == row.matches);
  }
}

TEST_CASE("a bad pattern is named and the others still match") {
  const std::vector<std::string> expressions = {"a(?=b)", "b+", "(c"};
  std::vector<std::string> faults;
  const PatternSetPtr set = compile_patterns(expressions, PatternAnchor::Whole, &faults);
  CHECK_FALSE(faults[0].empty());
  CHECK(faults[1].empty());
  CHECK_FALSE(faults[2].empty());
  std::vector<int> matches;
  find_matches(*set, "bb", matches);
  CHECK(matches == std::vector<int>{1});
}

TEST_CASE("too many patterns for one automaton match one by one") {
  std::vector<std::string> expressions;
  for (int i = 0; i < 50; ++i) expressions.push_back("\\pL{1,60}N" + std::to_string(i));
  expressions.insert(expressions.begin(), "x.*");
  std::vector<std::string> faults;
  const PatternSetPtr set = compile_patterns(expressions, PatternAnchor::Whole, &faults);
  CHECK(std::ranges::count(faults, "") == 50);
  CHECK(faults[4].starts_with("the patterns of the plan up to this one need "));
  std::vector<int> matches;
  find_matches(*set, "xyz", matches);
  CHECK(matches == std::vector<int>{0});
  const std::vector<std::string> any_case = {"(?i)" + std::string(200'000, 'k'), "y"};
  const PatternSetPtr none = compile_patterns(any_case, PatternAnchor::Whole, &faults);
  CHECK(faults[1].starts_with("the patterns of the plan up to this one need more memory than "));
  CHECK_FALSE(matches_any(*none, "y"));
}
