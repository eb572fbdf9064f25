// The dialects: how the keys of a plan name parameters, and which framework runs it. Each has a row in
// lib/resolve/dialects, in the file with its functions. Phases never compare dialects: they read the columns of the
// row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "diagnostics/diagnostics.h"
#include "styles/style_table.h"

namespace tpplan {

struct BoundaryMatch;
struct StyleDim;
struct InferenceInput;
struct KeyHits;
struct MatchTable;
struct ModelGraph;
struct Module;
struct Param;
struct ParamMatch;
struct ShardingTable;
struct TpPlan;

// Names: keys are logical names of dims, and the rules are a list in which a name can occur twice.
enum class KeySyntax : uint8_t { Glob, Regex, Names };
// What a key can name.
enum class KeyTargets : uint8_t { ModulesAndParameters, Modules, Parameters, Dims };
// The runtime that applies the plan: tpplan's own packages (by the manifest), torch's parallelize_module, transformers'
// `tp_plan`, or jax.shard_map, if the graph was traced under it.
enum class PlanRuntime : uint8_t { Tpplan, Torch, Transformers, ShardMap };

struct DialectRow {
  std::string_view name;
  StyleSet styles = kTpplanStyles;  // the set that defines the style names
  PlanRuntime runtime = PlanRuntime::Tpplan;

  // Keys.
  KeySyntax keys = KeySyntax::Glob;
  bool keys_are_names = false;  // of globs, keys know a star in place of a number alone: no `?` and no `[a]`
  KeyTargets targets = KeyTargets::ModulesAndParameters;
  bool slash_is_dot = false;             // `/` and `.` are the same in keys and paths
  bool reads_keras_match = false;        // the dialect uses the plan's `keras_match`
  Code dead_rule = Code::UnmatchedRule;  // for a rule that matches nothing; TP4002 if rules are written for many models

  // Results.
  bool follows_framework = false;         // the result is the framework's, and its errors are warnings
  bool distributes_modules_once = false;  // the first rule shards a module that has two paths
  bool ties_after_sharding = false;       // tied parameters become one tensor, sharded as the embedding
  bool takes_ids_for_shards = false;      // by default token ids are assumed to be sharded in the last dim
  bool passes_global_sizes = false;       // an uneven local output keeps its global size

  // Words for help.
  std::string_view replicate_style =
      "replicate";  // the style of a parameter that is replicated on purpose; empty: no rule
  std::string_view sequence_norm_style = "sequence_parallel";         // the style of norms between sequence shards
  std::string_view norm_of_heads = "replicated_with_grad_allreduce";  // the style of norms of local heads

  // Finds the rule of each parameter and boundary (resolve/match/match_plan.h). The cache of earlier plans can be
  // nullptr.
  void (*match)(const TpPlan&, const ModelGraph&, MatchTable&, Diagnostics&, KeyHits*) = nullptr;
  // supports_module: true if the style of a rule fits a module that its key names. dim_of_style: the dim of a parameter
  // that the style shards (resolve/infer/style_dim.h). Both report errors.
  bool (*supports_module)(const InferenceInput&, const ParamMatch&, const Module&) = nullptr;
  StyleDim (*dim_of_style)(const InferenceInput&, const ParamMatch&, const Module&, const Param&) = nullptr;
  // Reports modules that the framework rejects in any case; nullptr if it rejects none.
  void (*check_modules)(const InferenceInput&, const MatchTable&, const ShardingTable&) = nullptr;
};

extern const DialectRow kGlobDialect, kRegexDialect, kTorchDialect, kTransformersDialect, kKerasDialect,
    kLogicalDialect;

// Returns all dialects; the first is the default of `dialect:`.
[[nodiscard]] std::span<const DialectRow* const> dialect_table();

}  // namespace tpplan
