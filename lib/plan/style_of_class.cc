#include "plan/style_of_class.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>

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

// Megatron-LM, vLLM, older transformers, and what people say: the word that is left when letters are small, and signs
// and what all of them say of a layer are gone.
constexpr ClassRow kClassWords[] = {
    {"column", "colwise"},
    {"columnwise", "colwise"},
    {"col", "colwise"},
    {"colwise", "colwise"},
    {"mergedcolumn", "colwise"},
    {"qkv", "colwise"},
    {"row", "rowwise"},
    {"rowwise", "rowwise"},
    {"vocab", "rowwise"},
    {"none", "replicate"},
    {"whole", "replicate"},
    {"full", "replicate"},
    {"mirror", "replicate"},
    {"replicate", "replicate"},
    {"replicated", "replicate"},
    {"sequence", "sequence_parallel"},
    {"seq", "sequence_parallel"},
    {"sp", "sequence_parallel"},
    {"packedcol", "packed_colwise"},
    {"packedcolwise", "packed_colwise"},
    {"packedrow", "packed_rowwise"},
    {"packedrowwise", "packed_rowwise"},
};

// `MergedColumnParallelLinear` and `local_colwise` without what does not tell one style from another.
std::string bare_word(std::string_view name) {
  std::string word;
  for (const char c : name) {
    if (c != '_' && c != '-') word += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  for (const std::string_view part : {"linear", "embedding", "parallel", "style"}) {
    if (word.size() > part.size() && word.ends_with(part)) word.resize(word.size() - part.size());
  }
  if (word.starts_with("local") && word.size() > 5) word.erase(0, 5);
  return word;
}

std::string_view style_of_row(std::span<const ClassRow> table, std::string_view name) {
  const auto row = std::find_if(table.begin(), table.end(), [name](const ClassRow& r) { return r.name == name; });
  return row == table.end() ? std::string_view{} : row->style;
}

}  // namespace

std::string_view style_of_class(std::string_view text) {
  text = text.substr(0, text.find('('));
  text = text.substr(text.rfind('.') + 1);  // npos + 1 is 0
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  const std::string_view style = style_of_row(kClasses, text);
  return style.empty() ? style_of_row(kClassWords, bare_word(text)) : style;
}

std::string_view class_of_style(std::string_view style) {
  const auto* row =
      std::find_if(std::begin(kClasses), std::end(kClasses), [style](const ClassRow& r) { return r.style == style; });
  return row == std::end(kClasses) ? std::string_view() : row->name;
}

}  // namespace tpplan
