#include "topology/read_run.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/text.h"
#include "text/yaml_tree.h"

namespace tpplan {
namespace {

// The largest batch, sequence, and other count: that of `--batch` and `--sequence`.
constexpr int64_t kMostRunCount = int64_t{1} << 24;

using Names = std::span<const std::string_view>;

// The names of values, by the number of their enumerator.
constexpr std::string_view kCheckpointingNames[] = {"none", "full", "every", "save", "recompute", "selective_ops"};
constexpr std::string_view kOperationNames[] = {"linear", "every_second_linear", "attention", "collectives"};  // by bit
constexpr std::string_view kCompiledNames[] = {"false", "kernels", "true"};
constexpr std::string_view kAttentionKernelNames[] = {"flash", "unfused"};
constexpr std::string_view kLossKernelNames[] = {"plain", "fused", "parallel", "chunked"};
constexpr std::string_view kFp8Names[] = {"none", "tensorwise", "rowwise", "delayed"};
constexpr std::string_view kOptimizerNames[] = {"foreach", "fused"};
static_assert(std::size(kCheckpointingNames) == static_cast<size_t>(Checkpointing::SelectiveOps) + 1);
static_assert(std::size(kCompiledNames) == static_cast<size_t>(Compiled::FullStep) + 1);
static_assert(std::size(kAttentionKernelNames) == static_cast<size_t>(AttentionKernel::Unfused) + 1);
static_assert(std::size(kLossKernelNames) == static_cast<size_t>(LossKernel::Chunked) + 1);
static_assert(std::size(kFp8Names) == static_cast<size_t>(Fp8::Delayed) + 1);
static_assert(std::size(kOptimizerNames) == static_cast<size_t>(OptimizerKernel::Fused) + 1);
constexpr std::string_view kBooleanNames[] = {"false", "true"};
constexpr std::string_view kTrueName[] = {"true"};
constexpr std::string_view kLossDtypes[] = {"float32", "bfloat16"};
constexpr std::string_view kGatherDtypes[] = {"bfloat16", "float8_e4m3fn", "float32"};
constexpr std::string_view kReduceDtypes[] = {"float32", "bfloat16"};

struct RunReader {
  const YamlTree& tree;
  Names recipes;
  Diagnostics& diagnostics;
  Run& run;
};

const YamlNode& at(const RunReader& r, YamlId id) { return r.tree.nodes[id]; }

void reject(RunReader& r, YamlId id, std::string message, std::string help) {
  report_message(r.diagnostics, Code::InvalidRun, span_of(r.tree.file, at(r, id)), std::move(message), std::move(help));
}

std::string one_of(Names names) { return fmt::format("use one of {}", fmt::join(names, ", ")); }

std::string help_for(std::string_view word, Names names) {
  const std::string_view nearest = nearest_name(word, names);
  return nearest.empty() ? one_of(names) : fmt::format("did you mean `{}`?", nearest);
}

// Reads a name. Returns its index; nullopt after reporting another value.
std::optional<size_t> read_name(RunReader& r, YamlId id, std::string_view what, Names names) {
  const YamlNode& node = at(r, id);
  if (node.kind == YamlKind::Scalar) {
    const auto found = std::ranges::find(names, node.text);
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
  }
  reject(r, id,
         node.kind == YamlKind::Scalar ? fmt::format("{} cannot be `{}`", what, node.text)
                                       : fmt::format("{} is {}, not a name", what, describe(node)),
         node.kind == YamlKind::Scalar ? help_for(node.text, names) : one_of(names));
  return std::nullopt;
}

template <typename Enum>
void read_enum(RunReader& r, YamlId id, std::string_view what, Names names, Enum& value) {
  if (const auto index = read_name(r, id, what, names)) value = static_cast<Enum>(*index);
}

void read_dtype(RunReader& r, YamlId id, std::string_view what, Names names, std::optional<DType>& value) {
  if (const auto index = read_name(r, id, what, names)) value = dtype_of(names[*index]);
}

void read_count(RunReader& r, YamlId id, std::string_view what, int64_t& value) {
  const YamlNode& node = at(r, id);
  int64_t count = 0;
  const bool is_count = node.kind == YamlKind::Scalar && node.is_plain && parse_decimal(node.text, count);
  if (is_count && count >= 1 && count <= kMostRunCount) {
    value = count;
    return;
  }
  reject(r, id,
         is_count ? fmt::format("{} is {}, but must be from 1 to {}", what, node.text, kMostRunCount)
                  : fmt::format("{} is {}, not a count", what, describe(node)),
         fmt::format("write a whole number from 1 to {}", kMostRunCount));
}

// The mapping {KEY: VALUE} with one entry; kNoYaml after reporting another value.
YamlId only_entry(RunReader& r, YamlId id, std::string_view what, Names keys) {
  const YamlNode& node = at(r, id);
  if (node.children.size() == 2 && std::ranges::find(keys, at(r, node.children[0]).text) != keys.end())
    return node.children[0];
  if (node.children.size() == 2)
    reject(r, node.children[0], fmt::format("unknown key `{}` in {}", at(r, node.children[0]).text, what),
           help_for(at(r, node.children[0]).text, keys));
  else
    reject(r, id, fmt::format("{} has {} keys, not one", what, node.children.size() / 2), one_of(keys));
  return kNoYaml;
}

// Reads the operations of {save: [...]} and {recompute: [...]}.
void read_operations(RunReader& r, YamlId id, std::string_view what, uint8_t& operations) {
  const YamlNode& list = at(r, id);
  if (list.kind != YamlKind::Sequence || list.children.empty())
    return reject(r, id,
                  fmt::format("{} is {}, not a list of operations", what,
                              list.kind == YamlKind::Sequence ? "an empty list" : describe(list)),
                  fmt::format("write [{}]", fmt::join(kOperationNames, ", ")));
  for (const YamlId item : list.children) {
    if (const auto index = read_name(r, item, fmt::format("an operation of {}", what), kOperationNames))
      operations = static_cast<uint8_t>(operations | (1u << *index));
  }
}

void read_checkpointing(RunReader& r, YamlId id) {
  static constexpr std::string_view kWords[] = {"none", "full", "selective_ops"};
  static constexpr std::string_view kKeys[] = {"every", "save", "recompute"};
  const YamlNode& node = at(r, id);
  if (node.kind != YamlKind::Map) {
    if (const auto index = read_name(r, id, "`checkpointing`", kWords))
      r.run.checkpointing = static_cast<Checkpointing>(std::ranges::find(kCheckpointingNames, kWords[*index]) -
                                                       std::begin(kCheckpointingNames));
    return;
  }
  const YamlId key = only_entry(r, id, "`checkpointing`", kKeys);
  if (key == kNoYaml) return;
  const std::string& name = at(r, key).text;
  const YamlId value = node.children[1];
  if (name == "every") {
    r.run.checkpointing = Checkpointing::Every;
    return read_count(r, value, "`every`", r.run.every);
  }
  r.run.checkpointing = name == "save" ? Checkpointing::Save : Checkpointing::Recompute;
  read_operations(r, value, fmt::format("`{}`", name), r.run.operations);
}

void read_loss(RunReader& r, YamlId id) {
  static constexpr std::string_view kKeys[] = {"chunked"};
  if (at(r, id).kind != YamlKind::Map) return read_enum(r, id, "`loss`", Names(kLossKernelNames).first(3), r.run.loss);
  if (only_entry(r, id, "`loss`", kKeys) == kNoYaml) return;
  r.run.loss = LossKernel::Chunked;
  read_count(r, at(r, id).children[1], "`chunked`", r.run.chunks);
}

void read_bool(RunReader& r, YamlId id, std::string_view what, bool& value) {
  read_enum(r, id, what, kBooleanNames, value);
}

void read_compiled(RunReader& r, YamlId id) {
  static constexpr std::string_view kWords[] = {"true", "false", "kernels"};
  static constexpr Compiled kValues[] = {Compiled::FullStep, Compiled::Eager, Compiled::Kernels};
  if (const auto index = read_name(r, id, "`compiled`", kWords)) r.run.compiled = kValues[*index];
}

void read_recipe(RunReader& r, YamlId id) {
  if (const auto index = read_name(r, id, "`recipe`", r.recipes)) r.run.recipe = r.recipes[*index];
}

// Returns the name of an enumerator.
template <typename Enum>
std::string name_of(Names names, Enum value) {
  const auto index = static_cast<size_t>(value);
  return std::string(names[index]);
}

std::string dtype_text(std::optional<DType> dtype, std::string_view otherwise) {
  return std::string(dtype ? dtypes()[*dtype].name : otherwise);
}

std::string checkpointing_text(const Run& run) {
  const std::string name = name_of(kCheckpointingNames, run.checkpointing);
  if (run.checkpointing == Checkpointing::Every) return fmt::format("{{every: {}}}", run.every);
  if (run.checkpointing != Checkpointing::Save && run.checkpointing != Checkpointing::Recompute) return name;
  std::vector<std::string_view> operations;
  for (size_t bit = 0; bit < std::size(kOperationNames); ++bit) {
    if ((run.operations >> bit & 1) != 0) operations.push_back(kOperationNames[bit]);
  }
  return fmt::format("{{{}: [{}]}}", name, fmt::join(operations, ", "));
}

// One key of a run file: its reader, and its value as text.
struct RunKey {
  std::string_view name;
  void (*read)(RunReader& r, YamlId id);
  std::string (*text)(const Run& run);
};

std::string count_text(int64_t count) { return count == 0 ? "as exported" : std::to_string(count); }

const RunKey kRunKeys[] = {
    {"batch", [](RunReader& r, YamlId id) { read_count(r, id, "`batch`", r.run.batch); },
     [](const Run& run) { return count_text(run.batch); }},
    {"sequence", [](RunReader& r, YamlId id) { read_count(r, id, "`sequence`", r.run.sequence); },
     [](const Run& run) { return count_text(run.sequence); }},
    {"accumulation", [](RunReader& r, YamlId id) { read_count(r, id, "`accumulation`", r.run.accumulation); },
     [](const Run& run) { return std::to_string(run.accumulation); }},
    {"recipe", read_recipe, [](const Run& run) { return run.recipe; }},
    {"checkpointing", read_checkpointing, checkpointing_text},
    {"compiled", read_compiled, [](const Run& run) { return name_of(kCompiledNames, run.compiled); }},
    {"attention",
     [](RunReader& r, YamlId id) { read_enum(r, id, "`attention`", kAttentionKernelNames, r.run.attention); },
     [](const Run& run) { return name_of(kAttentionKernelNames, run.attention); }},
    {"causal",
     [](RunReader& r, YamlId id) {
       if (read_name(r, id, "`causal`", kTrueName)) r.run.causal = true;
     },
     [](const Run& run) { return name_of(kBooleanNames, run.causal); }},
    {"loss", read_loss,
     [](const Run& run) {
       return run.loss == LossKernel::Chunked ? fmt::format("{{chunked: {}}}", run.chunks)
                                              : name_of(kLossKernelNames, run.loss);
     }},
    {"gather_dtype",
     [](RunReader& r, YamlId id) { read_dtype(r, id, "`gather_dtype`", kGatherDtypes, r.run.gather_dtype); },
     [](const Run& run) { return dtype_text(run.gather_dtype, "the model's"); }},
    {"reduce_dtype",
     [](RunReader& r, YamlId id) { read_dtype(r, id, "`reduce_dtype`", kReduceDtypes, r.run.reduce_dtype); },
     [](const Run& run) { return dtype_text(run.reduce_dtype, "float32"); }},
    {"reshard_after_forward",
     [](RunReader& r, YamlId id) { read_bool(r, id, "`reshard_after_forward`", r.run.reshard_after_forward); },
     [](const Run& run) { return name_of(kBooleanNames, run.reshard_after_forward); }},
    {"fp8", [](RunReader& r, YamlId id) { read_enum(r, id, "`fp8`", kFp8Names, r.run.fp8); },
     [](const Run& run) { return name_of(kFp8Names, run.fp8); }},
    {"async_tp", [](RunReader& r, YamlId id) { read_bool(r, id, "`async_tp`", r.run.async_tp); },
     [](const Run& run) { return name_of(kBooleanNames, run.async_tp); }},
    {"optimizer", [](RunReader& r, YamlId id) { read_enum(r, id, "`optimizer`", kOptimizerNames, r.run.optimizer); },
     [](const Run& run) { return name_of(kOptimizerNames, run.optimizer); }},
    {"loss_dtype", [](RunReader& r, YamlId id) { read_dtype(r, id, "`loss_dtype`", kLossDtypes, r.run.loss_dtype); },
     [](const Run& run) { return dtype_text(run.loss_dtype, "float32"); }},
};

void read_top(RunReader& r, RunFile& file) {
  const YamlNode& root = at(r, r.tree.root);
  if (root.kind != YamlKind::Map)
    return reject(r, r.tree.root, fmt::format("the run is {}, not a mapping", describe(root)),
                  fmt::format("begin with `format: {}`", kRunFormat));
  bool has_format = false;
  for (size_t i = 0; i + 1 < root.children.size(); i += 2) {
    const YamlId key = root.children[i], value = root.children[i + 1];
    const std::string& name = at(r, key).text;
    if (name == "format") {
      has_format = at(r, value).text == kRunFormat;
      continue;
    }
    const auto* row = std::ranges::find(kRunKeys, name, &RunKey::name);
    if (row == std::end(kRunKeys)) {
      reject(r, key, fmt::format("unknown key `{}` in a run", name), help_for(name, run_keys()));
      continue;
    }
    row->read(r, value);
    r.run.given.push_back(name);
    file.keys.emplace_back(name, span_of(r.tree.file, at(r, key)));
  }
  if (!has_format)
    reject(r, r.tree.root, "the file does not declare that it is a run",
           fmt::format("begin with `format: {}`", kRunFormat));
}

}  // namespace

Span key_span(const RunFile& file, std::string_view key) {
  const auto found = std::ranges::find(file.keys, key, &std::pair<std::string, Span>::first);
  return found == file.keys.end() ? Span{} : found->second;
}

std::span<const std::string_view> run_keys() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const RunKey& key : kRunKeys) list.push_back(key.name);
    return list;
  }();
  return names;
}

std::string run_value(const Run& run, std::string_view key) {
  const auto* row = std::ranges::find(kRunKeys, key, &RunKey::name);
  return row == std::end(kRunKeys) ? std::string{} : row->text(run);
}

RunFile read_run(const SourceFile& file, std::span<const std::string_view> recipes, Diagnostics& diagnostics) {
  RunFile result;
  YamlTree tree;
  Diagnostics own;
  const bool is_read = read_yaml(file, tree, own);
  RunReader r{.tree = tree, .recipes = recipes, .diagnostics = own, .run = result.run};
  if (is_read && tree.root == kNoYaml)
    report_message(own, Code::EmptyFile, {file.id, 0, 1}, "the run is empty",
                   fmt::format("begin with `format: {}`", kRunFormat));
  else if (is_read)
    read_top(r, result);
  diagnostics.list.insert(diagnostics.list.end(), own.list.begin(), own.list.end());
  return result;
}

}  // namespace tpplan
