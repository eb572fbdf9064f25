// Reads the sharding files of other programs, as `tpplan export` writes them.
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
  bool has_segments = false;  // a sharded dim has segments
};

// A specs file. Paths are unique, axes are axes of the mesh, and a spec uses each at most once.
struct SpecsFile {
  Mesh mesh;
  UnevenPolicy uneven = UnevenPolicy::Error;
  bool has_all_dims = true;  // false: placements name only sharded dims, so the number of dims is unknown
  std::vector<NamedSpec> specs;
};

inline constexpr size_t kMaxSpecsBytes = size_t{512} * 1024 * 1024;

// The reader of a format. Reports what it cannot read (TP7004 with its span).
using SpecsReader = bool (*)(const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics);

// Reads the file with `reader` and checks that paths are unique. Returns false after reporting an error.
[[nodiscard]] bool read_specs(SpecsReader reader, const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics);

// Reads {"mesh": {"axis_shapes": [...], "axis_names": [...]}, "specs": {path: [null | axis | [axes]]}}.
[[nodiscard]] bool read_jax_specs(const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics);

// Reads `sdy.mesh` with all its axes, and parameters with `sdy.sharding` and `tpplan.path`, in any module. Supports the
// closed, full-axis subset: no open dims (`?`), priorities, sub-axes or device ids.
[[nodiscard]] bool read_shardy_specs(const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics);

// Reads {"mesh": {"mesh_shape": [...], "mesh_dim_names": [...]}, "parameters": {path: [placement]}}. A StridedShard
// that does not follow from axes to its right shards segments, whose sizes are in the model.
[[nodiscard]] bool read_torch_specs(const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics);

// ---- shared by the readers ----

// Reports TP7004; returns false.
bool report_specs_error(Diagnostics& diagnostics, Span span, std::string message, std::string help = {});

// Returns false after reporting an empty or duplicate name, a size below 1, too many axes or too many devices.
[[nodiscard]] bool add_axis(Mesh& mesh, std::string_view name, int64_t size, Span span, Diagnostics& diagnostics);

// Returns false after reporting an axis that the mesh lacks or the spec already uses.
[[nodiscard]] bool add_spec_axis(const Mesh& mesh, std::string_view name, PartitionSpec& spec, Span span,
                                 Diagnostics& diagnostics);

}  // namespace tpplan
