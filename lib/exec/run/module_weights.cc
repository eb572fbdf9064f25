#include "exec/run/module_weights.h"

#include <algorithm>

#include "base/keyed_hash.h"

namespace tpplan {

TextMap<std::string_view, ModuleWeight> module_weights(const Manifest& manifest) {
  TextMap<std::string_view, ModuleWeight> weights;
  for (const ManifestParam& param : manifest.parameters) {
    const ParamLayout& layout = layout_of(manifest, param);
    if (layout.shape.size() != 2 || layout.dims.size() != 2 || (layout.kind != "linear" && layout.kind != "embedding"))
      continue;
    if (layout.shape[0] == 0 || layout.shape[1] == 0) continue;  // empty
    const auto in = std::ranges::find(layout.dims, "in"), out = std::ranges::find(layout.dims, "out");
    if (in == layout.dims.end() || out == layout.dims.end()) continue;
    const std::string_view path = path_of(manifest, param);
    const size_t end = path.find_last_of("./");
    weights.try_emplace(path.substr(0, end == std::string_view::npos ? 0 : end),
                        ModuleWeight{&param, static_cast<size_t>(in - layout.dims.begin()),
                                     static_cast<size_t>(out - layout.dims.begin()), layout.kind == "embedding"});
  }
  return weights;
}

}  // namespace tpplan
