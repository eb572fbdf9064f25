#include "write_outcome.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "exec/run/bandwidth.h"
#include "manifest/manifest_json.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string wrong_text(uint64_t wrong, uint64_t elements) {
  return wrong == 0 ? "right" : fmt::format("{} of {} WRONG", wrong, elements);
}

}  // namespace

std::string redistributions_text(const Manifest& manifest, const Outcome& outcome) {
  if (outcome.schedule.empty()) return "No redistributions: nothing in this manifest communicates.\n";
  std::string out = fmt::format("{:<37}{:>6}{:>10}{:>11}{:>8}{:>8}\n", "redistributions (bandwidths in GB/s)", "ranks",
                                "bytes", "time", "algbw", "busbw");
  size_t next = 0;
  for (uint32_t id = 0; id < outcome.schedule.size(); ++id) {
    const ScheduleEntry& entry = outcome.schedule[id];
    const EntryResult& result = outcome.redistributions.entries[id];
    const std::string verdict = !result.not_run.empty() ? "not run: " + result.not_run
                                : !result.fault.empty() ? "WRONG: " + result.fault
                                                        : wrong_text(result.wrong, result.elements);
    out += fmt::format("{} {}\n  {} x {}{}, {}\n", to_text(entry.part), escape_for_terminal(entry.pattern), entry.count,
                       dtypes()[entry.dtype].name, shape_text(entry.shape), verdict);
    for (; next < outcome.redistributions.collectives.size() && outcome.redistributions.collectives[next].entry == id;
         ++next) {
      const CollectiveResult& c = outcome.redistributions.collectives[next];
      const Bandwidth bandwidth = bandwidth_of(c.collective.kind, c.bytes, c.seconds, static_cast<int>(c.ranks));
      out += fmt::format("  {:<35}{:>6}{:>10}{:>11}{:>8.2f}{:>8.2f}\n",
                         escape_for_terminal(to_text(c.collective, manifest.mesh)), c.ranks, human_bytes(c.bytes),
                         time_text(c.seconds), bandwidth.algorithm / 1e9, bandwidth.bus / 1e9);
    }
  }
  return out;
}

std::string matmuls_text(const Manifest& manifest, const Outcome& outcome) {
  std::string out;
  for (size_t i = 0; i < outcome.matmuls.size(); ++i) {
    const ModuleMatmul& matmul = outcome.matmuls[i];
    const MatmulResult& result = outcome.results[i];
    const ParamLayout& layout = layout_of(manifest, *matmul.weight.param);
    out += fmt::format("{}matmul {}\n  {} x {} {}, ", out.empty() ? "\n" : "", escape_for_terminal(matmul.pattern),
                       matmul.count, matmul.weight.is_embedding ? "embedding" : "linear", shape_text(layout.shape));
    if (result.fault != MatmulError::None) {
      out += fmt::format("{}: {}\n", is_wrong(result.fault) ? "WRONG" : "not run", result.reason);
      continue;
    }
    out += fmt::format("{}\n  y {}", time_text(result.seconds), wrong_text(result.wrong, result.elements));
    if (!matmul.weight.is_embedding)
      out += fmt::format("; dx {}", wrong_text(result.input_wrong, result.input_elements));
    out += fmt::format("; dw {}\n", wrong_text(result.weight_wrong, result.weight_elements));
  }
  return out;
}

std::string summary_text(const Outcome& outcome) {
  const uint64_t wrong = count_wrong_steps(outcome), steps = outcome.schedule.size() + outcome.results.size();
  std::string out = wrong == 0 ? fmt::format("\nall {} redistributions and matmuls equal the unsharded result\n", steps)
                               : fmt::format("\n{} of {} redistributions and matmuls are WRONG\n", wrong, steps);
  const auto not_run =
      std::ranges::count_if(outcome.results,
                            [](const MatmulResult& r) { return r.fault != MatmulError::None && !is_wrong(r.fault); }) +
      std::ranges::count_if(outcome.redistributions.entries, [](const EntryResult& e) { return !e.not_run.empty(); });
  if (not_run != 0) out += fmt::format("{} not run\n", counted(static_cast<uint64_t>(not_run), "step"));
  return out;
}

