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

// transformers, vLLM, Megatron-LM, DeepSpeed, torchtitan, Keras, MaxText, and what people try.
constexpr ForeignRow kForeignHelps[] = {
    {"the plan",
     "tp tp_size tp_degree tensor_parallel_size tensor_model_parallel_size tensor_parallel_degree tensor_parallel "
     "world_size devices num_gpus mesh_shape mesh_axes mesh_dim_names",
     "axes and their sizes stand in `mesh`: `mesh: {dp: 2, tp: 8}`"},
    {"the plan", "dp dp_size ddp data_parallel data_parallel_size",
     "its size stands in `mesh`, and `data: {axes: [dp]}` says that it cuts the batch"},
    {"the plan", "model models model_name model_path architecture",
     "the model is named on the command line, or in `.tpplan.yaml`: remove it"},
    {"the plan", "name description comment comments author", "write a comment, behind `#`"},
    {"the plan", "dtype torch_dtype precision", "the model file says it: remove it"},
    {"the plan", "version", "`format: tpplan.plan/1` says it: remove it"},
    {"the plan", "sequence_parallel", "it is a style of norms, in `tp_plan`: `\"*.norm\": sequence_parallel`"},
    {"the plan", "gradient_checkpointing activation_checkpointing activation_checkpoint recompute checkpointing",
     "modules that are computed again stand in `remat`: `remat: [\"layers.*\"]`"},
    {"the plan", "pp pipeline pipeline_parallel pp_size stages",
     "a plan says nothing of pipelines: give the model of one stage"},
    {"a rule", "gather_output", "write `output_layouts: Replicate`"},
    {"a rule", "input_is_parallel scatter_input",
     "`rowwise` takes a piece, and `rowwise_split_input` a whole input, of which each rank takes its piece"},
    {"a rule", "dim shard_dim split_dim partition_dim tensor_dim",
     "a style knows its dim; a spec has an axis for each: `spec: [tp, null]`"},
    {"a rule", "tp tp_size size world_size", "axes and their sizes stand in `mesh`: `mesh: {tp: 8}`"},
    {"a rule", "name description comment note reason", "write a comment, behind `#`"},
    {"a rule", "bias dtype shape", "the model file says it: remove it"},
    {"`loss`", "loss_parallel parallel enable_loss_parallel", "write `cross_entropy: parallel`"},
};

// Words that mean what one of a plan's own does.
constexpr ForeignRow kForeignOwn[] = {
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

std::string_view own_word(std::string_view where, std::string_view word) {
  return find_foreign_row(kForeignOwn, where, word);
}

}  // namespace tpplan
