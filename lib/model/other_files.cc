#include "model/other_files.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "diagnostics/remove_findings.h"
#include "model/read_model.h"

namespace tpplan {
namespace {

constexpr size_t kLookedAt = size_t{64} << 10;

bool has_key(std::string_view text, std::string_view key) {
  return text.find(fmt::format("\"{}\"", key)) != std::string_view::npos;
}

bool has_word(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

struct OtherRow {
  bool (*is_it)(std::string_view head);
  std::string_view what;
  std::string_view help;    // `{}` is the file's name
  std::string_view format;  // as which `tpplan import` makes a model of it; empty: it does not
};

constexpr std::string_view kExportTorch =
    "make a model of the module that it belongs to: `python -m tpplan.export --help`";
constexpr std::string_view kExportKeras =
    "make a model of the program that builds it: `python -m tpplan.export --help`";
constexpr std::string_view kConfigInstead = "take the `config.json` beside it: `tpplan init config.json`";

// Eight bytes say how long the JSON behind them is: less than 16 MiB of it in any file that there is.
constexpr OtherRow kOthers[] = {
    {[](std::string_view head) {
       return head.size() > 8 && head[8] == '{' && head.substr(5, 3) == std::string_view("\0\0\0", 3);
     },
     "a safetensors file", "make a model of it: `tpplan import --from safetensors {} -o model.json`", "safetensors"},
    {[](std::string_view head) { return head.starts_with("PK\x03\x04") && has_word(head, "model.weights.h5"); },
     "a file of Keras", kExportKeras, ""},
    {[](std::string_view head) { return head.starts_with("\x89HDF"); }, "weights of Keras (HDF5)", kExportKeras, ""},
    {[](std::string_view head) { return head.starts_with("GGUF"); }, "a GGUF file",
     "take the model that it was made of, its `config.json`: `tpplan init config.json`", ""},
    {[](std::string_view head) {
       return head.starts_with('\x08') && (has_word(head, "onnx") || has_word(head, "pytorch"));
     },
     "an ONNX file", kExportTorch, ""},
    {[](std::string_view head) { return head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5; },
     "a pickle, as torch.save writes it", kExportTorch, ""},
    {[](std::string_view head) {
       return head.starts_with("import ") || head.starts_with("from ") || head.starts_with("#!/");
     },
     "a program", kExportTorch, ""},
    {[](std::string_view head) { return has_key(head, "added_tokens") || has_key(head, "tokenizer_class"); },
     "a tokenizer", kConfigInstead, ""},
    {[](std::string_view head) { return has_key(head, "peft_type"); }, "the config of an adapter",
     "take the `config.json` of the model that it adapts: `tpplan init config.json`", ""},
    {[](std::string_view head) {
       return has_key(head, "bos_token_id") && !has_key(head, "model_type") && !has_key(head, "architectures");
     },
     "a config of how text is generated", kConfigInstead, ""},
    {[](std::string_view head) { return head.starts_with("PK\x03\x04"); }, "a file of torch.save", kExportTorch, ""},
    {[](std::string_view head) { return has_key(head, "weight_map"); }, "the index of a checkpoint",
     "make a model of it: `tpplan import --from safetensors {} -o model.json`", "safetensors"},
    {[](std::string_view head) { return has_key(head, "model_type") || has_key(head, "architectures"); },
     "a config of Hugging Face", "make a model of it: `tpplan import --from config {} -o model.json`", "config"},
    {[](std::string_view head) { return head.find("tpplan.plan/") != std::string_view::npos; }, "a plan",
     "the model comes first, then the plan: tpplan check MODEL PLAN", ""},
};

const OtherRow* find_other(std::string_view text) {
  const std::string_view head = text.substr(0, kLookedAt);
  const auto* row =
      std::find_if(std::begin(kOthers), std::end(kOthers), [head](const OtherRow& other) { return other.is_it(head); });
  return row == std::end(kOthers) ? nullptr : row;
}

}  // namespace

bool report_other_file(const SourceFile& file, Diagnostics& diagnostics) {
  const OtherRow* row = find_other(file.text);
  if (row == nullptr) return false;
  remove_findings(diagnostics, [&file](const Diagnostic& d) { return d.span.file == file.id; });
  report_message(diagnostics, Code::TP2001, {file.id, 0, 0}, fmt::format("this is {}, not a model", row->what),
                 fmt::format(fmt::runtime(row->help), file.name));
  return true;
}

std::string_view import_format_of(std::string_view text) {
  const bool is_model = text.substr(0, kLookedAt).find(kModelFormat) != std::string_view::npos;
  const OtherRow* row = is_model ? nullptr : find_other(text);
  return row == nullptr ? std::string_view{} : row->format;
}

}  // namespace tpplan
