#include "report/render_suggestion.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "report/render_run.h"

namespace tpplan {
namespace {

std::string bytes_moved(const MeshTrial& trial) {
  return trial.limit == ForecastLimit::None ? human_bytes(trial.wire_bytes) : std::string("unknown");
}

std::string memory_held(const MeshTrial& trial) {
  return trial.memory ? human_bytes(trial.memory->total) : std::string("unknown");
}

// A column of the table, and whether it is printed.
struct SuggestionColumn {
  std::string_view title;
  int width;
  bool (*is_shown)(const Suggestion& suggestion);
  std::string (*text)(const MeshTrial& trial);
};

bool is_always_shown(const Suggestion&) { return true; }

bool has_capacity(const Suggestion& suggestion) {
  return std::ranges::any_of(suggestion.trials, [](const MeshTrial& t) { return t.memory && t.memory->capacity > 0; });
}

constexpr SuggestionColumn kSuggestionColumns[] = {
    {"parameters", 10, is_always_shown, [](const MeshTrial& trial) { return human_bytes(trial.parameter_bytes); }},
    {"memory", 10, is_always_shown, memory_held},
    {"reserved", 10, [](const Suggestion& suggestion) { return suggestion.run != nullptr; },
     [](const MeshTrial& trial) { return trial.memory ? human_bytes(reserved_of(*trial.memory)) : "unknown"; }},
    {"fits", 4, has_capacity,
     [](const MeshTrial& trial) {
       const bool is_known = trial.memory && trial.memory->capacity > 0;
       return std::string(!is_known ? "?" : reserved_of(*trial.memory) <= trial.memory->capacity ? "yes" : "no");
     }},
    {"time", 8, [](const Suggestion& suggestion) { return suggestion.is_timed; },
     [](const MeshTrial& trial) { return trial.seconds > 0 ? human_seconds(trial.seconds) : std::string("unknown"); }},
    {"sent per step", 11, is_always_shown, bytes_moved},
};

// Returns the cells of a row, or the titles for nullptr.
std::string mesh_row(const Suggestion& suggestion, const MeshTrial* trial) {
  std::string out;
  for (const SuggestionColumn& column : kSuggestionColumns) {
    if (column.is_shown(suggestion))
      out += fmt::format("  {:>{}}", trial == nullptr ? std::string(column.title) : column.text(*trial), column.width);
  }
  return out + '\n';
}

// Returns what the columns are.
std::string columns_note(const Suggestion& suggestion) {
  if (suggestion.infer) return fmt::format("memory is that of rank 0 in inference; {}", kInferenceOmits);
  if (suggestion.run == nullptr)
    return fmt::format("memory is that of rank 0 in a step with recipe {}; check --costs lists its parts",
                       suggestion.recipe);
  return "memory is the peak of rank 0, reserved what the allocator holds then; check --costs --run lists their parts";
}

// Meshes that fail for the same reason.
struct FailedMeshes {
  std::string meshes;
  const MeshTrial* first;
};

// Returns a reason without digits, to group the same reason at different sizes.
std::string shape_of_reason(std::string_view reason) {
  std::string shape;
  for (const char c : reason) {
    if (c >= '0' && c <= '9') continue;
    shape += c;
  }
  return shape;
}

std::vector<FailedMeshes> failed_meshes(const Suggestion& suggestion) {
  std::vector<FailedMeshes> rows;
  for (const MeshTrial& trial : suggestion.trials) {
    if (trial.is_right) continue;
    const auto same = std::ranges::find_if(rows, [&](const FailedMeshes& row) {
      return row.first->code == trial.code && shape_of_reason(row.first->reason) == shape_of_reason(trial.reason);
    });
    const bool one_axis = trial.mesh.axes.size() == 1 && suggestion.axis != kNoAxis;
    if (same == rows.end())
      rows.push_back({mesh_option_text(trial.mesh), &trial});
    else
      same->meshes += one_axis ? fmt::format(", {}", trial.mesh.axes[suggestion.axis].size)
                               : fmt::format("; {}", mesh_option_text(trial.mesh));
  }
  return rows;
}

std::string wrapped(std::string_view text, size_t indent, size_t width) {
  std::string out(indent, ' ');
  size_t column = indent;
  for (const std::string_view word : split(text, ' ')) {
    if (column > indent && column + 1 + word.size() > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) out += ' ', ++column;
    out += word;
    column += word.size();
  }
  return out + '\n';
}

}  // namespace

std::string render_suggestion(const Suggestion& suggestion, size_t width) {
  size_t mesh_width = 4;
  for (const MeshTrial& trial : suggestion.trials)
    mesh_width = std::max(mesh_width, escape_for_terminal(mesh_option_text(trial.mesh)).size());
  const bool any = std::ranges::any_of(suggestion.trials, &MeshTrial::is_right);
  std::string out = any ? fmt::format("{}: sizes with which the plan passes (* the sizes of the plan)\n",
                                      escape_for_terminal(suggestion.model))
                        : fmt::format("{}: the plan passes with none of the sizes that were tried\n",
                                      escape_for_terminal(suggestion.model));
  if (any) out += fmt::format("  {:<{}}  {:>5}", "mesh", mesh_width, "ranks") + mesh_row(suggestion, nullptr);
  ForecastLimit limit = ForecastLimit::None;
  for (const MeshTrial& trial : suggestion.trials) {
    if (!trial.is_right) continue;
    if (trial.limit != ForecastLimit::None) limit = trial.limit;
    out += fmt::format("{} {:<{}}  {:>5}", trial.is_of_plan ? '*' : ' ',
                       escape_for_terminal(mesh_option_text(trial.mesh)), mesh_width, device_count(trial.mesh)) +
           mesh_row(suggestion, &trial);
  }
  if (limit != ForecastLimit::None)
    out += wrapped(fmt::format("memory and bytes sent per step are unknown: {}; {}", to_text(limit), fix_of(limit)), 0,
                   width);
  else if (any)
    out += wrapped(columns_note(suggestion), 0, width);
  const auto rows = failed_meshes(suggestion);
  if (!rows.empty()) out += "rejected:\n";
  for (const FailedMeshes& row : rows) {
    out += wrapped(escape_for_terminal(row.meshes), 2, width);
    out +=
        wrapped(fmt::format("{}: {}", kind_of(row.first->code).id, escape_for_terminal(row.first->reason)), 6, width);
  }
  return out;
}

std::string suggestion_json(const Suggestion& suggestion, std::string_view tool) {
  JsonWriter json;
  begin_object(json);
  write_field(json, "format", kSuggestionFormat);
  write_field(json, "tool", tool);
  write_field(json, "model", suggestion.model);
  write_field(json, "recipe", suggestion.recipe);
  if (suggestion.run != nullptr) {
    write_key(json, "run");
    write_run(json, *suggestion.run);
  }
  write_key(json, "meshes");
  begin_array(json);
  for (const MeshTrial& trial : suggestion.trials) {
    next_line(json, 1);
    begin_object(json);
    write_key(json, "mesh");
    begin_object(json);
    for (const MeshAxis& axis : trial.mesh.axes) write_field(json, axis.name, axis.size);
    end_object(json);
    write_field(json, "ranks", device_count(trial.mesh));
    write_field(json, "own", trial.is_of_plan);
    write_field(json, "right", trial.is_right);
    if (trial.is_right) {
      write_field(json, "parameter_bytes", trial.parameter_bytes);
      write_key(json, "memory_bytes");
      if (trial.memory)
        write_value(json, trial.memory->total);
      else
        write_value(json, nullptr);
      if (trial.memory && trial.memory->peak) write_field(json, "reserved_bytes", trial.memory->peak->reserved);
      if (trial.memory && trial.memory->capacity > 0) {
        write_field(json, "capacity_bytes", trial.memory->capacity);
        write_field(json, "fits", reserved_of(*trial.memory) <= trial.memory->capacity);
      }
      if (trial.seconds > 0) {
        write_key(json, "seconds");
        write_exact(json, trial.seconds);
      }
      write_key(json, "sent_bytes");
      if (trial.limit == ForecastLimit::None)
        write_value(json, trial.wire_bytes);
      else
        write_value(json, nullptr);
    } else {
      write_field(json, "code", kind_of(trial.code).id);
      write_field(json, "reason", trial.reason);
    }
    end_object(json);
  }
  next_line(json, 0);
  end_array(json);
  write_key(json, "findings");
  write_array(json, suggestion.findings.list, [&json](const Diagnostic& finding) {
    next_line(json, 1);
    begin_object(json);
    write_field(json, "code", kind_of(finding.code).id);
    write_field(json, "severity", finding.severity == Severity::Error ? "error" : "warning");
    write_field(json, "message", finding.message);
    if (!finding.help.empty()) write_field(json, "help", finding.help);
    end_object(json);
  });
  end_object(json);
  json.out += '\n';
  return std::move(json.out);
}

}  // namespace tpplan
