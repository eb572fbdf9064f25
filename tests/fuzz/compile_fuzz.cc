// A model and a plan, separated by a line `%%`. A manifest that comes out is one that read_manifest accepts.
#include <tuple>

#include "compile.h"
#include "fuzz_input.h"
#include "manifest/read_manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  constexpr std::string_view separator = "\n%%\n";
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t at = bytes.find(separator);
  if (at == std::string_view::npos) return 0;
  const SourceFile model = fuzz_file("model.json", bytes.substr(0, at));
  SourceFile plan = fuzz_file("plan.yaml", bytes.substr(at + separator.size()));
  plan.id = 2;
  Diagnostics diagnostics;
  const Compilation compilation = compile({.model = model, .plan = plan, .mesh_sizes = {}}, diagnostics);
  const bool good = !has_errors(diagnostics);
  show(diagnostics, sources_of({{&model, &plan}}));
  if (!good) return 0;
  for (const Phase phase : {Phase::Matches, Phase::Shardings, Phase::Boundaries})
    std::ignore = dump(compilation, phase);
  const SourceFile manifest = fuzz_file("manifest.json", dump(compilation, Phase::Manifest));
  Diagnostics second;
  std::ignore = read_manifest(manifest, second);
  require(!has_errors(second), "a manifest that was written is read again");
  return 0;
}
