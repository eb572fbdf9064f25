#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/read_file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "commands.h"
#include "manifest/read_manifest.h"
#include "render/render.h"
#include "terminal.h"

namespace tpplan {

int refuse(int status, std::string_view message) {
  print(STDERR_FILENO, fmt::format("tpplan-exec: error: {}\n", message));
  return status;
}

int read_manifest_file(const std::string& path, SourceFile& file, Manifest& manifest, std::string& sha256) {
  ReadResult result = read_file(path, kMaxManifestBytes);
  if (result.fault != ReadFault::None)
    return refuse(2, fmt::format("{}: cannot read the manifest: {}", escape_for_terminal(path),
                                 result.fault == ReadFault::TooLarge ? "it is too large" : result.reason));
  file = std::move(result.file);
  Diagnostics diagnostics;
  manifest = read_manifest(file, diagnostics);
  sha256 = sha256_hex(file.text);
  Sources sources;
  sources.files[static_cast<size_t>(Source::Manifest)] = &file;
  finish_diagnostics(diagnostics);
  print(STDERR_FILENO, render_human(diagnostics, sources, render_options(STDERR_FILENO, ColorChoice::Auto)));
  return exit_status(diagnostics);
}

}  // namespace tpplan
