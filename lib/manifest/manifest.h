// The manifest: the shards of every rank and the collectives at every module boundary. It is the only file that other
// programs read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/version.h"
#include "manifest/step_costs.h"
#include "sharding/check_sharding.h"
#include "sharding/collective_call.h"
#include "sharding/distribution.h"
#include "sharding/dtype.h"
#include "sharding/loss.h"
#include "sharding/mesh.h"
#include "sharding/partition_spec.h"
#include "sharding/placement.h"
#include "sharding/steps.h"

namespace tpplan {

inline constexpr std::string_view kManifestFormat = "tpplan.manifest/1";
inline constexpr std::string_view kInitAlgorithm = "threefry2x32-jax";
inline constexpr std::string_view kToolVersion = "tpplan " TPPLAN_VERSION;

inline constexpr uint32_t kNoManifestRule = 0xffffffffu;
inline constexpr uint32_t kNoInit = 0xffffffffu;

// Limits of lists: local shapes of one uneven parameter, local shapes in total, and ranks with their bytes.
inline constexpr int64_t kMaxLocalShapes = int64_t{1} << 16;
inline constexpr int64_t kMaxListedShapes = int64_t{1} << 23;  // of all parameters; about 150 MB
inline constexpr int64_t kMaxListedRanks = int64_t{1} << 20;

// All properties of a parameter except its path. Parameters with equal properties share one layout.
struct ParamLayout {
  std::vector<int64_t> shape;
  DType dtype = 0;
  Sharding sharding;
  std::optional<std::vector<Placement>> placements;  // absent if torch has no placement for it
  // One per coordinate of the axes in the spec, row-major in mesh order; only one if all are equal.
  std::vector<std::vector<int64_t>> local_shapes;
  std::string style;                // empty if no style applies
  uint32_t rule = kNoManifestRule;  // into Manifest::rules
  std::string reason;               // rule | fsdp | rule+fsdp | default | tied
  int64_t replicas = 1;             // number of ranks that hold the same element
  // Divisor of the summed squares of all ranks for the squared gradient norm, after `grad_reduce`: it cancels
  // replicated elements. 0 if unspecified, as for buffers and training state.
  int64_t norm_divisor = 0;
  std::vector<GradReduce> grad_reduce;
  std::vector<ParamStep> steps;   // result of steps_of; empty for a buffer
  std::string kind;               // of its module: linear | embedding | norm; empty for others
  std::vector<std::string> dims;  // names of the dims, such as "out" and "in"; empty if unknown
  uint32_t init = kNoInit;        // into Manifest::distributions; kNoInit if the initialization is unknown
};

// A parameter or buffer. Its path is a substring of Manifest::names, if the manifest stores paths (ManifestPaths).
struct ManifestParam {
  uint64_t name_begin = 0;
  uint32_t name_length = 0;
  uint32_t layout = 0;  // into Manifest::layouts
};

// One input or output that a rule's style converts at each of its modules, and whether it becomes a local tensor.
struct RuleValue {
  int arg = 0;
  std::string kwarg;  // keyword; if empty, `arg` is the position
  std::optional<bool> use_local;
  bool operator==(const RuleValue&) const = default;
};

// The boundary that a rule with a style specifies for all its modules.
struct RuleBoundary {
  AxisId axis = kNoAxis;  // the only axis over which the layout of values changes
  std::vector<RuleValue> inputs, outputs;
  uint64_t bare = 0;  // number of its modules without parameters in or below them
  bool operator==(const RuleBoundary&) const = default;
};

// Number of a rule's parameters by the kind of their modules. Parameters of linears and embeddings without dims called
// "out" and "in" count as `other`.
struct KindCounts {
  uint64_t linear = 0, embedding = 0, norm = 0, other = 0;
  bool operator==(const KindCounts&) const = default;
};
inline constexpr std::pair<std::string_view, uint64_t KindCounts::*> kHeldKinds[] = {
    {"linear", &KindCounts::linear},
    {"embedding", &KindCounts::embedding},
    {"norm", &KindCounts::norm},
    {"other", &KindCounts::other}};

// A rule with a summary of its modules and parameters. Readers check the summary against each module and parameter.
struct ManifestRule {
  std::string block;  // pattern of the block that contains it
  bool in_block = false;
  std::string key;
  uint32_t line = 0;
  uint64_t matches = 0;
  uint64_t modules = 0;  // number of modules whose boundary it changes
  // The dtypes in which its modules send values and gradients. Absent if they are sent in their own dtype.
  std::optional<DType> forward_dtype, backward_dtype;
  AxisId sums = kNoAxis;  // axis over which its modules reduce the gradients of its parameters, or kNoAxis
  KindCounts holds;       // number of its parameters by kind
  std::optional<RuleBoundary> boundary;  // absent if the rule has no style or no axis
};

struct ManifestValue {
  int arg = 0;
  std::string kwarg;
  std::optional<std::vector<Placement>> from, to;
  std::optional<GradientLayouts> gradient;  // absent if the value has no gradient, as token ids
  std::optional<bool> use_local;
  std::vector<Step> forward, backward;
  std::optional<DType> forward_dtype, backward_dtype;  // those of the rule, if `forward` or `backward` communicates
};

// The conversions at a module's boundary. Modules with equal conversions share one layout.
struct ModuleLayout {
  std::string style;
  uint32_t rule = 0;
  std::vector<ManifestValue> inputs, outputs;
};

// A module. Its path is a substring of Manifest::names, if the manifest stores paths.
struct ManifestModule {
  uint64_t name_begin = 0;
  uint32_t name_length = 0;
  uint32_t layout = 0;  // into Manifest::module_layouts
};

struct ManifestFsdp {
  AxisId axis = kNoAxis;
  std::string policy;
  int64_t min_weight_size = 0;
  std::vector<std::string> units;
};

struct ManifestData {
  std::vector<AxisId> axes;
  int dim = 0;
};

// Attributes that the code of a module divides by the size of an axis, with their global values.
struct ManifestLocalModule {
  std::string path;
  std::vector<std::pair<std::string, int64_t>> attributes;
};

struct ManifestLocalAttributes {
  AxisId axis = kNoAxis;
  std::vector<ManifestLocalModule> modules;
};

struct ManifestTotals {
  uint64_t parameters = 0;  // number of tensors; tied parameters count once
  uint64_t elements = 0;
  uint64_t bytes = 0;
  std::vector<uint64_t> bytes_per_rank;  // empty above kMaxListedRanks
  uint64_t max_bytes_per_rank = 0;
  uint64_t ideal_bytes_per_rank = 0;       // bytes / model_shard_count, rounded up
  uint64_t replicated_bytes_per_rank = 0;  // of fully replicated parameters

