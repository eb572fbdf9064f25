// A model and a plan, separated by a line `%%`. read_manifest accepts every manifest that is produced.
#include <tuple>

#include "compile.h"
#include "fuzz_input.h"
#include "manifest/read_manifest.h"
#include "mutate_tree.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::JsonAndYaml)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  const std::optional<ModelAndPlan> files = split_input(data, size);
  if (!files) return 0;
  const auto& [model, plan] = *files;
  Diagnostics diagnostics;
  const Compilation compilation = compile({.model = model, .plan = plan, .mesh_sizes = {}}, diagnostics);
  const bool good = !has_errors(diagnostics);
  show(diagnostics, sources_of(*files));
  if (!good) return 0;
  for (const Phase phase : {Phase::Matches, Phase::Shardings, Phase::Boundaries})
    std::ignore = dump(compilation, phase);
  const SourceFile manifest = fuzz_file("manifest.json", dump(compilation, Phase::Manifest));
  Diagnostics second;
  std::ignore = read_manifest(manifest, second);
  require(!has_errors(second), "a manifest that was written is read again");
  return 0;
}
