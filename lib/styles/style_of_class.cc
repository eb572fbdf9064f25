#include "styles/style_of_class.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "styles/style_table.h"

namespace tpplan {
namespace {

struct ClassRow {
  std::string_view name, style;
};

// Words of Megatron-LM, vLLM, older transformers, and common usage, as bare_word returns them.
constexpr ClassRow kClassWords[] = {
    {"column", "colwise"},
    {"columnwise", "colwise"},
    {"col", "colwise"},
    {"colwise", "colwise"},
    {"mergedcolumn", "colwise"},
    {"qkv", "colwise"},
    {"linearlayer", "colwise"},                   // DeepSpeed AutoTP
    {"linearallreduce", "rowwise"},               // DeepSpeed AutoTP
    {"lmheadlinearallreduce", "rowwise"},         // DeepSpeed AutoTP
    {"parallellmhead", "colwise_gather_output"},  // vLLM
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

// Styles of transformers 4 (integrations/tensor_parallel.py of 4.51 to 4.57), which transformers 5 does not have.
constexpr ClassRow kOldStyles[] = {
    {"local_colwise", "`packed_colwise` on `experts.gate_up_proj`, `colwise` on layers of single experts"},
    {"local_rowwise", "`rowwise` on `experts.down_proj`"},
    {"local_packed_rowwise", "`packed_rowwise`"},
    {"local", "`moe_tp_experts` on the module of the experts"},
    {"gather", "`moe_tp_experts` on the module of the experts, which sums their outputs"},
    {"ep_router", "`ep_dispatch_experts` on the module of the experts"},
};

// Returns a name in lower case without punctuation and without parts that do not distinguish styles, such as "parallel"
// and "linear" in `MergedColumnParallelLinear`.
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

}  // namespace

std::string_view style_of_class(std::string_view text) {
  text = text.substr(0, text.find('('));
  text = text.substr(text.rfind('.') + 1);  // npos + 1 is 0
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  for (const StyleRow& row : style_table()) {
    if (!text.empty() && row.torch_class == text) return row.name;
  }
  const std::string word = bare_word(text);
  const auto* row =
      std::find_if(std::begin(kClassWords), std::end(kClassWords), [&](const ClassRow& r) { return r.name == word; });
  return row == std::end(kClassWords) ? std::string_view{} : row->style;
}

std::string_view successor_of_style(std::string_view name) {
  const auto row = std::ranges::find(kOldStyles, name, &ClassRow::name);
  return row == std::end(kOldStyles) ? std::string_view{} : row->style;
}

}  // namespace tpplan
