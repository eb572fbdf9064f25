// Test program of tools/cmake/dependencies.cmake: it uses each library and catches an exception, to find out whether a
// static link works.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <re2/re2.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <stdexcept>

int main(int count, char** words) {
  SHA256_CTX state;
  SHA256_Init(&state);
  std::istringstream text(words[0]);
  try {
    YAML::Parser parser(text);
    if (!parser || !RE2::FullMatch(words[count - 1], ".+")) return 1;
    throw std::runtime_error(words[0]);
  } catch (const std::exception&) {
    return 0;
  }
}
