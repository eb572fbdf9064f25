#include "hf_configs/weights_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "base/text.h"
#include "hf_configs/graph_parts.h"
#include "hf_configs/orient_matrices.h"
#include "model/attention_names.h"
#include "model/module_kinds.h"

namespace tpplan {
namespace {

constexpr std::string_view kUnknownType = "Unknown";

enum class Match : uint8_t { Is, Holds, Any };

// The kind of a module by its name and the number of dims of its `weight`. The first matching row applies. Headers have
// names and shapes only, so the kind is a guess, which describe_guesses reports.
struct GuessRow {
  Match match;
  std::string_view leaf;  // of the module's path
  uint8_t ndim;
  ModuleKind kind;
};

constexpr GuessRow kGuesses[] = {
    {Match::Holds, "norm", 1, ModuleKind::Norm},
    {Match::Is, "ln_1", 1, ModuleKind::Norm},
    {Match::Is, "ln_2", 1, ModuleKind::Norm},
    {Match::Is, "ln_f", 1, ModuleKind::Norm},
    {Match::Is, "embed_tokens", 2, ModuleKind::Embedding},
    {Match::Is, "tok_embeddings", 2, ModuleKind::Embedding},
    {Match::Is, "word_embeddings", 2, ModuleKind::Embedding},
    {Match::Is, "position_embeddings", 2, ModuleKind::Embedding},
    {Match::Is, "token_type_embeddings", 2, ModuleKind::Embedding},
    {Match::Is, "embed_in", 2, ModuleKind::Embedding},
    {Match::Is, "embeddings", 2, ModuleKind::Embedding},
    {Match::Is, "wte", 2, ModuleKind::Embedding},
    {Match::Is, "wpe", 2, ModuleKind::Embedding},
    {Match::Any, "", 2, ModuleKind::Linear},
};

// Names of tensors that are not trained.
constexpr std::string_view kBufferNames[] = {"running_mean", "running_var", "num_batches_tracked", "inv_freq",
                                             "masked_bias"};
// Names of the tensors whose dims tell a module's kind; the last two are matrices of GPTQ, AWQ and compressed-tensors.
constexpr std::string_view kWeightNames[] = {"weight", "qweight", "weight_packed"};
// The module whose parameters stack a matrix of each expert.
constexpr std::string_view kExpertsName = "experts";
constexpr std::string_view kAttentionNames[] = {"self_attn", "attention", "attn"};

// A tensor's name split into module path and parameter name, and its place.
struct NamedTensor {
  std::string_view path, name;
  WeightPlace place;
};

// Compares paths component by component (-1, 0 or 1), numbers by value and before names. In this order the submodules
// of a module directly follow it; add_attention and build_module rely on that and check the last module only. Numbers
// are compared as texts without leading zeros, because they can have any length.
int compare_paths(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const std::string_view x = a.substr(0, a.find('.')), y = b.substr(0, b.find('.'));
    if (x != y) {
      if (is_digits(x) != is_digits(y)) return is_digits(x) ? -1 : 1;
      if (is_digits(x)) {
        const auto digits = [](std::string_view n) { return n.substr(std::min(n.find_first_not_of('0'), n.size())); };
        const std::string_view m = digits(x), n = digits(y);
        if (m.size() != n.size()) return m.size() < n.size() ? -1 : 1;
        if (m != n) return m < n ? -1 : 1;
      }
      return x < y ? -1 : 1;
    }
    a.remove_prefix(std::min(a.size(), x.size() + 1));
    b.remove_prefix(std::min(b.size(), y.size() + 1));
  }
  return static_cast<int>(!a.empty()) - static_cast<int>(!b.empty());
}

bool comes_before(const NamedTensor& a, const NamedTensor& b) {
  if (const int order = compare_paths(a.path, b.path); order != 0) return order < 0;
  if ((a.name == "weight") != (b.name == "weight")) return a.name == "weight";
  return a.name < b.name;
}

struct ModelBuilder {
  WeightFiles& files;
  const ModuleAttributes& heads;
  ModelGraph& graph;
  size_t faults = 0;
  std::array<size_t, 5> guessed{};  // by ModuleKind
  std::string_view unknown;         // the first module of unknown kind with a matrix
  size_t unknown_count = 0;
  std::set<std::string_view> attentions;  // paths of modules with a projection of queries
};

const WeightTensor& tensor_at(const WeightFiles& files, WeightPlace place) {
  return files.headers[place.file].tensors[place.tensor];
}

// Returns the file that the command line names: the index, or the single file.
FileId first_file(const WeightFiles& files) {
  return files.index.id != kNoFile ? files.index.id : files.headers.front().source.id;
}

void fault(ModelBuilder& builder, WeightPlace place, std::string message, std::string help = {}) {
  const WeightTensor& tensor = tensor_at(builder.files, place);
  ++builder.faults;
  report_message(
      builder.files.diagnostics, Code::UnsupportedTensor,
      {builder.files.headers[place.file].source.id, tensor.offset, static_cast<uint32_t>(tensor.name.size() + 2)},
      std::move(message), std::move(help));
}

// Splits the name of a tensor. Reports names that a model cannot have.
bool check_tensor(ModelBuilder& builder, WeightPlace place, NamedTensor& named) {
  const WeightsHeader& header = builder.files.headers[place.file];
  const WeightTensor& tensor = header.tensors[place.tensor];
  const std::string_view name = tensor.name;
  const size_t dot = name.rfind('.');
  named = {dot == std::string_view::npos ? name.substr(0, 0) : name.substr(0, dot),
           dot == std::string_view::npos ? name : name.substr(dot + 1), place};
  if (name.size() > kMaxPathBytes)
    return fault(builder, place, fmt::format("a name of {} bytes exceeds the limit of {}", name.size(), kMaxPathBytes)),
           false;
  if (name.empty() || name.front() == '.' || name.back() == '.' || name.find("..") != std::string_view::npos)
    return fault(builder, place, fmt::format("tensor name `{}` has an empty part", name),
                 "rename the tensor: parts between dots are module names"),
           false;
  if (tensor.ndim > kMaxDims)
    return fault(builder, place, fmt::format("`{}` has {} dims, but the limit is {}", name, tensor.ndim, kMaxDims)),
           false;
  unsigned __int128 product = 1;
  for (const uint64_t size : shape_of(header, tensor)) {
    const bool fits = size <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (fits && size != 0) product *= size;
    if (!fits || product >> 63 != 0)
      return fault(builder, place,
                   fmt::format("the sizes other than 0 of `{}` multiply to 2^63 elements or more", name)),
             false;
  }
  return true;
}

ModuleKind guess_kind(std::string_view leaf, size_t ndim) {
  if (may_be_conv1d(leaf)) return ModuleKind::Other;  // orient_matrices decides
  for (const GuessRow& row : kGuesses) {
    const bool holds = row.match == Match::Holds && leaf.find(row.leaf) != std::string_view::npos;
    const bool fits = row.match == Match::Any || holds || (row.match == Match::Is && leaf == row.leaf);
    if (fits && row.ndim == ndim) return row.kind;
  }
  return ModuleKind::Other;
}

// True if a module's name is that of a projection of queries, alone or fused.
bool is_query_projection(std::string_view leaf) {
  const HeadRole role = role_of(leaf);
  return role == HeadRole::Query || role == HeadRole::FusedInBlocks || role == HeadRole::FusedByHead;
}

// Adds the attention modules above a path, by their names or because they hold a projection of queries. They can have
// submodules but no tensors.
void add_attention(ModelBuilder& builder, std::string_view path) {
  if (builder.heads.num_heads == 0) return;
  for (size_t dot = path.find('.');; dot = path.find('.', dot + 1)) {
    const std::string_view part = path.substr(0, dot);
    ModelGraph& graph = builder.graph;
    if (std::ranges::find(kAttentionNames, leaf_of(graph, part)) != std::end(kAttentionNames) ||
        builder.attentions.contains(part)) {
      const bool there = !graph.modules.empty() && is_below(graph, graph.modules.back().path, part);
      if (!there) set_attributes(graph, graph.modules[add_module(graph, part, kUnknownType)], builder.heads);
    }
    if (dot == std::string_view::npos) return;
  }
}

// Names the dims of stacked experts if their sizes show that matrices are stored as (in, out), as in gpt-oss: the last
// matrix returns the size that the first one reads. Otherwise the table of module_kinds.h applies.
void name_expert_dims(ModelGraph& graph, const Module& module) {
  const auto is_stack = [](const Param& param) { return param.ndim == 3; };
  const auto params = std::span(graph.params).subspan(module.first_param);
  const auto down = std::ranges::find_if(
      params, [&](const Param& p) { return is_stack(p) && p.name.find("down") != std::string_view::npos; });
  const auto up = std::ranges::find_if(
      params, [&](const Param& p) { return is_stack(p) && p.name.find("down") == std::string_view::npos; });
  if (down == params.end() || up == params.end()) return;
  const auto of_up = shape_of(graph, *up), of_down = shape_of(graph, *down);
  if (of_up[1] != of_down[2] || of_up[2] % of_down[1] != 0 || of_up[2] == of_down[1]) return;
  for (Param& param : params) {
    if (!is_stack(param)) continue;
    param.extras = static_cast<uint32_t>(graph.extras.size());
    graph.extras.push_back(
        {.dims = {kDimExpert, kDimIn, kDimOut}, .logical_axes = {}, .segments = {}, .granularity = {}});
  }
}

// Adds a module with its tensors.
void build_module(ModelBuilder& builder, std::span<const NamedTensor> tensors) {
  ModelGraph& graph = builder.graph;
  const std::string_view path = tensors.front().path;
  add_attention(builder, path);
  if (graph.modules.empty() || graph.modules.back().path != path) add_module(graph, path, kUnknownType);
  const std::string_view leaf = leaf_of(graph, path);
  std::vector<int64_t> shape;
  for (const NamedTensor& named : tensors) {
    const WeightTensor& tensor = tensor_at(builder.files, named.place);
    const std::span<const uint64_t> sizes = shape_of(builder.files.headers[named.place.file], tensor);
    shape.assign(sizes.begin(), sizes.end());
    const bool is_buffer = std::ranges::find(kBufferNames, named.name) != std::end(kBufferNames);
    add_param(graph, named.name, shape, tensor.dtype, is_buffer);
    if (shape.size() == 3 && leaf == kExpertsName) set_kind(graph.modules.back(), ModuleKind::Experts);
    if (std::ranges::find(kWeightNames, named.name) != std::end(kWeightNames))
      set_kind(graph.modules.back(), guess_kind(leaf, shape.size()));
  }
  if (graph.modules.back().kind == ModuleKind::Experts) name_expert_dims(graph, graph.modules.back());
}

// Counts the kinds of modules, and sets the segments of fused projections.
void finish_module(ModelBuilder& builder, ModuleId id) {
  ModelGraph& graph = builder.graph;
  const Module& module = graph.modules[id];
  const std::string_view leaf = leaf_of(graph, module.path);
  const std::span<const Param> params = params_of(graph, module);
  if (module.param_count == 0 && !module.kind_is_given) return;  // an attention
  ++builder.guessed[static_cast<size_t>(module.kind)];
  const bool has_matrix = std::ranges::any_of(params, [](const Param& param) { return param.ndim >= 2; });
  if (module.kind == ModuleKind::Other && has_matrix && builder.unknown_count++ == 0) builder.unknown = module.path;
  if (module.kind != ModuleKind::Linear) return;
  for (uint32_t i = module.first_param; i < module.first_param + module.param_count; ++i) {
    Param& param = graph.params[i];
    if (param.name != "weight" && param.name != "bias") continue;
    const int out = find_dim(dims_of(graph, module, param), kDimOut);
    if (out < 0) continue;
    const auto dim = static_cast<size_t>(out);
    const std::vector<int64_t> segments = fused_segments(leaf, shape_of(graph, param)[dim], builder.heads);
    if (!segments.empty() && param.ndim == (param.name == "weight" ? 2 : 1)) set_segments(graph, param, dim, segments);
  }
}

void describe_guesses(ModelBuilder& builder, std::string& guesses) {
  guesses = fmt::format("kinds by names: {} linear, {} embedding, {} norm, {} other",
                        builder.guessed[static_cast<size_t>(ModuleKind::Linear)],
                        builder.guessed[static_cast<size_t>(ModuleKind::Embedding)],
                        builder.guessed[static_cast<size_t>(ModuleKind::Norm)],
                        builder.guessed[static_cast<size_t>(ModuleKind::Other)]);
  if (builder.unknown_count == 0) return;
  Diagnostic& d =
      report_message(builder.files.diagnostics, Code::UnknownModuleKinds, {first_file(builder.files), 0, 0},
                     fmt::format("module `{}` has a matrix, but its name does not show its kind", builder.unknown),
                     "write \"kind\": \"linear\" or the \"dims\" into the model file, or shard it by a `spec` rule");
  d.count = builder.unknown_count;
  d.counted = "module";
}

}  // namespace

