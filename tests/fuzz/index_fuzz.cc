// Any bytes as the index of shards, next to two shards. An accepted index has each tensor once, in an existing shard.
#include "fuzz_disk.h"
#include "fuzz_input.h"
#include "mutate_tree.h"
#include "weights/weight_files.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::Json)

namespace {

void put_shard(const std::string& name, std::string_view tensor) {
  const std::string header =
      "{\"" + std::string(tensor) + "\": {\"dtype\": \"U8\", \"shape\": [2], \"data_offsets\": [0, 2]}}";
  const std::string file = std::string{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0} + header + "ab";
  tpplan::put_file(tpplan::fuzz_folder() + "/" + name, reinterpret_cast<const uint8_t*>(file.data()), file.size());
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  put_shard("one.safetensors", "a.weight");
  put_shard("two.safetensors", "b.weight");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  static const std::string path = fuzz_folder() + "/model.safetensors.index.json";
  put_file(path, data, size);
  WeightFiles files;
  const bool good = read_weight_files(path, files);
  require(good != has_errors(files.diagnostics), "a refused index has a reason, an accepted one has no error");
  if (good) {
    require(files.tensors.size() <= 2, "there are no more tensors than the shards have");
    for (const WeightPlace& place : files.tensors)
      require(place.file < files.headers.size() && place.tensor < files.headers[place.file].tensors.size(),
              "a tensor is one of its shard's");
  }
  show(files.diagnostics, sources_of(source_files_of(files)));
  return 0;
}
