// The digest that a manifest stores of its text, to detect edits: SHA-256 of everything before the last field,
// `digest`, and its comma. Whitespace between values does not count, so a JSON library may reformat the file.
#pragma once

#include <string>
#include <string_view>

#include "base/sha256.h"

namespace tpplan {

struct TextDigest {
  Sha256 hash = begin_sha256();
  bool in_string = false, is_escaped = false;
};

// Adds the next chunk of the text. Chunks may end anywhere.
void add(TextDigest& digest, std::string_view text);

// Returns "sha256:" and 64 hex digits.
[[nodiscard]] std::string to_text(const TextDigest& digest);

}  // namespace tpplan