bool build_weights_model(WeightFiles& files, const ModuleAttributes& heads, ModelGraph& graph, std::string& guesses) {
  constexpr size_t kMaxErrors = 50;
  ModelBuilder builder{.files = files, .heads = heads, .graph = graph};
  std::vector<NamedTensor> tensors;
  for (const WeightPlace place : files.tensors) {
    NamedTensor named;
    if (check_tensor(builder, place, named)) tensors.push_back(named);
    if (builder.faults >= kMaxErrors) return false;
  }
  if (builder.faults > 0) return false;
  if (tensors.empty()) {
    report_message(files.diagnostics, Code::UnsupportedTensor, {first_file(files), 0, 1},
                   "the file holds no tensors: there is nothing to shard");
    return false;
  }
  std::ranges::sort(tensors, comes_before);
  for (const NamedTensor& named : tensors) {
    const size_t dot = named.path.rfind('.');
    if (dot != std::string_view::npos && is_query_projection(named.path.substr(dot + 1)))
      builder.attentions.insert(named.path.substr(0, dot));
  }
  graph.name = kUnknownType;
  graph.framework = Framework::Torch;
  for (size_t first = 0, last = 0; first < tensors.size(); first = last) {
    while (last < tensors.size() && tensors[last].path == tensors[first].path) ++last;
    build_module(builder, std::span(tensors).subspan(first, last - first));
  }
  orient_matrices(graph);
  for (ModuleId id = 0; id < graph.modules.size(); ++id) finish_module(builder, id);
  describe_guesses(builder, guesses);
  return true;
}

}  // namespace tpplan
