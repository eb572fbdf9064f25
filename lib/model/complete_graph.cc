#include "model/complete_graph.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "model/module_kinds.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Of a text that stands in quotes at `offset`.
Span quoted_span(const ModelReader& reader, std::string_view text, uint64_t offset) {
  return {reader.graph.file, offset, static_cast<uint32_t>(text.size() + 2)};
}

// Everything is looked up by paths from here on: a parameter's path must split into its module's path and its name in
// one way only.
void check_path(ModelReader& reader, std::string_view path, uint64_t offset, bool is_name) {
  const char mark = separator(reader.graph.framework);
  const Span span = quoted_span(reader, path, offset);
  if (is_name) {
    if (path.empty())
      fault(reader, Code::TP2006, span, "a parameter has an empty name");
    else if (path.find(mark) != std::string_view::npos) {
      fault(reader, Code::TP2006, span, fmt::format("parameter name `{}` holds the path separator `{}`", path, mark),
            "a parameter stands under the module that owns it, by its last name");
    }
    return;
  }
  const char twice[] = {mark, mark, 0};
  if (!path.empty() && (path.front() == mark || path.back() == mark || path.find(twice) != std::string_view::npos)) {
    fault(reader, Code::TP2006, span, fmt::format("module path `{}` has an empty part", path));
  }
}

// Adds the modules above those listed that the file leaves out. They stand behind the listed ones, whose ids are known
// to their parameters by now. The way up ends at the first known module: its own ancestors come when it is its turn, or
// came with it.
void add_ancestors(ModelGraph& graph) {
  uint32_t container = kNone;
  const auto path_of_module = [&graph](uint32_t i) { return graph.modules[i].path; };
  const size_t listed = graph.modules.size();
  for (size_t i = 0; i < listed; ++i) {
    std::string_view path = graph.modules[i].path;
    while (!path.empty()) {
      const size_t at = path.rfind(separator(graph.framework));
      path = at == std::string_view::npos ? std::string_view{} : path.substr(0, at);
      if (find(graph.module_index, path, path_of_module) != kNotFound) break;
      if (container == kNone) {
        container = static_cast<uint32_t>(graph.types.size());
        graph.types.push_back("");
      }
      const auto id = static_cast<ModuleId>(graph.modules.size());
      graph.modules.push_back({.path = path, .offset = graph.modules[i].offset, .type = container});
      insert(graph.module_index, path, id, path_of_module);
    }
  }
  for (Module& module : graph.modules) {
    const size_t at = module.path.rfind(separator(graph.framework));
    if (!module.path.empty())
      module.parent = find_module(graph, module.path.substr(0, at == std::string_view::npos ? 0 : at));
  }
}

void check_buffer_names(ModelReader& reader) {
  const ModelGraph& graph = reader.graph;
  for (const Param& buffer : graph.buffers) {
    check_path(reader, buffer.name, buffer.offset, true);
    for (const Param& param : params_of(graph, graph.modules[buffer.module])) {
      if (param.name != buffer.name) continue;
      fault(reader, Code::TP2005, span_of(graph, buffer),
            fmt::format("`{}` is a parameter and a buffer of one module", buffer.name));
    }
  }
}

