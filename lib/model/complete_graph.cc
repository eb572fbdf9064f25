#include "model/complete_graph.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "model/module_kinds.h"
#include "model/quantized.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Returns the span of `text` with its quotes at `offset`.
Span quoted_span(const ModelReader& reader, std::string_view text, uint64_t offset) {
  return {reader.graph.file, offset, static_cast<uint32_t>(text.size() + 2)};
}

// Checks that a path splits into module path and parameter name unambiguously, because everything is looked up by path.
void check_path(ModelReader& reader, std::string_view path, uint64_t offset, bool is_name) {
  const char mark = separator(reader.graph.framework);
  const Span span = quoted_span(reader, path, offset);
  if (is_name) {
    if (path.empty())
      report_error(reader, Code::InvalidPath, span, "a parameter has an empty name");
    else if (path.find(mark) != std::string_view::npos) {
      report_error(reader, Code::InvalidPath, span,
                   fmt::format("parameter name `{}` contains the path separator `{}`", path, mark),
                   "list the parameter under the module that owns it, with the last part of its path as the name");
    }
    return;
  }
  const char twice[] = {mark, mark, 0};
  if (!path.empty() && (path.front() == mark || path.back() == mark || path.find(twice) != std::string_view::npos)) {
    report_error(reader, Code::InvalidPath, span, fmt::format("module path `{}` has an empty part", path));
  }
}

// Returns the module at `path` if it is `id` or an ancestor of it, otherwise kNone.
ModuleId find_above(const ModelGraph& graph, ModuleId id, std::string_view path) {
  while (id != kNone && graph.modules[id].path.size() > path.size()) id = graph.modules[id].parent;
  return id != kNone && graph.modules[id].path == path ? id : kNone;
}

// Sets the parent of each module. Adds the ancestors that the file does not list, after the listed modules, whose ids
// parameters already use. The loop over ancestors stops at the first known module, because its own ancestors are added
// in another iteration. Most parents are ancestors of the preceding module, where they are found without the index.
void add_ancestors(ModelGraph& graph) {
  const auto container = static_cast<uint32_t>(graph.types.size());
  const auto path_of_module = [&graph](uint32_t i) { return graph.modules[i].path; };
  const size_t listed = graph.modules.size();
  for (ModuleId i = 0; i < listed; ++i) {
    std::string_view path = graph.modules[i].path;
    for (ModuleId child = i; !path.empty();) {
      const size_t at = path.rfind(separator(graph.framework));
      path = at == std::string_view::npos ? std::string_view{} : path.substr(0, at);
      const auto next = static_cast<ModuleId>(graph.modules.size());
      ModuleId known = i == 0 ? kNone : find_above(graph, graph.modules[i - 1].parent, path);
      if (known == kNone) {
        graph.modules.push_back(Module{.path = path, .offset = graph.modules[i].offset, .type = container});
        known = insert(graph.module_index, path, next, path_of_module);
        if (known != kNotFound) graph.modules.pop_back();
      }
      const bool is_known = known != kNotFound;
      graph.modules[child].parent = is_known ? known : next;
      if (is_known) break;
      child = next;
    }
  }
  if (graph.modules.size() > listed) graph.types.push_back("");
}

// Returns the kind of each type's modules, by type and by whether they own parameters.
std::vector<std::array<ModuleKind, 2>> kinds_of_types(const ModelGraph& graph) {
  std::vector<std::array<ModuleKind, 2>> kinds;
  for (const std::string_view type : graph.types)
    kinds.push_back({kind_of_type(graph.framework, type, false), kind_of_type(graph.framework, type, true)});
  return kinds;
}

void check_buffer_names(ModelReader& reader) {
  const ModelGraph& graph = reader.graph;
  for (const Param& buffer : graph.buffers) {
    check_path(reader, buffer.name, buffer.offset, true);
    for (const Param& param : params_of(graph, graph.modules[buffer.module])) {
      if (param.name != buffer.name) continue;
      report_error(reader, Code::DuplicatePath, span_of(graph, buffer),
                   fmt::format("`{}` is both a parameter and a buffer of the same module", buffer.name));
    }
  }
}

// Resolves the dim names of segments and granularity, which are known only after all modules are read.
void resolve_pending(ModelReader& reader, const PendingDims& pending) {
  ModelGraph& graph = reader.graph;
  const Param& param = (pending.is_buffer ? graph.buffers : graph.params)[pending.param];
  const std::span<const std::string_view> dims = dims_of(graph, graph.modules[param.module], param);
  const auto dim_called = [&](std::string_view name, uint64_t offset) {
    const int dim = find_dim(dims, name);
    if (dim < 0) {
      const std::string known = dims.empty() ? "" : fmt::format(": its dims are {}", fmt::join(dims, ", "));
      report_error(reader, Code::DimsShapeMismatch, quoted_span(reader, name, offset),
                   fmt::format("`{}` has no dim named `{}`{}", param.name, name, known),
                   dims.empty() ? "name the dims: \"dims\": [\"out\", \"in\"]" : "");
    }
    return dim;
  };
  ParamExtras& extras = graph.extras[pending.extras];
  for (const auto& [name, sizes, offset] : pending.segments) {
    const int dim = dim_called(name, offset);
    if (dim < 0) continue;
    unsigned __int128 total = 0;  // a sum of sizes below 2^63 may overflow 64 bits
    for (const int64_t size : sizes) total += static_cast<unsigned __int128>(size);
    const int64_t whole = shape_of(graph, param)[static_cast<size_t>(dim)];
    if (total != static_cast<unsigned __int128>(whole)) {
      report_error(reader, Code::DimsShapeMismatch, quoted_span(reader, name, offset),
                   fmt::format("segments {} of dim {} do not add up to its size {}", shape_text(sizes), dim, whole));
      continue;
    }
    extras.segments.push_back({static_cast<size_t>(dim), sizes});
  }
  for (const auto& [name, granule, offset] : pending.granularity) {
    const int dim = dim_called(name, offset);
    if (dim >= 0) extras.granularity.emplace_back(static_cast<size_t>(dim), granule);
  }
  std::sort(extras.segments.begin(), extras.segments.end(), [](const auto& a, const auto& b) { return a.dim < b.dim; });
}

