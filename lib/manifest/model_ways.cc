#include "manifest/model_ways.h"

#include <algorithm>

namespace tpplan {

int64_t model_ways(const Manifest& manifest) {
  std::vector<bool> cuts(manifest.mesh.axes.size(), true);
  if (manifest.data) {
    for (const AxisId axis : manifest.data->axes) cuts[axis] = manifest.fsdp && manifest.fsdp->axis == axis;
  }
  for (const ParamLayout& layout : manifest.layouts) {
    for (const DimAxes& axes : layout.sharding.spec) {
      for (const AxisId axis : axes) cuts[axis] = true;
    }
  }
  int64_t ways = 1;
  for (size_t axis = 0; axis < cuts.size(); ++axis) ways *= cuts[axis] ? manifest.mesh.axes[axis].size : 1;
  return ways;
}

}  // namespace tpplan
