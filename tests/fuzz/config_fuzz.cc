// Any bytes as a config.json. A model that is built from it can be read. Many layers are excluded: a few bytes would
// produce large, slow models that test nothing more.
#include "fuzz_disk.h"
#include "fuzz_input.h"
#include "import_formats.h"
#include "model/read_model.h"
#include "model/write_model.h"
#include "mutate_tree.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::Json)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  static const std::string path = fuzz_folder() + "/config.json";
  put_file(path, data, size);
  ConfigFile config;
  Diagnostics ignored;
  constexpr int64_t kMostLayers = 64;
  if (read_config(path, config, ignored) && integer_field(config, "num_hidden_layers", 1, 1, ignored) > kMostLayers)
    return 0;
  ImportedModel model;
  const bool good = import_config(path, "", model);
  require(good != has_errors(model.weights.diagnostics), "a refused config has a reason, an accepted one has no error");
  show(model.weights.diagnostics, sources_of(model.config.source));
  if (!good) return 0;
  std::string text;
  std::ignore = write_model(model.graph, model.operations, append_to(text));
  const SourceFile again = fuzz_file("model.json", text);
  Diagnostics second;
  std::ignore = read_model(again, second);
  show(second, sources_of(again));
  require(!has_errors(second), "a model that was written is read again");
  return 0;
}
