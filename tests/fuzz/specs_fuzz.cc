// Any bytes as a specs file of each format. Accepted specs are converted to a plan, which is written and read back as
// the same plan.
#include "emit/plan_from_specs.h"
#include "fuzz_input.h"
#include "import_formats.h"
#include "mutate_tree.h"
#include "plan/read_plan.h"
#include "plan/write_plan.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::Json)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  const SourceFile file = fuzz_file("specs", data, size);
  for (const ImportFormat& format : import_formats()) {
    if (format.read_specs == nullptr) continue;
    Diagnostics diagnostics;
    SpecsFile specs;
    const bool good = read_specs(format.read_specs, file, specs, diagnostics);
    require(good != has_errors(diagnostics), "refused specs have a reason, accepted ones have no error");
    show(diagnostics, sources_of(file));
    if (!good) continue;
    const std::string text = write_plan(plan_from_specs(specs));
    Diagnostics second;
    const TpPlan plan = read_plan(fuzz_file("plan.yaml", text), {}, second);
    require(!has_errors(second), "a plan that is made of specs is read again");
    require(write_plan(plan) == text, "writing what was read changes nothing");
  }
  return 0;
}
