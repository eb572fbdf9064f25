// What tools/cmake/dependencies.cmake links to learn whether -static works: something of each library.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <re2/re2.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/parser.h>

#include <sstream>

int main(int count, char** words) {
  SHA256_CTX state;
  SHA256_Init(&state);
  std::istringstream text(words[0]);
  YAML::Parser parser(text);
  return parser && RE2::FullMatch(words[0], words[count - 1]) ? 0 : 1;
}
