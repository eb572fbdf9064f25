#include "plan/style_of_class.h"

#include <algorithm>
#include <iterator>

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

}  // namespace

std::string_view style_of_class(std::string_view text) {
  text = text.substr(0, text.find('('));
  text = text.substr(text.rfind('.') + 1);  // npos + 1 is 0
  const auto row =
      std::find_if(std::begin(kClasses), std::end(kClasses), [text](const ClassRow& r) { return r.name == text; });
  return row == std::end(kClasses) ? std::string_view() : row->style;
}

}  // namespace tpplan