// Resolves tied names to parameters. A name may be in one group only, so that the group has all names of its tensor.
void resolve_ties(ModelReader& reader) {
  ModelGraph& graph = reader.graph;
  std::vector<uint32_t> tie_of(reader.ties.empty() ? 0 : graph.params.size(), kNone);
  for (const auto& [names, offset] : reader.ties) {
    if (too_many_errors(reader)) return;
    const Span span{reader.graph.file, offset, 1};
    Tie tie{.params = {}, .offset = offset};
    for (const std::string_view name : names) {
      const ParamId param = find_param(graph, name);
      if (param == kNone) {
        // The position of the name if it is a view into the file, otherwise that of the group: the name has escapes.
        const bool quoted = name.data() > reader.text.data() && name.data() < reader.text.data() + reader.text.size();
        const Span at =
            quoted ? quoted_span(reader, name, static_cast<uint64_t>(name.data() - reader.text.data()) - 1) : span;
        report_error(reader, Code::InvalidTie, at, fmt::format("tied name `{}` is not a parameter of the model", name),
                     "write full paths of parameters in a tie: `lm_head.weight`");
      } else if (tie_of[param] != kNone) {
        report_error(reader, Code::InvalidTie, span, fmt::format("`{}` occurs in two ties, or twice in one", name),
                     "list each tensor's names once, in one group");
      } else {
        tie_of[param] = static_cast<uint32_t>(graph.ties.size());
        tie.params.push_back(param);
      }
    }
    for (size_t i = 1; i < tie.params.size(); ++i) {
      const Param &a = graph.params[tie.params[0]], &b = graph.params[tie.params[i]];
      if (std::ranges::equal(shape_of(graph, a), shape_of(graph, b)) && a.dtype == b.dtype) continue;
      report_error(reader, Code::InvalidTie, span,
                   fmt::format("tied weights differ: `{}` is {} {}, `{}` is {} {}", path_of(graph, a),
                               shape_text(shape_of(graph, a)), dtypes()[a.dtype].name, path_of(graph, b),
                               shape_text(shape_of(graph, b)), dtypes()[b.dtype].name));
    }
    if (tie.params.size() >= 2) graph.ties.push_back(std::move(tie));
  }
}

}  // namespace

// Computes hashes some modules ahead, so that the slot of a path is in the cache when the path is inserted.
void index_modules(ModelReader& reader) {
  constexpr size_t kAhead = 16;
  ModelGraph& graph = reader.graph;
  const auto path_of_module = [&graph](uint32_t i) { return graph.modules[i].path; };
  const size_t count = graph.modules.size();
  reserve(graph.module_index, count);
  std::array<uint32_t, kAhead> hashes{};
  const auto prepare = [&](size_t i) {
    if (i >= count) return;
    hashes[i % kAhead] = hash_of(graph.modules[i].path);
    prefetch(graph.module_index, hashes[i % kAhead]);
  };
  for (size_t i = 0; i < kAhead; ++i) prepare(i);
  for (ModuleId id = 0; id < count && !too_many_errors(reader); ++id) {
    const Module& module = graph.modules[id];
    const uint32_t earlier = insert(graph.module_index, module.path, id, path_of_module, hashes[id % kAhead]);
    prepare(id + kAhead);
    if (earlier == kNotFound) continue;
    ++reader.faults;
    Diagnostic& d =
        report_message(reader.diagnostics, Code::DuplicatePath, quoted_span(reader, module.path, module.offset),
                       fmt::format("module `{}` is declared twice", module.path), "list each module once");
    d.notes.push_back({"first declaration", span_of(graph, graph.modules[earlier])});
  }
}

// Runs after all modules are read, because `framework` may follow `modules` in the file. Separators, kinds and dims
// depend on it.
void complete_graph(ModelReader& reader) {
  ModelGraph& graph = reader.graph;
  for (const Module& module : graph.modules) check_path(reader, module.path, module.offset, false);
  for (const Param& param : graph.params) check_path(reader, param.name, param.offset, true);
  check_buffer_names(reader);
  if (has_errors(reader.diagnostics)) return;
  const std::vector<std::array<ModuleKind, 2>> kinds = kinds_of_types(graph);
  for (Module& module : graph.modules) {
    if (!module.kind_is_given) module.kind = kinds[module.type][module.param_count > 0];
  }
  add_ancestors(graph);
  for (const PendingDims& pending : reader.pending) {
    if (!too_many_errors(reader)) resolve_pending(reader, pending);
  }
  name_companion_dims(graph);
  resolve_ties(reader);
  if (graph.params.empty())
    report_error(reader, Code::NoParameters, {reader.graph.file, 0, 1},
                 "the model has no parameters: there is nothing to shard");
}

}  // namespace tpplan
