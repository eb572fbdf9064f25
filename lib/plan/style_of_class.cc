#include "plan/style_of_class.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace tpplan {
namespace {

struct ClassRow {
  std::string_view name, style;
};

// torch 2.13: torch/distributed/tensor/parallel/style.py.
constexpr ClassRow kClasses[] = {
    {"ColwiseParallel", "colwise"},
    {"PrepareModuleInput", "prepare_module_input"},
    {"PrepareModuleInputOutput", "prepare_module_input_output"},
    {"PrepareModuleOutput", "prepare_module_output"},
    {"RowwiseParallel", "rowwise"},
    {"SequenceParallel", "sequence_parallel"},
};

// Megatron-LM, vLLM, and what people say.
constexpr ClassRow kClassWords[] = {
    {"ColumnParallelLinear", "colwise"},
    {"QKVParallelLinear", "colwise"},
    {"MergedColumnParallelLinear", "colwise"},
    {"column_parallel", "colwise"},
    {"columnwise", "colwise"},
    {"column", "colwise"},
    {"col", "colwise"},
    {"RowParallelLinear", "rowwise"},
    {"VocabParallelEmbedding", "rowwise"},
    {"row_parallel", "rowwise"},
    {"row", "rowwise"},
    {"none", "replicate"},
    {"None", "replicate"},
    {"whole", "replicate"},
};

}  // namespace

std::string_view style_of_class(std::string_view text) {
  text = text.substr(0, text.find('('));
  text = text.substr(text.rfind('.') + 1);  // npos + 1 is 0
  for (const std::span<const ClassRow> table :
       {std::span<const ClassRow>(kClasses), std::span<const ClassRow>(kClassWords)}) {
    const auto row = std::find_if(table.begin(), table.end(), [text](const ClassRow& r) { return r.name == text; });
    if (row != table.end()) return row->style;
  }
  return {};
}

std::string_view class_of_style(std::string_view style) {
  const auto* row =
      std::find_if(std::begin(kClasses), std::end(kClasses), [style](const ClassRow& r) { return r.style == style; });
  return row == std::end(kClasses) ? std::string_view() : row->name;
}

}  // namespace tpplan
