// Shared by the fuzz targets: bytes as an input file, and all renderings of its diagnostics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "render/render.h"

namespace tpplan {

inline SourceFile fuzz_file(std::string_view name, std::string_view bytes) {
  return {.name = std::string(name), .text = std::string(bytes)};
}

inline SourceFile fuzz_file(std::string_view name, const uint8_t* data, size_t size) {
  return fuzz_file(name, std::string_view(reinterpret_cast<const char*>(data), size));
}

// A model and a plan, separated by a line `%%`.
struct ModelAndPlan {
  SourceFile model, plan;
};

inline std::optional<ModelAndPlan> split_input(const uint8_t* data, size_t size) {
  constexpr std::string_view separator = "\n%%\n";
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t at = bytes.find(separator);
  if (at == std::string_view::npos) return std::nullopt;
  ModelAndPlan files{fuzz_file("model.json", bytes.substr(0, at)),
                     fuzz_file("plan.yaml", bytes.substr(at + separator.size()))};
  files.plan.id = 2;
  return files;
}

inline Sources sources_of(const ModelAndPlan& files) {
  const SourceFile* const both[] = {&files.model, &files.plan};
  return sources_of(both);
}

// Stops the fuzzer if a property that every input must have does not hold.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

// Renders all diagnostics in both forms, and checks that the human-readable text is safe for a terminal.
inline void show(Diagnostics& diagnostics, const Sources& sources) {
  finish_diagnostics(diagnostics);
  const std::string text = render_human(diagnostics, sources, {.color = false, .width = 80});
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    require((byte >= 0x20 || c == '\n') && byte != 0x7f, "a message holds no control characters");
  }
  std::ignore = render_json(diagnostics, sources);
}

}  // namespace tpplan
