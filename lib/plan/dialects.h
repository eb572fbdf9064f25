// The dialects: how the keys of a plan name parameters, and whose result the plan has. One row each. A row stands in
// lib/dialects, in the file that has the dialect's functions, above all that they use; here is the one door through
// which the phases below reach them. No phase asks which dialect it is in: it asks the row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "diagnostics/diagnostics.h"
#include "plan/style_table.h"

namespace tpplan {

struct BoundaryMatch;
struct Cut;
struct Inference;
struct KeyHits;
struct MatchTable;
struct ModelGraph;
struct Module;
struct Param;
struct ParamMatch;
struct ShardingTable;
struct TpPlan;

// Names: keys are the logical names of dims, and the rules a list in which a name may stand twice.
enum class KeySyntax : uint8_t { Glob, Regex, Names };
// What a key can name.
enum class KeyTargets : uint8_t { ModulesAndParameters, Modules, Parameters, Dims };
// Who runs a model by such a plan: tpplan's own packages by the manifest, torch's parallelize_module, transformers'
// `tp_plan`, or a program's own jax.shard_map, which is what a graph recorded so says of itself.
enum class PlanRuntime : uint8_t { Tpplan, Torch, Transformers, ShardMap };

struct DialectRow {
  std::string_view name;
  StyleSet styles = kOwnStyles;  // whose meaning style names have
  PlanRuntime runtime = PlanRuntime::Tpplan;

  // Keys.
  KeySyntax keys = KeySyntax::Glob;
  KeyTargets targets = KeyTargets::ModulesAndParameters;
  bool slash_is_dot = false;       // `/` and `.` are the same in keys and paths
  bool reads_keras_match = false;  // the plan's `keras_match` means something
  Code dead_rule = Code::TP4001;   // a rule that matches nothing; TP4002 where rules are for many models

  // Results.
  bool follows_framework = false;         // the framework's result stands, and what is wrong with it is a warning
  bool distributes_modules_once = false;  // one module under two paths is sharded by whichever comes first
  bool takes_ids_for_shards = false;      // token ids are taken for shards of the last dim where nothing is said
  bool passes_whole_sizes_on = false;     // an uneven local output does not lose its whole size

  // Words for help.
  std::string_view keep_whole = "replicate";  // the style of a parameter that stays whole on purpose; empty: there is
                                              // none, and a rule is left out
  std::string_view norm_beside_sequence = "sequence_parallel";        // the style of a norm beside such norms
  std::string_view norm_of_heads = "replicated_with_grad_allreduce";  // and of one that sees some of the heads

  // Finds the rule of each parameter and boundary (match/match_plan.h). What is kept of plans before may be nullptr.
  void (*match)(const TpPlan&, const ModelGraph&, MatchTable&, Diagnostics&, KeyHits*) = nullptr;
  // Whether the style of a rule whose key names the module fits it, and which dim of a parameter it cuts
  // (infer/style_cut.h). Both say what is wrong.
  bool (*supports_module)(const Inference&, const ParamMatch&, const Module&) = nullptr;
  Cut (*cut)(const Inference&, const ParamMatch&, const Module&, const Param&) = nullptr;
  // Reports modules that the framework refuses whatever they own; nullptr: there are none.
  void (*check_modules)(const Inference&, const MatchTable&, const ShardingTable&) = nullptr;
};

extern const DialectRow kGlobDialect, kRegexDialect, kTorchDialect, kTransformersDialect, kKerasDialect,
    kLogicalDialect;

// All of them; the first is what a plan without `dialect:` has.
[[nodiscard]] std::span<const DialectRow* const> dialect_table();

}  // namespace tpplan
