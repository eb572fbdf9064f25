// The sharding files of other programs, as `tpplan export` writes them, back into specs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "sharding/check_sharding.h"
#include "sharding/mesh.h"
#include "sharding/partition_spec.h"

namespace tpplan {

struct NamedSpec {
  std::string path;
  PartitionSpec spec;
  bool has_segments = false;  // a dim is cut segment by segment, and not as one piece
};

// A specs file. Paths stand once, axes are of the mesh, and none stands twice in a spec.
struct SpecsFile {
  Mesh mesh;
  UnevenPolicy uneven = UnevenPolicy::Error;
  bool has_all_dims = true;  // false: placements name only dims that are cut; the dims behind the last one are unknown
  std::vector<NamedSpec> specs;
};

inline constexpr size_t kMaxSpecsBytes = size_t{512} * 1024 * 1024;

// One format's reader: reports what it cannot use (TP7004, with its place).
using SpecsReader = bool (*)(const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics);

// The file as `reader` reads it, with each path once; false after reporting.
[[nodiscard]] bool read_specs(SpecsReader reader, const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics);

// {"mesh": {"axis_shapes": [...], "axis_names": [...]}, "specs": {path: [null | axis | [axes]]}}
[[nodiscard]] bool read_jax_specs(const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics);

// `sdy.mesh` with all its axes, and parameters with `sdy.sharding` and `tpplan.path`, in any module. The closed,
// full-axis subset: no open dims (`?`), priorities, sub-axes or device ids.
[[nodiscard]] bool read_shardy_specs(const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics);

// {"mesh": {"mesh_shape": [...], "mesh_dim_names": [...]}, "parameters": {path: [placement]}}. A StridedShard that no
// axes to its right explain cuts segments, whose sizes are the model's own affair.
[[nodiscard]] bool read_torch_specs(const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics);

// ---- shared by the readers ----

// Reports TP7004; returns false.
bool specs_fault(Diagnostics& diagnostics, Span span, std::string message, std::string help = {});

// False after reporting a name that is empty or there already, a size below 1, too many axes or too many devices.
[[nodiscard]] bool add_axis(Mesh& mesh, std::string_view name, int64_t size, Span span, Diagnostics& diagnostics);

// False after reporting an axis that the mesh lacks or the spec has already.
[[nodiscard]] bool add_spec_axis(const Mesh& mesh, std::string_view name, PartitionSpec& spec, Span span,
                                 Diagnostics& diagnostics);

}  // namespace tpplan
