// The product: what every rank holds, and what happens at every module's boundary. All that other programs read.
#pragma once

#include <cstdint>
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

// Above these a list is a resource limit: local shapes of one uneven parameter, ranks whose bytes are listed one by
// one.
inline constexpr int64_t kMaxLocalShapes = int64_t{1} << 16;
inline constexpr int64_t kMaxListedShapes = int64_t{1} << 23;  // of all parameters together; some 150 MB
inline constexpr int64_t kMaxListedRanks = int64_t{1} << 20;

// Everything that the manifest says of a parameter but its path. Parameters that agree share one.
struct ParamLayout {
  std::vector<int64_t> shape;
  DType dtype = 0;
  Sharding sharding;
  std::optional<std::vector<Placement>> placements;  // absent: torch has no word for it
  // One for each coordinate of the axes that the spec uses, row-major in mesh order; a single one when all are equal.
  std::vector<std::vector<int64_t>> local_shapes;
  std::string style;                // empty: none
  uint32_t rule = kNoManifestRule;  // into Manifest::rules
  std::string reason;               // rule | fsdp | rule+fsdp | default | tied
  int64_t replicas = 1;             // ranks that hold the same element
  // The square of its gradient's norm is the sum of all ranks' squares over this, once `grad_reduce` is done: every
  // element counts as often as ranks hold it. 0: nobody says, of a buffer or in manifests that were written before.
  int64_t norm_divisor = 0;
  std::vector<GradReduce> grad_reduce;
  std::vector<ParamStep> steps;   // param_steps of the above and of data_axes_of; a buffer has none
  std::string kind;               // of the module that it belongs to: linear | embedding | norm; empty: none of these
  std::vector<std::string> dims;  // names of the dims, "out" and "in" of a linear or an embedding; empty: nobody says
  uint32_t init = kNoInit;        // into Manifest::distributions; kNoInit: nobody says what it is filled with
};

// A path is a piece of Manifest::names.
struct ManifestParam {
  uint64_t name_begin = 0;
  uint32_t name_length = 0;
  uint32_t layout = 0;  // into Manifest::layouts
};

// What a rule's style does with one value of each of its modules: which it is, and whether it goes on as a local
// tensor.
struct RuleValue {
  int arg = 0;
  std::string kwarg;  // empty: it is `arg`
  std::optional<bool> use_local;
  bool operator==(const RuleValue&) const = default;
};

// What a rule with a style says of all of its modules.
struct RuleBoundary {
  AxisId axis = kNoAxis;  // over which alone values change their layout
  std::vector<RuleValue> inputs, outputs;
  uint64_t bare = 0;  // of its modules, those with no parameter in or below them
  bool operator==(const RuleBoundary&) const = default;
};

// How many parameters stand under a rule, by the kind of their modules; those of linears and embeddings whose dims are
// not called "out" and "in" are others.
struct HeldKinds {
  uint64_t linear = 0, embedding = 0, norm = 0, other = 0;
  bool operator==(const HeldKinds&) const = default;
};
inline constexpr std::pair<std::string_view, uint64_t HeldKinds::*> kHeldKinds[] = {
    {"linear", &HeldKinds::linear},
    {"embedding", &HeldKinds::embedding},
    {"norm", &HeldKinds::norm},
    {"other", &HeldKinds::other}};

// What a rule says of its modules and parameters all together, they say each for itself: readers hold the two together.
struct ManifestRule {
  std::string block;  // pattern of the block that it stands in
  bool in_block = false;
  std::string key;
  uint32_t line = 0;
  uint64_t matches = 0;
  std::optional<uint64_t> modules;  // at whose boundary it stands; absent in manifests that were written before
  // In which its modules send values, and gradients back; absent: in the type that these have.
  std::optional<DType> forward_dtype, backward_dtype;
  AxisId sums = kNoAxis;                 // over which its modules sum the gradients of its parameters; kNoAxis: none
  std::optional<HeldKinds> holds;        // absent in manifests that were written before
  std::optional<RuleBoundary> boundary;  // absent there, too, and of what has no style or no axis
};

struct ManifestValue {
  int arg = 0;
  std::string kwarg;
  std::optional<std::vector<Placement>> from, to;
  std::optional<GradientLayouts> gradient;  // absent: the value has none, as token ids
  std::optional<bool> use_local;
  std::vector<Step> forward, backward;
  std::optional<DType> forward_dtype, backward_dtype;  // its rule's, where `forward` or `backward` communicates
};