// Segments and granularity name dims; the names are known only now.
void resolve_pending(ModelReader& reader, const PendingDims& pending) {
  ModelGraph& graph = reader.graph;
  const Param& param = (pending.is_buffer ? graph.buffers : graph.params)[pending.param];
  const std::span<const std::string_view> dims = dims_of(graph, graph.modules[param.module], param);
  const auto dim_called = [&](std::string_view name, uint64_t offset) {
    const int dim = find_dim(dims, name);
    if (dim < 0) {
      const std::string known = dims.empty() ? "" : fmt::format(": its dims are {}", fmt::join(dims, ", "));
      fault(reader, Code::TP2009, quoted_span(reader, name, offset),
            fmt::format("`{}` has no dim called `{}`{}", param.name, name, known),
            dims.empty() ? "name the dims: \"dims\": [\"out\", \"in\"]" : "");
    }
    return dim;
  };
  ParamExtras& extras = graph.extras[pending.extras];
  for (const auto& [name, sizes, offset] : pending.segments) {
    const int dim = dim_called(name, offset);
    if (dim < 0) continue;
    unsigned __int128 total = 0;  // sizes come from a file, any number of them below 2^63
    for (const int64_t size : sizes) total += static_cast<unsigned __int128>(size);
    const int64_t whole = shape_of(graph, param)[static_cast<size_t>(dim)];
    if (total != static_cast<unsigned __int128>(whole)) {
      fault(reader, Code::TP2009, quoted_span(reader, name, offset),
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

// A name stands in one group: the group is then all names of its tensor, and the first of them is the one that counts.
void resolve_ties(ModelReader& reader) {
  ModelGraph& graph = reader.graph;
  std::vector<uint32_t> tie_of(reader.ties.empty() ? 0 : graph.params.size(), kNone);
  for (const auto& [names, offset] : reader.ties) {
    if (too_many_faults(reader)) return;
    const Span span{reader.graph.file, offset, 1};
    Tie tie{.params = {}, .offset = offset};
    for (const std::string_view name : names) {
      const ParamId param = find_param(graph, name);
      if (param == kNone) {
        // The name's own place: it is quoted in the group that starts at `offset`, or written with escapes.
        const bool quoted = name.data() > reader.text.data() && name.data() < reader.text.data() + reader.text.size();
        const Span at =
            quoted ? quoted_span(reader, name, static_cast<uint64_t>(name.data() - reader.text.data()) - 1) : span;
        fault(reader, Code::TP2010, at, fmt::format("tied name `{}` is not a parameter of the model", name),
              "a tie names parameters by their whole paths: `lm_head.weight`");
      } else if (tie_of[param] != kNone) {
        fault(reader, Code::TP2010, span, fmt::format("`{}` stands in two ties, or twice in one", name),
              "list each tensor's names once, in one group");
      } else {
        tie_of[param] = static_cast<uint32_t>(graph.ties.size());
        tie.params.push_back(param);
      }
    }
    for (size_t i = 1; i < tie.params.size(); ++i) {
      const Param &a = graph.params[tie.params[0]], &b = graph.params[tie.params[i]];
      if (std::ranges::equal(shape_of(graph, a), shape_of(graph, b)) && a.dtype == b.dtype) continue;
      fault(reader, Code::TP2010, span,
            fmt::format("tied weights differ: `{}` is {} {}, `{}` is {} {}", path_of(graph, a),
                        shape_text(shape_of(graph, a)), dtypes()[a.dtype].name, path_of(graph, b),
                        shape_text(shape_of(graph, b)), dtypes()[b.dtype].name));
    }
    if (tie.params.size() >= 2) graph.ties.push_back(std::move(tie));
  }
}

}  // namespace

// Not while modules are read: `framework`, on which separators, kinds and dims depend, may stand behind `modules`.
void complete_graph(ModelReader& reader) {
  ModelGraph& graph = reader.graph;
  for (const Module& module : graph.modules) check_path(reader, module.path, module.offset, false);
  for (const Param& param : graph.params) check_path(reader, param.name, param.offset, true);
  check_buffer_names(reader);
  if (has_errors(reader.diagnostics)) return;
  for (Module& module : graph.modules) {
    if (!module.kind_is_given)
      module.kind = kind_of_type(graph.framework, type_of(graph, module), module.param_count > 0);
  }
  add_ancestors(graph);
  for (const PendingDims& pending : reader.pending) {
    if (!too_many_faults(reader)) resolve_pending(reader, pending);
  }
  resolve_ties(reader);
  if (graph.params.empty())
    fault(reader, Code::TP2012, {reader.graph.file, 0, 1}, "the model has no parameters: there is nothing to shard");
}

}  // namespace tpplan
