// What a model is: modules, parameters, buffers and ties, as read from a model file.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/string_index.h"
#include "diagnostics/diagnostics.h"
#include "graph/op_graph.h"
#include "sharding/dtype.h"
#include "sharding/partition_spec.h"
#include "sharding/tensor_size.h"

namespace tpplan {

enum class Framework : uint8_t { Torch, Jax, Keras };
inline constexpr std::string_view kFrameworkNames[] = {"torch", "jax", "keras"};  // by Framework
static_assert(std::size(kFrameworkNames) == static_cast<size_t>(Framework::Keras) + 1);
[[nodiscard]] inline std::string_view to_text(Framework framework) {
  return kFrameworkNames[static_cast<size_t>(framework)];
}

// What a module computes, as far as styles care.
enum class ModuleKind : uint8_t { Other, Linear, Embedding, Norm, Experts };

// Which of `in_features` and `out_features` a module of torch has, as bits: transformers asks for them.
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

// What the model file says of dims beyond their sizes. Not of most models, so kept apart from Param.
struct ParamExtras {
  std::vector<std::string_view> dims;          // names, one a dim; empty: by the table of module_kinds.h
  std::vector<std::string_view> logical_axes;  // what rules over names call each dim; an empty one: they do not
  std::vector<DimSegments> segments;
  std::vector<std::pair<size_t, int64_t>> granularity;  // dim, elements that must stay together
};

// A parameter or a buffer. Views point into the SourceFile or into ModelGraph::strings.
struct Param {
  std::string_view name;  // "weight"
  uint32_t offset = 0;    // place of the name in the model file, which is below 2^32 bytes
  ModuleId module = 0;
  uint32_t shape_begin = 0;  // into ModelGraph::sizes
  uint32_t extras = kNone;   // into ModelGraph::extras
  uint8_t ndim = 0;
  DType dtype = 0;
  bool is_buffer = false;
};

// Attributes that checks know. 0: not given.
struct ModuleAttributes {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t num_experts = 0;
  int64_t rope_dim = 0;  // `qk_rope_head_dim` of the config, on the root: what mla_kv_a_proj splits off
};

struct Module {
  std::string_view path;
  uint32_t offset = 0;      // place of the entry in the model file
  uint32_t type = 0;        // into ModelGraph::types
  ParamId first_param = 0;  // its own parameters are consecutive
  uint32_t param_count = 0;
  uint32_t attributes = kNone;  // into ModelGraph::attributes
  ModuleKind kind = ModuleKind::Other;
  bool kind_is_given = false;  // by the file's "kind", not by the table
  Features features = kFeaturesNotGiven;
  ModuleId parent = kNone;  // one level up
};

// Names of one and the same tensor.
struct Tie {
  std::vector<ParamId> params;  // at least two, all different
  uint32_t offset = 0;
};

// Everything stands in file order. The first `modules` are those of the file; ancestors that it does not list follow as
// plain containers, so that every prefix of a path is a module.
struct ModelGraph {
  FileId file = kNoFile;  // that offsets of modules, parameters and ties are in
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
  std::deque<std::string> strings;  // text that does not stand in the file as it is
  StringIndex module_index;
  OpGraph operations;  // what the model computes, where the file says it
};

[[nodiscard]] inline char separator(Framework framework) { return framework == Framework::Keras ? '/' : '.'; }

[[nodiscard]] std::span<const int64_t> shape_of(const ModelGraph& graph, const Param& param);
[[nodiscard]] std::string_view type_of(const ModelGraph& graph, const Module& module);
[[nodiscard]] std::span<const Param> params_of(const ModelGraph& graph, const Module& module);

// "model.embed_tokens" + "weight" in the framework's writing. The second form reuses the buffer's memory.
[[nodiscard]] std::string path_of(const ModelGraph& graph, const Param& param);
void assign_path(std::string& path, const ModelGraph& graph, const Param& param);

// kNone when there is none.
[[nodiscard]] ModuleId find_module(const ModelGraph& graph, std::string_view path);
[[nodiscard]] ParamId find_param(const ModelGraph& graph, std::string_view path);
[[nodiscard]] ParamId find_buffer(const ModelGraph& graph, std::string_view path);

// The module one level up, kNone for the root.
[[nodiscard]] ModuleId parent_of(const ModelGraph& graph, ModuleId module);
// Last atom of a path.
[[nodiscard]] std::string_view leaf_of(const ModelGraph& graph, std::string_view path);
// True when `path` is `ancestor` or below it.
[[nodiscard]] bool is_below(const ModelGraph& graph, std::string_view path, std::string_view ancestor);

[[nodiscard]] Span span_of(const ModelGraph& graph, const Param& param);
[[nodiscard]] Span span_of(const ModelGraph& graph, const Module& module);

// `--print model`: one line a module with its kind, one a parameter with shape, dtype and dim names.
[[nodiscard]] std::string dump(const ModelGraph& graph);

}  // namespace tpplan