// What happens at a module's boundary. Modules under one rule share one.
struct ModuleLayout {
  std::string style;
  uint32_t rule = 0;
  std::vector<ManifestValue> inputs, outputs;
};

// A path is a piece of Manifest::names.
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

struct ManifestTotals {
  uint64_t parameters = 0;  // tensors: tied names count once
  uint64_t elements = 0;
  uint64_t bytes = 0;
  std::vector<uint64_t> bytes_per_rank;  // empty above kMaxListedRanks
  uint64_t max_bytes_per_rank = 0;
  uint64_t ideal_bytes_per_rank = 0;       // bytes / ranks, rounded up
  uint64_t replicated_bytes_per_rank = 0;  // of parameters that every rank holds whole

  bool operator==(const ManifestTotals&) const = default;
};

// The step of which a manifest lists the calls, as one rank of the data axes computes it.
struct ManifestStep {
  int64_t batch = 0, sequence = 0;  // of that rank's own inputs; 0: the model file does not say
  std::vector<AxisId> unlisted;     // data axes over which what wraps the model makes calls that are not listed
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
      tied;  // parameters that are one tensor and cut alike: two or more; the first is counted
  std::vector<ModuleLayout> module_layouts;
  std::vector<ManifestModule> modules;
  std::optional<ManifestData> data;
  std::optional<Loss> loss;  // absent: the plan says nothing of it
  std::optional<ManifestFsdp> fsdp;
  std::vector<std::string> remat;
  std::vector<Distribution> distributions;
  bool has_collectives = false;             // the model had a graph of operations
  std::vector<CollectiveCall> collectives;  // of one training step, in order
  ManifestStep step;                        // of these
  StepCosts costs;                          // of the same step, where all of its operations are known
  ManifestTotals totals;
};

// "all_reduce over tp by module, reduce_scatter over fsdp by tpplan"; empty for none.
[[nodiscard]] std::string to_text(std::span<const GradReduce> reductions, const Mesh& mesh);

// "1/4".
[[nodiscard]] std::string norm_weight_text(const ParamLayout& layout);

[[nodiscard]] std::string_view path_of(const Manifest& manifest, const ManifestParam& param);
[[nodiscard]] std::string_view path_of(const Manifest& manifest, const ManifestModule& module);
const ParamLayout& layout_of(const Manifest& manifest, const ManifestParam& param);
const ModuleLayout& layout_of(const Manifest& manifest, const ManifestModule& module);

// Mesh axes that a spec uses, in mesh order: the ones that `local_shapes` runs over.
[[nodiscard]] std::vector<AxisId> axes_in_mesh_order(const PartitionSpec& spec, size_t axis_count);

// The local shapes of a sharding as ParamLayout keeps them. Empty when there would be more than kMaxLocalShapes.
[[nodiscard]] std::vector<std::vector<int64_t>> list_local_shapes(std::span<const int64_t> shape,
                                                                  const Sharding& sharding, const Mesh& mesh);

// The local shape that a rank holds.
const std::vector<int64_t>& local_shape_of(const ParamLayout& layout, const Mesh& mesh,
                                           std::span<const int64_t> coordinate);

// Of each parameter, false for a name of a tensor that stands under another name already.
[[nodiscard]] std::vector<bool> counted_params(const Manifest& manifest);

// How many tensors have each layout: parameters, of the names of one tensor the first.
[[nodiscard]] std::vector<uint64_t> tensors_by_layout(const Manifest& manifest);

// Bytes of all elements of a layout's tensor.
[[nodiscard]] uint64_t whole_bytes(const ParamLayout& layout);

// The axes over which every rank has a batch of its own, FSDP's too, in mesh order.
[[nodiscard]] std::vector<AxisId> data_axes_of(const Manifest& manifest);

// FSDP's axis where the plan names modules that are gathered as one; kNoAxis elsewhere.
[[nodiscard]] AxisId units_axis(const Manifest& manifest);

// The steps of a parameter of this layout.
[[nodiscard]] std::vector<ParamStep> steps_of(const Manifest& manifest, const ParamLayout& layout);

// What one of its steps moves: the payload, and what a rank sends of it in a ring. Gradients have the type of their
// parameter.
[[nodiscard]] uint64_t payload_bytes(const ParamLayout& layout, const ParamStep& step);
[[nodiscard]] uint64_t sent_bytes(const ParamLayout& layout, const ParamStep& step, const Mesh& mesh);

// Sums over the parameters that count. False when the sums leave 64 bits.
[[nodiscard]] bool sum_totals(Manifest& manifest);

}  // namespace tpplan
