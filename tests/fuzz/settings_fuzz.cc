// Any bytes as a project's `.tpplan.yaml`.
#include "fuzz_disk.h"
#include "fuzz_input.h"
#include "mutate_tree.h"
#include "settings.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::Yaml)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  static const std::string path = fuzz_folder() + "/.tpplan.yaml";
  put_file(path, data, size);
  SourceFile file;
  Diagnostics diagnostics;
  const Settings settings = read_settings(path, true, file, diagnostics);
  if (!has_errors(diagnostics) && settings.max_replicated)
    require(*settings.max_replicated >= 0 && *settings.max_replicated <= 1, "a share is between none and all");
  show(diagnostics, sources_of(file));
  return 0;
}
