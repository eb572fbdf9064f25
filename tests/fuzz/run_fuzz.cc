// Any bytes as a file of `--run`. Every value of an accepted run can be written, and a run of these values is read as
// the same values.
#include "cost/recipes.h"
#include "fuzz_input.h"
#include "mutate_tree.h"
#include "topology/read_run.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::Yaml)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  const SourceFile file = fuzz_file("run.yaml", data, size);
  Diagnostics diagnostics;
  const RunFile run = read_run(file, recipe_names(), diagnostics);
  show(diagnostics, sources_of(file));
  if (has_errors(diagnostics)) return 0;
  require(run.keys.size() == run.run.given.size(), "every given key has a place");
  std::string text = "format: tpplan.run/1\n";
  for (const std::string& key : run.run.given) text += key + ": " + run_value(run.run, key) + "\n";
  Diagnostics again;
  const RunFile copy = read_run(fuzz_file("run.yaml", text), recipe_names(), again);
  require(!has_errors(again), "a run that was written is accepted");
  for (const std::string& key : run.run.given)
    require(run_value(copy.run, key) == run_value(run.run, key), "a value is read as it was written");
  return 0;
}
