#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/read_file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "commands.h"
#include "manifest/read_manifest.h"
#include "terminal.h"

namespace tpplan {

int usage_error(std::string_view message) {
  print(STDERR_FILENO, fmt::format("tpplan-exec: error: {}\n", message));
  return exit_status(Failure::Input);
}

int read_manifest_file(const std::string& path, SourceFile& file, Manifest& manifest, std::string& sha256) {
  ReadResult result = read_file(path, kMaxManifestBytes);
  if (result.fault == ReadError::TooLarge)
    return report({.code = Code::FileTooLarge,
                   .message = fmt::format("the manifest is larger than {}", human_bytes(kMaxManifestBytes)),
                   .place = path});
  if (result.fault != ReadError::None)
    return report({.code = Code::FileUnreadable,
                   .message = fmt::format("cannot read the manifest: {}", result.reason),
                   .place = path});
  file = std::move(result.file);
  Diagnostics diagnostics;
  manifest = read_manifest(file, diagnostics);
  sha256 = sha256_hex(file.text);
  return report(diagnostics, sources_of(file));
}

}  // namespace tpplan
