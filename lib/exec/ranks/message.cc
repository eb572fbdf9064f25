#include "exec/ranks/message.h"

#include "base/fnv1a.h"

namespace tpplan {
namespace {

constexpr uint64_t kVersion = 0x31'67'73'6d'6c'70'70'74;  // "tpplmsg1"
constexpr size_t kWord = sizeof(uint64_t);

}  // namespace

namespace message_detail {

// Appends a word in little endian, the byte order of all machines with GPUs.
void put_word(std::string& out, uint64_t word) { out.append(reinterpret_cast<const char*>(&word), kWord); }

bool take_word(std::string_view& in, uint64_t& word) {
  if (in.size() < kWord) return false;
  std::memcpy(&word, in.data(), kWord);
  in.remove_prefix(kWord);
  return true;
}

bool take_text(std::string_view& in, std::string& text) {
  uint64_t size = 0;
  if (!take_word(in, size) || size > in.size()) return false;
  text = in.substr(0, size);
  in.remove_prefix(size);
  return true;
}

bool code_of_word(uint64_t word, Code& code) {
  if (word >= diagnostic_kinds().size()) return false;
  code = static_cast<Code>(word);
  return true;
}

}  // namespace message_detail

using message_detail::put_word;
using message_detail::take_word;

std::string write_body(std::string_view form, std::string_view body) {
  std::string message;
  put_word(message, kVersion);
  put_word(message, fnv1a(form));
  put_word(message, body.size());
  message += body;
  put_word(message, fnv1a(message));
  return message;
}

bool read_body(std::string_view message, std::string_view form, std::string_view& body) {
  std::string_view rest = message;
  uint64_t version = 0, its_form = 0, size = 0, check = 0;
  if (!take_word(rest, version) || !take_word(rest, its_form) || !take_word(rest, size)) return false;
  if (version != kVersion || its_form != fnv1a(form) || rest.size() < kWord || size != rest.size() - kWord)
    return false;
  body = rest.substr(0, size);
  rest.remove_prefix(size);
  return take_word(rest, check) && check == fnv1a(message.substr(0, message.size() - kWord));
}

}  // namespace tpplan
