// Any bytes as a plan file, read and formatted. Formatting twice changes nothing more.
#include "fuzz_input.h"
#include "mutate_tree.h"
#include "plan/format_plan.h"
#include "plan/read_plan.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::Yaml)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  const SourceFile file = fuzz_file("plan.yaml", data, size);
  Diagnostics diagnostics;
  const TpPlan plan = read_plan(file, {}, diagnostics);
  if (!has_errors(diagnostics)) std::ignore = dump(plan);
  show(diagnostics, sources_of(file));
  Diagnostics unformatted;
  std::string formatted;
  if (format_plan(file, formatted, unformatted)) {
    std::string again;
    require(format_plan(fuzz_file("plan.yaml", formatted), again, unformatted), "what was formatted can be formatted");
    require(again == formatted, "formatting twice is formatting once");
  }
  show(unformatted, sources_of(file));
  return 0;
}
