// Any bytes as a manifest. An accepted manifest is written and read back with the same bytes, and the slices of every
// rank can be computed.
#include "fuzz_input.h"
#include "manifest/read_manifest.h"
#include "manifest/write_manifest.h"
#include "mutate_tree.h"
#include "sharding/shard_slice.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::Json)

namespace tpplan {
namespace {

std::string written(const Manifest& manifest) {
  std::string text;
  std::ignore = write_manifest(manifest, paths_of(manifest), append_to(text));
  return text;
}

void slice_all(const Manifest& manifest) {
  const int64_t ranks = device_count(manifest.mesh);
  for (const int64_t rank : {int64_t{0}, ranks / 2, ranks - 1}) {
    const std::vector<int64_t> coordinate = coordinate_of(manifest.mesh, rank);
    for (const ManifestParam& param : manifest.parameters) {
      const ParamLayout& layout = layout_of(manifest, param);
      std::ignore = shard_slice(layout.shape, layout.sharding, manifest.mesh, coordinate);
      std::ignore = local_shape_of(layout, manifest.mesh, coordinate);
    }
  }
}

}  // namespace
}  // namespace tpplan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  const SourceFile file = fuzz_file("manifest.json", data, size);
  Diagnostics diagnostics;
  const Manifest manifest = read_manifest(file, diagnostics);
  show(diagnostics, sources_of(file));
  if (has_errors(diagnostics)) return 0;
  slice_all(manifest);
  const SourceFile again = fuzz_file("again.json", written(manifest));
  const Manifest second = read_manifest(again, diagnostics);
  require(!has_errors(diagnostics), "a manifest that was read and written is read again");
  require(written(second) == again.text, "writing what was read changes nothing");
  return 0;
}
