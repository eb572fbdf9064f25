// Laws of messages between ranks: they arrive unchanged. Damaged or truncated bytes, and messages of another struct,
// are rejected.
#include <doctest/doctest.h>

#include <random>

#include "exec/ranks/message.h"

namespace {

using namespace tpplan;

struct Inner {
  int rank = 0;
  double seconds = 0;
  bool is_done = false;
};
auto fields(Inner& i) { return std::tie(i.rank, i.seconds, i.is_done); }

struct Outer {
  uint64_t bytes = 0;
  std::string text;
  std::vector<Inner> list;
  std::optional<Fault> fault;
  std::vector<std::string> names;
};
auto fields(Outer& o) { return std::tie(o.bytes, o.text, o.list, o.fault, o.names); }

struct Other {  // the same bytes as another struct, with another meaning
  uint64_t bytes = 0;
  std::string text;
};
auto fields(Other& o) { return std::tie(o.bytes, o.text); }

struct Swapped {
  std::string text;
  uint64_t bytes = 0;
};
auto fields(Swapped& s) { return std::tie(s.text, s.bytes); }

bool operator==(const Inner& a, const Inner& b) {
  return a.rank == b.rank && a.seconds == b.seconds && a.is_done == b.is_done;
}
bool operator==(const Fault& a, const Fault& b) {
  return a.code == b.code && a.message == b.message && a.help == b.help && a.place == b.place && a.rank == b.rank &&
         a.step == b.step;
}
bool operator==(const Outer& a, const Outer& b) {
  return a.bytes == b.bytes && a.text == b.text && a.list == b.list && a.fault.has_value() == b.fault.has_value() &&
         (!a.fault || *a.fault == *b.fault) && a.names == b.names;
}

std::string random_text(std::mt19937& random) {
  std::string text(random() % 9, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

Outer random_outer(std::mt19937& random) {
  Outer outer{.bytes = (uint64_t{random()} << 32) + random(),
              .text = random_text(random),
              .list = {},
              .fault = {},
              .names = {}};
  for (size_t i = random() % 3; i > 0; --i)
    outer.list.push_back({.rank = static_cast<int>(random()),
                          .seconds = static_cast<double>(random()) / 7,
                          .is_done = random() % 2 == 0});
  if (random() % 2 == 0)
    outer.fault = Fault{.code = Code::InjectedFailure,
                        .message = random_text(random),
                        .help = random_text(random),
                        .place = "p",
                        .rank = -1,
                        .step = random_text(random)};
  for (size_t i = random() % 3; i > 0; --i) outer.names.push_back(random_text(random));
  return outer;
}

}  // namespace

TEST_CASE("a struct arrives unchanged") {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    const Outer sent = random_outer(random);
    Outer got;
    REQUIRE(from_message(to_message(sent), got));
    REQUIRE(got == sent);
  }
}

TEST_CASE("a message with changed, missing or extra bytes is rejected") {
  std::mt19937 random(6);
  for (int i = 0; i < 40; ++i) {
    const std::string message = to_message(random_outer(random));
    Outer got;
    for (size_t at = 0; at < message.size(); ++at) {
      for (const char flip : {'\x01', '\x20', '\x80', '\xff'}) {
        std::string broken = message;
        broken[at] = static_cast<char>(broken[at] ^ flip);
        REQUIRE(!from_message(broken, got));
      }
      REQUIRE(!from_message(std::string_view(message).substr(0, at), got));
      REQUIRE(!from_message(std::string_view(message).substr(at + 1), got));
    }
    REQUIRE(!from_message(message + '\0', got));
    REQUIRE(!from_message(message + message, got));
  }
}

TEST_CASE("messages of other structs or with bad numbers are rejected") {
  Outer outer;
  Other other;
  Swapped swapped;
  CHECK(!from_message(to_message(Other{3, "x"}), outer));
  CHECK(!from_message(to_message(Other{3, "x"}), swapped));
  CHECK(from_message(to_message(Other{3, "x"}), other));
  std::string body;
  message_detail::put_word(body, 2);  // a bool other than 0 and 1
  bool flag = false;
  std::string_view rest = body;
  CHECK(!message_detail::take(rest, flag));
  body.clear();
  message_detail::put_word(body, 1u << 20);  // an unknown code
  Code code{};
  rest = body;
  CHECK(!message_detail::take(rest, code));
  body.clear();
  message_detail::put_word(body, UINT64_MAX);  // a list longer than the rest of the message
  std::vector<uint64_t> list;
  rest = body;
  CHECK(!message_detail::take(rest, list));
}
