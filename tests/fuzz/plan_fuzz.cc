// Any bytes as a plan file.
#include "fuzz_input.h"
#include "plan/read_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  const SourceFile file = fuzz_file("plan.yaml", data, size);
  Diagnostics diagnostics;
  const TpPlan plan = read_plan(file, {}, diagnostics);
  if (!has_errors(diagnostics)) std::ignore = dump(plan);
  show(diagnostics, sources_of(file));
  return 0;
}
