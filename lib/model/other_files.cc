#include "model/other_files.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "diagnostics/remove_diagnostics.h"
#include "model/model_graph.h"

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
  std::string_view help;    // `{}` is replaced by the file's name
  std::string_view format;  // format for `tpplan import`; empty if it cannot import the file
};

constexpr std::string_view kExportTorch = "export a model file of its module: `python -m tpplan.export --help`";
constexpr std::string_view kExportKeras =
    "export a model file from the program that builds the model: `python -m tpplan.export --help`";
constexpr std::string_view kConfigInstead = "use the `config.json` in the same folder: `tpplan init config.json`";

// The first row recognizes safetensors: eight bytes with the length of the JSON header, which is below 2^40 in
// practice.
constexpr OtherRow kOthers[] = {
    {[](std::string_view head) {
       return head.size() > 8 && head[8] == '{' && head.substr(5, 3) == std::string_view("\0\0\0", 3);
     },
     "a safetensors file", "convert it to a model file: `tpplan import --from safetensors {} -o model.json`",
     "safetensors"},
    {[](std::string_view head) { return head.starts_with("PK\x03\x04") && has_word(head, "model.weights.h5"); },
     "a Keras file", kExportKeras, ""},
    {[](std::string_view head) { return head.starts_with("\x89HDF"); }, "a Keras weights file (HDF5)", kExportKeras,
     ""},
    {[](std::string_view head) { return head.starts_with("GGUF"); }, "a GGUF file",
     "use the `config.json` of the original model: `tpplan init config.json`", ""},
    {[](std::string_view head) {
       return head.starts_with('\x08') && (has_word(head, "onnx") || has_word(head, "pytorch"));
     },
     "an ONNX file", kExportTorch, ""},
    {[](std::string_view head) {
       return head.starts_with('\x80') && has_word(head, "torch.distributed.checkpoint.metadata");
     },
     "the metadata of a distributed checkpoint",
     "convert it to a model file: `tpplan import --from dcp {} -o model.json`", "dcp"},
    {[](std::string_view head) { return head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5; },
     "a pickle file of torch.save", kExportTorch, ""},
    {[](std::string_view head) {
       return head.starts_with("import ") || head.starts_with("from ") || head.starts_with("#!/");
     },
     "a program", kExportTorch, ""},
    {[](std::string_view head) { return has_key(head, "added_tokens") || has_key(head, "tokenizer_class"); },
     "a tokenizer", kConfigInstead, ""},
    {[](std::string_view head) { return has_key(head, "peft_type"); }, "an adapter config",
     "use the `config.json` of the model that it adapts: `tpplan init config.json`", ""},
    {[](std::string_view head) {
       return has_key(head, "bos_token_id") && !has_key(head, "model_type") && !has_key(head, "architectures");
     },
     "a text generation config", kConfigInstead, ""},
    {[](std::string_view head) { return head.starts_with("PK\x03\x04"); }, "a torch.save file", kExportTorch, ""},
    {[](std::string_view head) { return has_key(head, "weight_map"); }, "a checkpoint index",
     "convert it to a model file: `tpplan import --from safetensors {} -o model.json`", "safetensors"},
    {[](std::string_view head) { return has_key(head, "model_type") || has_key(head, "architectures"); },
     "a Hugging Face config", "convert it to a model file: `tpplan import --from config {} -o model.json`", "config"},
    {[](std::string_view head) { return head.find("tpplan.plan/") != std::string_view::npos; }, "a plan",
     "write the model before the plan: tpplan check MODEL PLAN", ""},
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
  remove_diagnostics(diagnostics, [&file](const Diagnostic& d) { return d.span.file == file.id; });
  report_message(diagnostics, Code::UnknownModelFormat, {file.id, 0, 0},
                 fmt::format("this file is {}, not a model", row->what),
                 fmt::format(fmt::runtime(row->help), file.name));
  return true;
}

std::string_view import_format_of(std::string_view text) {
  const bool is_model = text.substr(0, kLookedAt).find(kModelFormat) != std::string_view::npos;
  const OtherRow* row = is_model ? nullptr : find_other(text);
  return row == nullptr ? std::string_view{} : row->format;
}

}  // namespace tpplan
