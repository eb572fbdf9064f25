// A model and a plan, separated by a line `%%`. A manifest that comes out is one that read_manifest accepts.
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
  const SourceFile plan = fuzz_file("plan.yaml", bytes.substr(at + separator.size()));
  Sources sources;
  add(sources, Source::Model, model);
  add(sources, Source::Plan, plan);
  Diagnostics diagnostics;
  const Compilation compilation = compile({.model = model, .plan = plan, .mesh_sizes = {}}, diagnostics);
  const bool good = !has_errors(diagnostics);
  show(diagnostics, sources);
  if (!good) return 0;
  for (const Phase phase : {Phase::Matches, Phase::Shardings, Phase::Boundaries}) dump(compilation, phase);
  const SourceFile manifest = fuzz_file("manifest.json", dump(compilation, Phase::Manifest));
  Diagnostics second;
  read_manifest(manifest, second);
  require(!has_errors(second), "a manifest that was written is read again");
  return 0;
}
