// The plan: how a model is sharded, as read from a plan file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "plan/dialects.h"
#include "plan/fsdp_policies.h"
#include "sharding/check_sharding.h"
#include "sharding/distribution.h"
#include "sharding/dtype.h"
#include "sharding/loss.h"
#include "sharding/mesh.h"
#include "sharding/placement.h"
#include "styles/style_table.h"

namespace tpplan {

using RuleId = uint32_t;
inline constexpr RuleId kNoRule = 0xffffffffu;

// The placement of an input or output on the rule's axis; nullopt (`null` in the plan): the value is not changed.
using Layout = std::optional<Placement>;
using KwargLayouts = std::vector<std::pair<std::string, Layout>>;

// The dtype in which ranks send values, and its span.
struct SentDtype {
  DType dtype = 0;
  Span span{};
  bool operator==(const SentDtype& other) const { return dtype == other.dtype; }
};

// Options that are not in the plan are nullopt.
struct RuleOptions {
  std::optional<std::vector<Layout>> input_layouts, desired_input_layouts, output_layouts, desired_output_layouts;
  std::optional<KwargLayouts> input_kwarg_layouts, desired_input_kwarg_layouts;
  std::optional<bool> use_local_input, use_local_output;
  std::optional<int> sequence_dim;
  // The dtypes in which the rule's collectives send values and gradients.
  std::optional<SentDtype> forward_dtype, backward_dtype;
  bool operator==(const RuleOptions&) const = default;
};

// A PartitionSpec with an optional `...`, which replicates all remaining dims of the parameter.
struct SpecTemplate {
  std::vector<DimAxes> before, after;  // around the ellipsis; without one everything is in `before`
  bool has_ellipsis = false;
  bool operator==(const SpecTemplate&) const = default;
};

struct PlanRule {
  std::string key;
  Span key_span, value_span;
  uint32_t line = 0;                // of the key
  const StyleRow* style = nullptr;  // nullptr: the rule is a spec
  std::optional<SpecTemplate> spec;
  RuleOptions options;
  AxisId axis = kNoAxis;     // over which the style shards; kNoAxis for a spec
  bool optional = false;     // can match nothing
  bool of_dim = false;       // the key names a dim, and the spec is the entry of this dim
  bool contiguous = false;   // of a spec: ignores the model's segments of a dim
  uint32_t block = kNoRule;  // into TpPlan::blocks; kNoRule: the key is a full path
};

// A glob for full module paths, with its span.
struct ModulePattern {
  std::string text;
  Span span;
};

// How attention across a sharded sequence is computed: by each rank alone, or by torch's context_parallel() with one of
// its two exchanges.
enum class SequenceAttention : uint8_t { Local, Ring, AllToAll };
inline constexpr std::string_view kSequenceAttentionNames[] = {"", "ring", "all_to_all"};  // by SequenceAttention
static_assert(std::size(kSequenceAttentionNames) == static_cast<size_t>(SequenceAttention::AllToAll) + 1);

struct DataSharding {
  std::vector<AxisId> axes;  // major to minor
  int dim = 0;
  SequenceAttention attention = SequenceAttention::Local;
  Span dim_span{};  // of `dim`, or of `data` if it is not given
};

// Whether torch computes cross-entropy of the output inside loss_parallel(), or outside with targets that are plain
// tensors. Unsaid: any loss.
enum class CrossEntropy : uint8_t { Unspecified, Plain, Parallel };
inline constexpr std::string_view kCrossEntropyNames[] = {"", "plain", "parallel"};  // by CrossEntropy
static_assert(std::size(kCrossEntropyNames) == static_cast<size_t>(CrossEntropy::Parallel) + 1);

// `loss` as written; resolved_loss adds the defaults.
struct PlanLoss {
  Loss given;
  CrossEntropy cross_entropy = CrossEntropy::Unspecified;
  bool names_axes = false, names_gradients = false;
  Span span;
};

struct FsdpSettings {
  AxisId axis = kNoAxis;
  int64_t min_weight_size = int64_t{1} << 18;  // tensors of at most this many elements are not sharded
  std::vector<ModulePattern> patterns;         // parameters to shard, by parameter or module path; empty: all
  std::vector<ModulePattern> units;            // modules that are gathered as one unit; empty: the root
  const FsdpPolicyRow* policy = &fsdp_policy_table()[0];
  Span span;
};

// The distribution of parameters and buffers that a glob matches, for `init` without a checkpoint.
struct InitEntry {
  ModulePattern pattern;
  Distribution distribution;
};

// Attributes that the code of the matching modules divides by the size of the plan's axis, such as numbers of heads.
struct LocalAttributes {
  ModulePattern pattern;
  std::vector<ModulePattern> names;
};

// How a Keras LayoutMap key matches: the function of Python's `re` that a version of Keras uses.
enum class KerasMatch : uint8_t { Fullmatch, Search, Match };
inline constexpr std::string_view kKerasMatchNames[] = {"fullmatch", "search", "match"};  // by KerasMatch
static_assert(std::size(kKerasMatchNames) == static_cast<size_t>(KerasMatch::Match) + 1);

// A suppressed kind of warning, with the reason.
struct Suppression {
  Code code{};
  std::string reason;
  std::string rule;  // key of the rule that the warning is about; empty: any
  Span span;
};

// Axis sizes from the command line. They replace those of the file, and are the mesh of a file without one.
using MeshSizes = std::vector<std::pair<std::string, int64_t>>;

struct TpPlan {
  FileId file = kNoFile;  // that its spans are in
  const DialectRow* dialect = &kGlobDialect;
  KerasMatch keras_match = KerasMatch::Fullmatch;
  Mesh mesh;
  std::vector<Span> axis_spans;  // of the mesh's axes
  AxisId axis = kNoAxis;         // of styles that name none
  UnevenPolicy uneven = UnevenPolicy::Error;
  std::vector<ModulePattern> blocks;
  std::vector<PlanRule> rules;  // file order
  std::optional<DataSharding> data;
  std::optional<PlanLoss> loss;
  std::optional<FsdpSettings> fsdp;
  std::vector<ModulePattern> remat;
  std::vector<LocalAttributes> local_attributes;
  std::vector<InitEntry> init;  // file order; the first that matches decides
  std::vector<Suppression> suppressions;
  Span rules_span;  // of the key `tp_plan` (or `blocks`, or the whole plan)
};

// Returns "colwise", or the spec in JAX's notation with `...`.
[[nodiscard]] std::string rule_value_text(const PlanRule& rule, const Mesh& mesh);

// Returns how uneven shards are treated: by the plan's `uneven`, or by its FSDP policy.
[[nodiscard]] UnevenPolicy uneven_policy_of(const TpPlan& plan);

// Data axes are those along which ranks have different batches, including FSDP's. data_axes_of is in mesh order.
[[nodiscard]] bool is_data_axis(const TpPlan& plan, AxisId axis);
[[nodiscard]] std::vector<AxisId> data_axes_of(const TpPlan& plan);

// Returns the plan's loss with defaults: its axes are the data axes, over which `joined` reduces gradients. nullopt if
// the plan has no loss.
[[nodiscard]] std::optional<Loss> resolved_loss(const TpPlan& plan, Reduction joined);

// True if both rules have the same effect on a parameter.
[[nodiscard]] bool has_same_effect(const PlanRule& a, const PlanRule& b);

// True if both plans are equal, apart from spans.
[[nodiscard]] bool same_plan(const TpPlan& a, const TpPlan& b);

// Prints every setting and rule on a line, for `--print plan`.
[[nodiscard]] std::string dump(const TpPlan& plan);

}  // namespace tpplan
