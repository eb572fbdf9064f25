#include "text/check_text.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>

#include "base/text.h"

namespace tpplan {

bool check_text(const SourceFile& file, size_t most_bytes, Diagnostics& diagnostics) {
  const std::string& text = file.text;
  const auto reject = [&](Code code, size_t offset, std::string message, std::string help) {
    report_message(diagnostics, code, {file.id, offset, 1}, std::move(message), std::move(help));
    return false;
  };
  if (text.size() > most_bytes)
    return reject(Code::FileTooLarge, 0,
                  fmt::format("the file has {}, more than {}", human_bytes(text.size()), human_bytes(most_bytes)),
                  "write patterns instead of single paths");
  if (text.starts_with("\xef\xbb\xbf"))
    return reject(Code::InvalidText, 0, "the file starts with a byte order mark", "save it as UTF-8 without BOM");
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return reject(Code::InvalidText, 0, "the file is UTF-16", "save it as UTF-8");
  if (const size_t at = find_invalid_utf8(text); at != std::string::npos)
    return reject(Code::InvalidText, at,
                  fmt::format("byte 0x{:02x} is not UTF-8", static_cast<unsigned char>(text[at])),
                  "save the file as UTF-8");
  const auto control = std::find_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f;
  });
  if (control != text.end())
    return reject(Code::InvalidText, static_cast<size_t>(control - text.begin()),
                  fmt::format("control character 0x{:02x}", static_cast<unsigned char>(*control)),
                  "remove it, or write it as an escape in double quotes");
  return true;
}

}  // namespace tpplan