  bool operator==(const ManifestTotals&) const = default;
};

// The training step whose collective calls a manifest lists, as one rank of the data axes computes it.
struct ManifestStep {
  int64_t batch = 0, sequence = 0;  // local sizes of the inputs; 0 if the model file does not specify them
  std::vector<AxisId> unlisted;     // data axes whose calls are made by the model's wrapper and are not listed
};

struct Manifest {
  std::string model_name, model_sha256, plan_sha256;
  Mesh mesh;
  UnevenPolicy uneven = UnevenPolicy::Error;
  std::vector<ManifestRule> rules;
  std::string names;
  std::vector<ParamLayout> layouts;
  std::vector<ManifestParam> parameters, buffers;
  std::vector<std::vector<uint32_t>>
      tied;  // groups of two or more parameters that share one tensor and sharding; totals count the first
  std::vector<ModuleLayout> module_layouts;
  std::vector<ManifestModule> modules;
  std::optional<ManifestData> data;
  std::optional<Loss> loss;  // absent if the plan does not specify it
  std::optional<ManifestFsdp> fsdp;
  std::vector<std::string> remat;
  std::optional<ManifestLocalAttributes> local_attributes;  // absent if no module has any
  std::vector<Distribution> distributions;
  bool has_collectives = false;             // true if the model had traced operations
  std::vector<CollectiveCall> collectives;  // of one training step, in order
  ManifestStep step;                        // the step of `collectives`
  StepCosts costs;                          // of the same step, if all its operations are known
  ManifestTotals totals;
};

// Returns text such as "all_reduce over tp by module, reduce_scatter over fsdp by tpplan"; empty without reductions.
[[nodiscard]] std::string to_text(std::span<const GradReduce> reductions, const Mesh& mesh);

// Returns 1 / norm_divisor as text, such as "1/4".
[[nodiscard]] std::string norm_weight_text(const ParamLayout& layout);

[[nodiscard]] std::string_view path_of(const Manifest& manifest, const ManifestParam& param);
[[nodiscard]] std::string_view path_of(const Manifest& manifest, const ManifestModule& module);

// The paths of the entries of a manifest, by index. A manifest that is only written stores no paths, because a million
// paths need 60 MB.
struct ManifestPaths {
  std::function<std::string_view(uint32_t)> parameter, buffer;  // each path is valid until the next call
  std::function<std::string_view(uint32_t)> module;
};

// Returns the paths that the manifest stores.
[[nodiscard]] ManifestPaths paths_of(const Manifest& manifest);

const ParamLayout& layout_of(const Manifest& manifest, const ManifestParam& param);
const ModuleLayout& layout_of(const Manifest& manifest, const ManifestModule& module);

// Returns the mesh axes of a spec in mesh order. ParamLayout::local_shapes is indexed by their coordinates.
[[nodiscard]] std::vector<AxisId> axes_in_mesh_order(const PartitionSpec& spec, size_t axis_count);

// Returns ParamLayout::local_shapes of a sharding. Empty if there would be more than kMaxLocalShapes.
[[nodiscard]] std::vector<std::vector<int64_t>> list_local_shapes(std::span<const int64_t> shape,
                                                                  const Sharding& sharding, const Mesh& mesh);

// Returns the local shape on the rank at `coordinate`.
const std::vector<int64_t>& local_shape_of(const ParamLayout& layout, const Mesh& mesh,
                                           std::span<const int64_t> coordinate);

// Returns a flag for each parameter: false if it is tied to an earlier one, so that totals count each tensor once.
[[nodiscard]] std::vector<bool> untied_params(const Manifest& manifest);

// Returns the number of parameters with each layout. Tied parameters count once.
[[nodiscard]] std::vector<uint64_t> tensors_by_layout(const Manifest& manifest);

// Returns the bytes of the global tensor.
[[nodiscard]] uint64_t global_bytes(const ParamLayout& layout);

// Returns the axes that shard the batch, including FSDP's, in mesh order.
[[nodiscard]] std::vector<AxisId> data_axes_of(const Manifest& manifest);

// Returns FSDP's axis if the plan names FSDP units, otherwise kNoAxis.
[[nodiscard]] AxisId units_axis(const Manifest& manifest);

// Returns the steps of a parameter with this layout: gathers of its weight and reductions of its gradient.
[[nodiscard]] std::vector<ParamStep> steps_of(const Manifest& manifest, const ParamLayout& layout);

// Returns the bytes of one step: the payload, or the bytes that a rank sends in a ring algorithm. Gradients have the
// dtype of their parameter.
[[nodiscard]] uint64_t payload_bytes(const ParamLayout& layout, const ParamStep& step);
[[nodiscard]] uint64_t sent_bytes(const ParamLayout& layout, const ParamStep& step, const Mesh& mesh);

// Returns the number of shards into which the mesh can split the model: the product of all axis sizes, without data
// axes that shard no parameter. The ideal bytes of a rank are the model's bytes divided by this.
[[nodiscard]] int64_t model_shard_count(const Manifest& manifest);

// Computes Manifest::totals; tied parameters count once. Returns false if a sum overflows 64 bits.
[[nodiscard]] bool sum_totals(Manifest& manifest);

}  // namespace tpplan
