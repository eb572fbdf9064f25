// Reference of the benchmark: a bare nlohmann SAX pass over a file, which counts values and stores nothing.
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace {

struct Counter {
  using number_integer_t = nlohmann::json::number_integer_t;
  size_t values = 0;
  bool null() { return ++values; }
  bool boolean(bool) { return ++values; }
  bool number_integer(int64_t) { return ++values; }
  bool number_unsigned(uint64_t) { return ++values; }
  bool number_float(double, const std::string&) { return ++values; }
  bool string(std::string&) { return ++values; }
  template <typename Binary>
  bool binary(Binary&) {
    return true;
  }
  bool start_object(size_t) { return true; }
  bool key(std::string&) { return true; }
  bool end_object() { return true; }
  bool start_array(size_t) { return true; }
  bool end_array() { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) { return false; }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream file(argv[1], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Counter counter;
  const bool good = nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &counter);
  std::cout << counter.values << "\n";
  return good ? 0 : 1;
}
