// Any bytes as a baseline. An accepted baseline is written and read back as the same.
#include "fuzz_input.h"
#include "mutate_tree.h"
#include "render/baseline.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::Json)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  const SourceFile file = fuzz_file("known.json", data, size);
  Diagnostics diagnostics;
  Baseline baseline;
  const bool good = read_baseline(file, baseline, diagnostics);
  require(good != has_errors(diagnostics), "a refused baseline has a reason, an accepted one has no error");
  show(diagnostics, sources_of(file));
  if (!good) return 0;
  const SourceFile again = fuzz_file("again.json", to_json(baseline));
  Baseline second;
  Diagnostics faults;
  require(read_baseline(again, second, faults), "a baseline that was written is read again");
  require(to_json(second) == again.text, "writing what was read changes nothing");
  return 0;
}
