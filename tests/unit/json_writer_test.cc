#include "text/json_writer.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace tpplan;

TEST_CASE("commas separate items at every depth") {
  JsonWriter json;
  begin_object(json);
  write_field(json, "a", "x");
  write_key(json, "b");
  begin_array(json);
  begin_object(json);
  end_object(json);
  write_value(json, nullptr);
  write_value(json, true);
  write_value(json, std::numeric_limits<int64_t>::min());
  write_value(json, std::numeric_limits<uint64_t>::max());
  write_number(json, 0.125, 2);
  end_array(json);
  write_key(json, "c");
  write_array(json, std::vector<std::vector<int>>{{}, {1, -2}},
              [&](const std::vector<int>& row) { write_array(json, row); });
  write_json(json, "\"d\": 1, \"e\": 2");
  write_field(json, "f", std::string("g"));
  end_object(json);
  CHECK(json.out == R"({"a": "x", "b": [{}, null, true, -9223372036854775808, 18446744073709551615, 0.12], )"
                    R"("c": [[], [1, -2]], "d": 1, "e": 2, "f": "g"})");
}

TEST_CASE("a new line starts exactly where requested") {
  JsonWriter json;
  begin_object(json);
  next_line(json, 1);
  write_key(json, "a");
  begin_array(json);
  next_line(json, 2);
  write_value(json, 1);
  next_line(json, 2);
  write_value(json, 2);
  next_line(json, 1);
  end_array(json);
  write_field(json, "b", 3);
  next_line(json, 0);
  end_object(json);
  CHECK(json.out == "{\n \"a\": [\n  1,\n  2\n ], \"b\": 3\n}");
}

TEST_CASE("compact JSON has no blanks") {
  JsonWriter json{.is_tight = true};
  begin_object(json);
  write_key(json, "a");
  write_array(json, std::vector<int>{1, 2});
  write_field(json, "b", false);
  end_object(json);
  CHECK(json.out == R"({"a":[1,2],"b":false})");
}

TEST_CASE("strings are escaped for every reader") {
  CHECK(json_text("plain / ü \U0001f600") == "\"plain / ü \U0001f600\"");
  CHECK(json_text("\"\\\n\t\r\b\x7f\x01") == R"("\"\\\n\t\r\u0008\u007f\u0001")");
  CHECK(json_text("a\u0085b\u2028c\u2029d\u2027") == "\"a\\u0085b\\u2028c\\u2029d\u2027\"");
  CHECK(json_text("a\xffz\xe2\x80") == "\"a\ufffdz\ufffd\ufffd\"");
  CHECK(json_text(std::string_view("\0", 1)) == R"("\u0000")");
}

TEST_CASE("a sink gets all chunks, and none after it rejects one") {
  const auto write = [](JsonWriter& json) {
    begin_array(json);
    for (int i = 0; i < 20'000; ++i) write_array(json, std::vector<int>{i, i});
    end_array(json);
  };
  std::string received;
  size_t pieces = 0;
  const Sink good = [&](std::string_view piece) {
    ++pieces;
    received += piece;
    return true;
  };
  JsonWriter json{.sink = &good};
  write(json);
  CHECK(finish_json(json));
  CHECK(received == json_of(write) + "\n");
  CHECK(pieces > 2);
  size_t asked = 0;
  const Sink full = [&](std::string_view) { return ++asked < 2; };
  JsonWriter lost{.sink = &full};
  write(lost);
  CHECK_FALSE(finish_json(lost));
  CHECK(asked == 2);
  CHECK(lost.out.empty());
}
