// The model graph: modules, parameters, buffers and ties, as read from a model file.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/string_index.h"
#include "diagnostics/diagnostics.h"
#include "model/op_graph.h"
#include "sharding/dtype.h"
#include "sharding/partition_spec.h"
#include "sharding/tensor_size.h"

namespace tpplan::programs {
struct RecordedProgram;  // programs/recorded_program.h
}  // namespace tpplan::programs

namespace tpplan {

inline constexpr std::string_view kModelFormat = "tpplan.model/1";
// Limits of a model file.
inline constexpr size_t kMaxModelBytes = size_t{2} * 1024 * 1024 * 1024;
inline constexpr size_t kMaxPathBytes = 4096;
inline constexpr size_t kMaxDims = 64;

enum class Framework : uint8_t { Torch, Jax, Keras };
inline constexpr std::string_view kFrameworkNames[] = {"torch", "jax", "keras"};  // by Framework
static_assert(std::size(kFrameworkNames) == static_cast<size_t>(Framework::Keras) + 1);
[[nodiscard]] inline std::string_view to_text(Framework framework) {
  return kFrameworkNames[static_cast<size_t>(framework)];
}

// The kind of computation of a module, as parallel styles distinguish it.
enum class ModuleKind : uint8_t { Other, Linear, Embedding, Norm, Experts };

// The attributes `in_features` and `out_features` that a torch module has, as bits. The styles of transformers read
// them.
enum Features : uint8_t {
  kNoFeatures = 0,
  kInFeatures = 1,
  kOutFeatures = 2,
  kBothFeatures = 3,
  kFeaturesNotGiven = 4
};

using ModuleId = uint32_t;
using ParamId = uint32_t;
inline constexpr uint32_t kNone = 0xffffffffu;

// Properties of dims other than their sizes. Stored outside Param because most parameters have none.
struct ParamExtras {
  std::vector<std::string_view> dims;          // one name per dim; if empty, module_kinds.h has them
  std::vector<std::string_view> logical_axes;  // one per dim; empty text if the dim has none
  std::vector<DimSegments> segments;
  std::vector<std::pair<size_t, int64_t>> granularity;  // dim, size of the groups that no shard may split
};

// A parameter or a buffer. Views point into the SourceFile or into ModelGraph::strings.
struct Param {
  std::string_view name;  // "weight"
  uint32_t offset = 0;    // position of the name in the model file, which is below 2^32 bytes
  ModuleId module = 0;
  uint32_t shape_begin = 0;  // into ModelGraph::sizes
  uint32_t extras = kNone;   // into ModelGraph::extras
  uint8_t ndim = 0;
  DType dtype = 0;
  bool is_buffer = false;
};

// Attributes of a module. Those that the checks use are fields, 0 if unspecified.
struct ModuleAttributes {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t num_experts = 0;
  int64_t rope_dim = 0;  // `qk_rope_head_dim` of the config, set on the root: the part that mla_kv_a_proj splits off
  std::vector<std::pair<std::string_view, int64_t>> integers;  // all positive integers, by name
};

struct Module {
  std::string_view path;
  uint32_t offset = 0;      // position of the entry in the model file
  uint32_t type = 0;        // into ModelGraph::types
  ParamId first_param = 0;  // the module's direct parameters are consecutive
  uint32_t param_count = 0;
  uint32_t attributes = kNone;  // into ModelGraph::attributes
  ModuleKind kind = ModuleKind::Other;
  bool kind_is_given = false;  // by "kind" in the file, not by the module type
  Features features = kFeaturesNotGiven;
  ModuleId parent = kNone;  // one level up
};

// A group of parameters that share one tensor.
struct Tie {
  std::vector<ParamId> params;  // at least two, all different
  uint32_t offset = 0;
};

// A model in file order. `modules` has the modules of the file, then the ancestors that the file does not list, as
// containers of kind Other. So every prefix of a path is a module.
struct ModelGraph {
  FileId file = kNoFile;  // the file that all offsets refer to
  std::string name;
  Framework framework = Framework::Torch;
  std::vector<Module> modules;
  std::vector<Param> params;
  std::vector<Param> buffers;
  std::vector<int64_t> sizes;
  std::vector<std::string_view> types;
  std::vector<ModuleAttributes> attributes;
  std::vector<ParamExtras> extras;
  std::vector<Tie> ties;
  std::deque<std::string> strings;  // owns text that does not occur verbatim in the file
  StringIndex module_index;
  OpGraph operations;                                        // the traced operations, if the file has them
  std::shared_ptr<const programs::RecordedProgram> program;  // of JAX and Keras, if the file has it; else nullptr
};

[[nodiscard]] inline char separator(Framework framework) { return framework == Framework::Keras ? '/' : '.'; }

[[nodiscard]] std::span<const int64_t> shape_of(const ModelGraph& graph, const Param& param);
[[nodiscard]] std::string_view type_of(const ModelGraph& graph, const Module& module);
[[nodiscard]] std::span<const Param> params_of(const ModelGraph& graph, const Module& module);

// Returns the parameter's full path with the framework's separator. `assign_path` reuses the memory of `path`.
[[nodiscard]] std::string path_of(const ModelGraph& graph, const Param& param);
void assign_path(std::string& path, const ModelGraph& graph, const Param& param);

// Returns kNone if no such module or parameter exists.
[[nodiscard]] ModuleId find_module(const ModelGraph& graph, std::string_view path);
[[nodiscard]] ParamId find_param(const ModelGraph& graph, std::string_view path);
[[nodiscard]] ParamId find_buffer(const ModelGraph& graph, std::string_view path);

// Returns the child `leaf` of the parent of module `id`; kNone if there is none.
[[nodiscard]] ModuleId find_sibling(const ModelGraph& graph, ModuleId id, std::string_view leaf);

// Returns the parent module; kNone for the root.
[[nodiscard]] ModuleId parent_of(const ModelGraph& graph, ModuleId module);
// Returns the last part of a path.
[[nodiscard]] std::string_view leaf_of(const ModelGraph& graph, std::string_view path);
// True if `path` equals `ancestor` or is below it.
[[nodiscard]] bool is_below(const ModelGraph& graph, std::string_view path, std::string_view ancestor);

[[nodiscard]] Span span_of(const ModelGraph& graph, const Param& param);
[[nodiscard]] Span span_of(const ModelGraph& graph, const Module& module);

}  // namespace tpplan
