// Any bytes as a model file.
#include "fuzz_input.h"
#include "model/print_model.h"
#include "model/read_model.h"
#include "mutate_tree.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::Json)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  const SourceFile file = fuzz_file("model.json", data, size);
  Diagnostics diagnostics;
  const ModelGraph graph = read_model(file, diagnostics);
  if (!has_errors(diagnostics)) std::ignore = dump(graph);
  show(diagnostics, sources_of(file));
  return 0;
}