namespace {

void write_seconds_exactly(JsonWriter& json, double seconds) {
  write_key(json, "seconds");
  write_number(json, seconds, 9);
}

void write_collective(JsonWriter& json, const Manifest& manifest, const CollectiveResult& c) {
  const Bandwidth bandwidth = bandwidth_of(c.collective.kind, c.bytes, c.seconds, static_cast<int>(c.ranks));
  begin_object(json);
  write_field(json, "kind", to_text(c.collective.kind));
  write_field(json, "axis", manifest.mesh.axes[c.collective.axis].name);
  write_field(json, "ranks", c.ranks);
  write_field(json, "bytes", c.bytes);
  write_seconds_exactly(json, c.seconds);
  write_key(json, "algbw");
  write_number(json, bandwidth.algorithm, 0);
  write_key(json, "busbw");
  write_number(json, bandwidth.bus, 0);
  end_object(json);
}

void write_optional_field(JsonWriter& json, std::string_view key, std::string_view text) {
  write_key(json, key);
  write_optional(json, text);
}

void write_counts(JsonWriter& json, uint64_t elements, uint64_t wrong) {
  write_field(json, "elements", elements);
  write_field(json, "wrong", wrong);
}

// Writes one redistribution with its collectives. `next` is the index of the first unwritten collective; the
// collectives are in the order of the entries.
void write_entry(JsonWriter& json, const Manifest& manifest, const Outcome& outcome, uint32_t id, size_t& next) {
  const ScheduleEntry& entry = outcome.schedule[id];
  const EntryResult& result = outcome.redistributions.entries[id];
  const std::vector<CollectiveResult>& collectives = outcome.redistributions.collectives;
  begin_object(json);
  write_field(json, "part", to_text(entry.part));
  write_field(json, "path", entry.path);
  write_field(json, "pattern", entry.pattern);
  write_field(json, "count", entry.count);
  write_key(json, "shape");
  write_array(json, entry.shape);
  write_field(json, "dtype", dtypes()[entry.dtype].name);
  write_optional_field(json, "not_run", result.not_run);
  write_optional_field(json, "fault", result.fault);
  write_counts(json, result.elements, result.wrong);
  write_key(json, "collectives");
  begin_array(json);
  for (; next < collectives.size() && collectives[next].entry == id; ++next)
    write_collective(json, manifest, collectives[next]);
  end_array(json);
  end_object(json);
}

void write_matmul(JsonWriter& json, const Manifest& manifest, const ModuleMatmul& matmul, const MatmulResult& r) {
  struct Part {
    std::string_view name;
    uint64_t elements, wrong;
  };
  begin_object(json);
  write_field(json, "path", matmul.path);
  write_field(json, "pattern", matmul.pattern);
  write_field(json, "count", matmul.count);
  write_field(json, "kind", matmul.weight.is_embedding ? "embedding" : "linear");
  write_key(json, "shape");
  write_array(json, layout_of(manifest, *matmul.weight.param).shape);
  write_optional_field(json, "not_run", is_wrong(r.fault) ? "" : r.reason);
  write_optional_field(json, "fault", is_wrong(r.fault) ? r.reason : "");
  write_seconds_exactly(json, r.seconds);
  for (const Part& part : {Part{"y", r.elements, r.wrong}, Part{"dx", r.input_elements, r.input_wrong},
                           Part{"dw", r.weight_elements, r.weight_wrong}}) {
    write_key(json, part.name);
    begin_object(json);
    write_counts(json, part.elements, part.wrong);
    end_object(json);
  }
  end_object(json);
}

}  // namespace

std::string outcome_json(const Manifest& manifest, const Outcome& outcome, std::string_view backend) {
  JsonWriter json;
  begin_object(json);
  write_field(json, "backend", backend);
  write_field(json, "device", outcome.device);
  write_field(json, "ranks", device_count(manifest.mesh));
  write_key(json, "redistributions");
  begin_array(json);
  size_t next = 0;
  for (uint32_t id = 0; id < outcome.schedule.size(); ++id) {
    next_line(json, 1);
    write_entry(json, manifest, outcome, id, next);
  }
  end_array(json);
  next_line(json, 0);
  write_key(json, "products");
  begin_array(json);
  for (size_t i = 0; i < outcome.matmuls.size(); ++i) {
    next_line(json, 1);
    write_matmul(json, manifest, outcome.matmuls[i], outcome.results[i]);
  }
  end_array(json);
  next_line(json, 0);
  write_field(json, "wrong_steps", count_wrong_steps(outcome));
  end_object(json);
  return json.out + '\n';
}

}  // namespace tpplan
