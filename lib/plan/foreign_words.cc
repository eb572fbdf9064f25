#include "plan/foreign_words.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace tpplan {
namespace {

struct ForeignRow {
  std::string_view where, words;  // words between spaces
  std::string_view help;
};

// Words of transformers, vLLM, Megatron-LM, DeepSpeed, torchtitan, Keras, MaxText, and frequent guesses.
constexpr ForeignRow kForeignHelps[] = {
    {"the plan",
     "tp tp_size tp_degree tensor_parallel_size tensor_model_parallel_size tensor_parallel_degree tensor_parallel "
     "world_size devices num_gpus mesh_shape mesh_axes mesh_dim_names",
     "write axes and their sizes in `mesh`: `mesh: {dp: 2, tp: 8}`"},
    {"the plan", "dp dp_size ddp data_parallel data_parallel_size",
     "write its size in `mesh`, and shard the batch over it with `data: {axes: [dp]}`"},
    {"the plan", "model models model_name model_path architecture",
     "remove it: the command line or `.tpplan.yaml` names the model"},
    {"the plan", "name description comment comments author", "write a comment after `#`"},
    {"the plan", "dtype torch_dtype precision", "remove it: the model file specifies it"},
    {"the plan", "version", "remove it: `format: tpplan.plan/1` contains the version"},
    {"the plan", "sequence_parallel",
     "remove it, and write rules for embedding, norms, attention, MLP and head together, as in "
     "plans/llama-fsdp-tp.yaml"},
    {"the plan", "gradient_checkpointing activation_checkpointing activation_checkpoint recompute checkpointing",
     "list the modules to recompute in `remat`: `remat: [\"layers.*\"]`"},
    {"the plan", "pp pipeline pipeline_parallel pp_size stages",
     "remove it, and use the model of one stage: plans do not describe pipelines"},
    {"a rule", "gather_output", "write `output_layouts: Replicate`"},
    {"a rule", "input_is_parallel scatter_input",
     "use `rowwise` for a sharded input, or `rowwise_split_input` to split a replicated input"},
    {"a rule", "dim shard_dim split_dim partition_dim tensor_dim",
     "remove it for a style, whose dim is fixed, or write a spec with one entry for each dim: `spec: [tp, null]`"},
    {"a rule", "tp tp_size size world_size", "write axes and their sizes in `mesh`: `mesh: {tp: 8}`"},
    {"a rule", "name description comment note reason", "write a comment after `#`"},
    {"a rule", "bias dtype shape", "remove it: the model file specifies it"},
    {"`loss`", "loss_parallel parallel enable_loss_parallel", "write `cross_entropy: parallel`"},
};

// Words that are equivalent to a word of a plan.
constexpr ForeignRow kForeignEquivalents[] = {
    {"the plan",
     "base_model_tp_plan base_model_ep_plan parallelize_plan parallel_plan layout_map rules plan sharding_rules "
     "partition_rules logical_axis_rules shardings",
     "tp_plan"},
    {"the plan", "device_mesh", "mesh"},
    {"a rule", "placements placement partition_spec sharding shard_spec pspec layout", "spec"},
    {"a rule", "parallel parallel_style type kind", "style"},
    {"a rule", "mesh_axis mesh_dim", "axis"},
    {"`dialect`", "hf huggingface HF transformer", "transformers"},
    {"`dialect`", "fnmatch globs wildcard", "glob"},
    {"`dialect`", "re re2 regexp regular", "regex"},
    {"`dialect`", "flax maxtext MaxText t5x", "logical"},
};

std::string_view find_foreign_row(std::span<const ForeignRow> rows, std::string_view where, std::string_view word) {
  const auto has_word = [&](const ForeignRow& row) {
    for (std::string_view rest = row.words; row.where == where && !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      if (rest.substr(0, end) == word) return true;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return false;
  };
  const auto found = std::find_if(rows.begin(), rows.end(), has_word);
  return found == rows.end() ? std::string_view{} : found->help;
}

}  // namespace

std::string_view foreign_word_help(std::string_view where, std::string_view word) {
  return find_foreign_row(kForeignHelps, where, word);
}

std::string_view equivalent_word(std::string_view where, std::string_view word) {
  return find_foreign_row(kForeignEquivalents, where, word);
}

}  // namespace tpplan
