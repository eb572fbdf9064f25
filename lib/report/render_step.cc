#include "report/render_step.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"

namespace tpplan {
namespace {

constexpr size_t kNameWidth = 19, kBytesWidth = 12;  // columns of a term

std::string in_bold(std::string_view text, const TerminalStyle& look) { return paint(text, kBold, look.color); }

std::string fitting(std::string text, size_t width) {
  constexpr std::string_view kDots = "...";
  if (text.size() <= width) return text;
  return text.substr(0, width > kDots.size() ? width - kDots.size() : 0) + std::string(kDots);
}

std::string matmul_words(const StepTime& time, const Topology& topology) {
  return time.has_matmul_speed ? fmt::format("matmuls at {:g} % of the peak", topology.efficiency * 100)
                               : std::string("matmuls are not timed");
}

std::string measured_line(const LinkSpeed& link) {
  if (link.timings == 0) return {};
  return fmt::format("   measured: {} a hop, {:.1f} GB/s ({})\n", human_seconds(link.latency), link.bandwidth / 1e9,
                     counted(link.timings, "timing"));
}

std::string peak_title(const MemoryPeak& peak) {
  const std::string at = peak.operation.empty() ? peak.phase : fmt::format("{}, {}", peak.phase, peak.operation);
  return fmt::format("peak memory of a step, rank 0: {}{}", escape_for_terminal(at),
                     peak.module.empty() ? "" : fmt::format(" in {}", escape_for_terminal(peak.module)));
}

std::string axis_with_size(const Mesh& mesh, AxisId axis) {
  return fmt::format("{}={}", axis_name(mesh, axis), mesh.axes[axis].size);
}

}  // namespace

std::string fits_text(const TrainingMemory& memory) {
  const uint64_t reserved = reserved_of(memory), capacity = memory.capacity;
  if (reserved <= capacity)
    return fmt::format("fits: {} of {} remain for {}the CUDA context, NCCL and kernels",
                       human_bytes(capacity - reserved), human_bytes(capacity),
                       !memory.infer && !memory.has_step ? "activations, " : "");
  if (memory.total <= capacity)
    return fmt::format("fits only without fragmentation: segments exceed {} by {} (try expandable_segments)",
                       human_bytes(capacity), human_bytes(reserved - capacity));
  return fmt::format("does not fit: tensors exceed {} by {}", human_bytes(capacity),
                     human_bytes(memory.total - capacity));
}

std::string memory_lines(const TrainingMemory& memory, const TerminalStyle& look) {
  std::string out;
  for (const MemoryTerm& term : memory.terms)
    out += fitting(fmt::format(" {}{:<{}}{:>{}}  {}", term.is_part ? " " : "", term.name,
                               kNameWidth - (term.is_part ? 1 : 0), human_bytes(term.bytes), kBytesWidth,
                               escape_for_terminal(term.formula)),
                   look.width) +
           '\n';
  return out + fmt::format(" {:<{}}{:>{}}\n", "together", kNameWidth, human_bytes(memory.total), kBytesWidth);
}

std::string render_memory(const TrainingMemory& memory, const TerminalStyle& look) {
  if (memory.overflow) return "no memory of a step: the sums of bytes exceed 64 bits\n";
  std::string out = in_bold(memory.infer  ? std::string("memory of inference, rank 0")
                            : memory.peak ? peak_title(*memory.peak)
                                          : fmt::format("memory of a step, rank 0: recipe {}", memory.recipe->name),
                            look) +
                    '\n' + memory_lines(memory, look);
  if (memory.peak)
    out += fmt::format(" {:<{}}{:>{}}  segments of the caching allocator\n", "reserved", kNameWidth,
                       human_bytes(memory.peak->reserved), kBytesWidth);
  if (memory.capacity > 0) out += ' ' + fits_text(memory) + '\n';
  if (memory.infer)
    out += fmt::format("{}{}\n", memory.has_step ? "" : "results, ",
                       memory.has_cache ? kCachedInferenceOmits : kInferenceOmits);
  else if (!memory.has_step)
    out += "activations are unknown: the operations of a step are not all known\n";
  return out;
}

std::string render_time(const StepTime& time, const Mesh& mesh, const Topology& topology, const TerminalStyle& look) {
  const std::string& machine = topology.name.empty() ? topology.device : topology.name;
  std::string out = in_bold(fmt::format("time of a step, rank 0{}{}: {}", machine.empty() ? "" : " on ",
                                        escape_for_terminal(machine), matmul_words(time, topology)),
                            look) +
                    '\n';
  out += fmt::format(" {:<28}{:>12}{:>12}{:>16}\n", "", "forward", "backward", "communication");
  for (const LayerTime& layer : time.layers) {
    const std::string name = layer.layers.empty() ? "outside layers"
                             : layer.count == 1   ? escape_for_terminal(layer.layers)
                                                  : fmt::format("{}, each", escape_for_terminal(layer.layers));
    out += fmt::format(" {:<28}{:>12}{:>12}{:>16}\n", fitting(name, 28), human_seconds(layer.forward),
                       human_seconds(layer.backward), human_seconds(layer.communication));
  }
  double communication = 0;
  for (const AxisTime& axis : time.axes) communication += axis.seconds;
  out += fmt::format(" {:<28}{:>12}{:>12}{:>16}\n", "full step", human_seconds(time.forward),
                     human_seconds(time.backward), human_seconds(communication));
  for (const AxisTime& axis : time.axes)
    out += fmt::format(" over {}: {} in {}, {}\n", axis_with_size(mesh, axis.axis), human_seconds(axis.seconds),
                       counted(axis.calls, "call"),
                       axis.overlaps ? "may overlap with matmuls, not added" : "later operations wait for it") +
           measured_line(axis.link);
  out += fmt::format(" together {}: matmuls {}, waiting {}\n", human_seconds(time.total),
                     human_seconds(time.forward + time.backward), human_seconds(time.waited));
  return out;
}

void write_memory(JsonWriter& json, const TrainingMemory& memory) {
  begin_object(json);
  write_field(json, "recipe", memory.recipe->name);
  write_field(json, "activations", memory.has_step && !memory.infer);
  write_field(json, "total", memory.total);
  if (memory.capacity > 0) {
    write_field(json, "capacity_bytes", memory.capacity);
    write_field(json, "fits", reserved_of(memory) <= memory.capacity);
  }
  if (memory.peak) {
    write_field(json, "active_bytes", memory.total);
    write_field(json, "reserved_bytes", memory.peak->reserved);
    write_key(json, "peak");
    begin_object(json);
    write_field(json, "phase", memory.peak->phase);
    write_field(json, "operation", memory.peak->operation);
    write_field(json, "module", memory.peak->module);
    end_object(json);
  }
  write_key(json, "terms");
  write_array(json, memory.terms, [&](const MemoryTerm& term) {
    begin_object(json);
    write_field(json, "name", term.name);
    write_field(json, "bytes", term.bytes);
    write_field(json, "formula", term.formula);
    write_field(json, "is_part", term.is_part);
    end_object(json);
  });
  end_object(json);
}

void write_time(JsonWriter& json, const StepTime& time, const Mesh& mesh, const Topology& topology) {
  constexpr int kDigits = 9;
  const auto seconds = [&](std::string_view key, double value) {
    write_key(json, key);
    write_number(json, value, kDigits);
  };
  begin_object(json);
  write_field(json, "topology", topology.name);
  write_field(json, "device", topology.device);
  write_field(json, "products", time.has_matmul_speed);
  seconds("forward", time.forward);
  seconds("backward", time.backward);
  seconds("waited", time.waited);
  seconds("overlapped", time.hidden);
  seconds("total", time.total);
  write_key(json, "axes");
  write_array(json, time.axes, [&](const AxisTime& axis) {
    begin_object(json);
    write_field(json, "axis", mesh.axes[axis.axis].name);
    write_field(json, "calls", axis.calls);
    seconds("seconds", axis.seconds);
    write_field(json, "overlaps", axis.overlaps);
    seconds("latency", axis.link.latency);
    write_key(json, "bandwidth");
    write_number(json, axis.link.bandwidth, 0);
    write_field(json, "timings", axis.link.timings);
    end_object(json);
  });
  write_key(json, "layers");
  write_array(json, time.layers, [&](const LayerTime& layer) {
    begin_object(json);
    write_field(json, "layers", layer.layers);
    write_field(json, "count", layer.count);
    seconds("forward", layer.forward);
    seconds("backward", layer.backward);
    seconds("communication", layer.communication);
    end_object(json);
  });
  end_object(json);
}

}  // namespace tpplan
