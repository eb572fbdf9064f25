// What a manifest says of its own text, so that one that was changed is known: SHA-256 of all that stands before its
// last member, `digest`, and the comma there, without blanks and line breaks between values. Printed anew by a JSON
// library it is the same manifest.
#pragma once

#include <string>
#include <string_view>

#include "base/sha256.h"

namespace tpplan {

struct TextDigest {
  Sha256 hash = begin_sha256();
  bool in_string = false, is_escaped = false;
};

// The next piece of the text, cut anywhere.
void add(TextDigest& digest, std::string_view text);

// "sha256:" and 64 digits.
[[nodiscard]] std::string to_text(const TextDigest& digest);

}  // namespace tpplan
