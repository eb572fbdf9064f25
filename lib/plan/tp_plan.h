// How the owner of a model wants it cut up: the plan, as read from a plan file.
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
#include "plan/style_table.h"
#include "sharding/check_sharding.h"
#include "sharding/distribution.h"
#include "sharding/dtype.h"
#include "sharding/loss.h"
#include "sharding/mesh.h"
#include "sharding/placement.h"

namespace tpplan {

using RuleId = uint32_t;
inline constexpr RuleId kNoRule = 0xffffffffu;

// A layout of an input or output on the rule's axis; absent: a `null` placeholder, this value is left alone.
using Layout = std::optional<Placement>;
using KwargLayouts = std::vector<std::pair<std::string, Layout>>;

// A type that ranks send values in, and where it is written.
struct SentDtype {
  DType dtype = 0;
  Span span{};
  bool operator==(const SentDtype& other) const { return dtype == other.dtype; }
};

// Absent members were not written.
struct RuleOptions {
  std::optional<std::vector<Layout>> input_layouts, desired_input_layouts, output_layouts, desired_output_layouts;
  std::optional<KwargLayouts> input_kwarg_layouts, desired_input_kwarg_layouts;
  std::optional<bool> use_local_input, use_local_output;
  std::optional<int> sequence_dim;
  // The types in which what the rule moves between ranks is sent: values, and gradients on their way back.
  std::optional<SentDtype> forward_dtype, backward_dtype;
  bool operator==(const RuleOptions&) const = default;
};

// A PartitionSpec as written; `...` stands for as many whole dims as the parameter has left.
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
  bool optional = false;     // may match nothing
  bool of_dim = false;       // the key names a dim, and the spec is this dim's one entry
  bool contiguous = false;   // of a spec: a dim is cut as one piece, whatever segments the model names
  uint32_t block = kNoRule;  // into TpPlan::blocks; kNoRule: the key is a whole path
};

// A pattern for module paths (glob, whole path), with its place.
struct ModulePattern {
  std::string text;
  Span span;
};

struct DataSharding {
  std::vector<AxisId> axes;  // major to minor
  int dim = 0;
  Span dim_span{};  // of `dim`, or of `data` where it is not said
};

// Where torch computes cross-entropy of the result: inside its loss_parallel(), or outside of it with targets that are
// plain tensors. Unsaid: any loss.
enum class CrossEntropy : uint8_t { Unsaid, Plain, Parallel };
inline constexpr std::string_view kCrossEntropyNames[] = {"", "plain", "parallel"};  // by CrossEntropy
static_assert(std::size(kCrossEntropyNames) == static_cast<size_t>(CrossEntropy::Parallel) + 1);

// `loss` as it is written; what it leaves out says resolved_loss.
struct PlanLoss {
  Loss told;
  CrossEntropy cross_entropy = CrossEntropy::Unsaid;
  bool names_axes = false, names_gradients = false;
  Span span;
};

struct FsdpSettings {
  AxisId axis = kNoAxis;
  int64_t min_weight_size = int64_t{1} << 18;  // elements; up to and including this many stay as they are
  std::vector<ModulePattern> patterns;         // parameters it may shard, by parameter or module path; empty: all
  std::vector<ModulePattern> units;            // modules gathered as one; empty: the root
  const FsdpPolicyRow* policy = &fsdp_policy_table()[0];
  Span span;
};

// What the parameters and buffers that a glob matches are filled with, when there is no checkpoint.
struct InitEntry {
  ModulePattern pattern;
  Distribution distribution;
};

// How a Keras LayoutMap key matches, by the function of Python's `re` that Keras has used over time.
enum class KerasMatch : uint8_t { Fullmatch, Search, Match };
inline constexpr std::string_view kKerasMatchNames[] = {"fullmatch", "search", "match"};  // by KerasMatch
static_assert(std::size(kKerasMatchNames) == static_cast<size_t>(KerasMatch::Match) + 1);

// A kind of warning that the owner has looked at: not reported, for the reason that stands there.
struct Suppression {
  Code code{};
  std::string reason;
  std::string rule;  // key of the rule that the warning must be about; empty: any
  Span span;
};

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
  std::vector<InitEntry> init;  // file order; the first that matches decides
  std::vector<Suppression> suppressions;
  Span rules_span;  // of the key `tp_plan` (or `blocks`, or the whole plan)
};

// "colwise", or the spec in JAX's notation with `...`.
[[nodiscard]] std::string treatment_text(const PlanRule& rule, const Mesh& mesh);

// How pieces that do not divide are cut: as the plan says of its rules, or as its FSDP policy cuts them anyway.
[[nodiscard]] UnevenPolicy pieces_of(const TpPlan& plan);

// Over data axes, FSDP's among them, every rank has a batch of its own. In mesh order.
[[nodiscard]] bool is_data_axis(const TpPlan& plan, AxisId axis);
[[nodiscard]] std::vector<AxisId> data_axes_of(const TpPlan& plan);

// The loss with what its plan leaves to others: it runs over the data axes, and over these its gradients become what
// `joined` says. Absent where the plan has none.
[[nodiscard]] std::optional<Loss> resolved_loss(const TpPlan& plan, Reduction joined);

// True when both rules would do the same to a parameter.
[[nodiscard]] bool same_treatment(const PlanRule& a, const PlanRule& b);

// True when both say the same, wherever it stands in a file.
[[nodiscard]] bool same_plan(const TpPlan& a, const TpPlan& b);

// `--print plan`: every setting and rule, one a line.
[[nodiscard]] std::string dump(const TpPlan& plan);

}  // namespace tpplan
