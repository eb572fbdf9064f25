#include "topology/read_topology.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "diagnostics/diagnostics.h"
#include "sharding/distribution.h"
#include "text/yaml_tree.h"

namespace tpplan {
namespace {

// No machine has figures near these. Others are typing errors, and sums of quotients would overflow.
constexpr double kLeastFigure = 1e-15, kMostFigure = 1e24;
constexpr double kMostSeconds = 1e9;       // of a measured step
constexpr size_t kMostMeasuredSteps = 64;  // each is checked and priced

struct TopologyReader {
  const YamlTree& tree;
  const Mesh& mesh;
  Diagnostics& diagnostics;
  SpeedTable& table;
};

const YamlNode& at(const TopologyReader& r, YamlId id) { return r.tree.nodes[id]; }

void reject(TopologyReader& r, Code code, YamlId id, std::string message, std::string help) {
  report_message(r.diagnostics, code, span_of(r.tree.file, at(r, id)), std::move(message), std::move(help));
}

void reject_key(TopologyReader& r, YamlId key, std::string_view where, std::span<const std::string_view> known) {
  const std::string_view nearest = nearest_name(at(r, key).text, known);
  reject(r, Code::InvalidTopology, key, fmt::format("unknown key `{}` in {}", at(r, key).text, where),
         nearest.empty() ? fmt::format("use one of {}", fmt::join(known, ", "))
                         : fmt::format("did you mean `{}`?", nearest));
}

bool is_kind(TopologyReader& r, YamlId id, YamlKind kind, std::string_view what) {
  if (at(r, id).kind == kind) return true;
  reject(r, Code::InvalidTopology, id,
         fmt::format("{} is {}, not {}", what, describe(at(r, id)), kind == YamlKind::Map ? "a mapping" : "a list"),
         "see plans/topologies/h100.yaml for an example");
  return false;
}

// Reads a number above 0 and up to `most`.
bool read_figure(TopologyReader& r, YamlId id, std::string_view what, double& value, double most = kMostFigure) {
  const YamlNode& node = at(r, id);
  const bool is_number = node.kind == YamlKind::Scalar && node.is_plain && parse_number(node.text, value);
  if (is_number && value >= kLeastFigure && value <= most) return true;
  reject(
      r, Code::InvalidTopology, id,
      is_number ? fmt::format("{} is {}, but must be above 0 and at most {:g}", what, node.text, most)
                : fmt::format("{} is {}, not a number", what, describe(node)),
      "write bandwidths in bytes a second (450e9), latencies in seconds (2e-6), peaks in operations a second (989e12)");
  return false;
}

template <typename Visit>
void each_entry(TopologyReader& r, YamlId map, Visit visit) {
  const std::vector<YamlId>& children = at(r, map).children;
  for (size_t i = 0; i + 1 < children.size(); i += 2) visit(children[i], children[i + 1]);
}

// Reads whether a bandwidth is that of one rank or of a host.
bool read_owner(TopologyReader& r, YamlId id, LinkSpeed& speed) {
  const std::string& text = at(r, id).text;
  speed.is_of_host = text == "host";
  if (text == "host" || text == "rank") return true;
  reject(r, Code::InvalidTopology, id, fmt::format("`per` is {}, but must be `rank` or `host`", describe(at(r, id))),
         "write `per: host` if the ranks of a host share the bandwidth");
  return false;
}

// Reads a speed from a mapping, which must have both bandwidth and latency.
bool read_speed(TopologyReader& r, YamlId id, std::string_view what, LinkSpeed& speed, int64_t* ranks) {
  static constexpr std::string_view kKeys[] = {"bandwidth", "latency", "efficiency", "per", "ranks"};
  if (!is_kind(r, id, YamlKind::Map, what)) return false;
  bool right = true;
  each_entry(r, id, [&](YamlId key, YamlId value) {
    const std::string& name = at(r, key).text;
    double count = 0;
    if (name == "bandwidth") {
      right = read_figure(r, value, "`bandwidth`", speed.bandwidth) && right;
    } else if (name == "latency") {
      right = read_figure(r, value, "`latency`", speed.latency) && right;
    } else if (name == "efficiency") {
      right = read_figure(r, value, "`efficiency`", speed.efficiency, 1) && right;
    } else if (name == "per") {
      right = read_owner(r, value, speed) && right;
    } else if (name == "ranks" && ranks != nullptr) {
      right = read_figure(r, value, "`ranks`", count) && right;
      *ranks = static_cast<int64_t>(std::min(count, 2147483647.0));
    } else {
      reject_key(r, key, what, std::span(kKeys).first(ranks == nullptr ? 4 : 5));
      right = false;
    }
  });
  if (right && (speed.bandwidth == 0 || speed.latency == 0)) {
    reject(r, Code::InvalidTopology, id,
           fmt::format("{} has no `{}`", what, speed.bandwidth == 0 ? "bandwidth" : "latency"),
           "write {bandwidth: 450e9, latency: 2e-6}: bytes a second, and seconds");
    return false;
  }
  return right;
}

void read_peaks(TopologyReader& r, YamlId id) {
  if (!is_kind(r, id, YamlKind::Map, "`peak_flops`")) return;
  each_entry(r, id, [&](YamlId key, YamlId value) {
    DType dtype{};
    double peak = 0;
    if (!find_dtype(at(r, key).text, dtype))
      reject(r, Code::InvalidTopology, key, fmt::format("`{}` in `peak_flops` is not a dtype", at(r, key).text),
             "use torch's names: bfloat16, float32, float8_e4m3fn");
    else if (read_figure(r, value, "a peak", peak))
      r.table.topology.peak.emplace_back(dtype, peak);
  });
}

void read_axes(TopologyReader& r, YamlId id) {
  if (!is_kind(r, id, YamlKind::Map, "`axes`")) return;
  each_entry(r, id, [&](YamlId key, YamlId value) {
    const AxisId axis = find_axis(r.mesh, at(r, key).text);
    if (axis == kNoAxis) {
      reject(r, Code::UnknownTopologyAxis, key,
             fmt::format("the plan's mesh {} has no axis `{}`", to_text(r.mesh), at(r, key).text),
             "name an axis of the mesh, or write `links`, which apply to any mesh");
      return;
    }
    r.table.known[axis] =
        read_speed(r, value, fmt::format("the axis `{}`", at(r, key).text), r.table.topology.axes[axis], nullptr);
  });
}

void read_links(TopologyReader& r, YamlId id) {
  if (!is_kind(r, id, YamlKind::Sequence, "`links`")) return;
  for (const YamlId item : at(r, id).children) {
    RankLink link;
    if (read_speed(r, item, "a link", link.speed, &link.ranks)) r.table.topology.links.push_back(link);
  }
}

// Reads a text that is not empty.
bool read_path(TopologyReader& r, YamlId id, std::string_view what, std::string& text) {
  const YamlNode& node = at(r, id);
  if (node.kind == YamlKind::Scalar && !node.text.empty()) {
    text = node.text;
    return true;
  }
  reject(r, Code::InvalidTopology, id, fmt::format("{} is {}, not a file name", what, describe(node)),
         "write the path relative to the topology");
  return false;
}

// Reads an entry of `calibrate`, which has all four keys.
void read_measured_step(TopologyReader& r, YamlId id) {
  static constexpr std::string_view kKeys[] = {"model", "plan", "run", "seconds"};
  if (!is_kind(r, id, YamlKind::Map, "a measured step")) return;
  MeasuredStep step{.span = span_of(r.tree.file, at(r, id))};
  std::string* const texts[] = {&step.model, &step.plan, &step.run};
  size_t found = 0;
  bool right = true;
  each_entry(r, id, [&](YamlId key, YamlId value) {
    const auto name = std::find(std::begin(kKeys), std::end(kKeys), at(r, key).text);
    if (name == std::end(kKeys)) {
      reject_key(r, key, "a measured step", kKeys);
      right = false;
      return;
    }
    const auto index = static_cast<size_t>(name - std::begin(kKeys));
    ++found;
    right = (index == 3 ? read_figure(r, value, "`seconds`", step.seconds, kMostSeconds)
                        : read_path(r, value, fmt::format("`{}`", *name), *texts[index])) &&
            right;
  });
  if (right && found < std::size(kKeys))
    reject(r, Code::InvalidTopology, id, "the measured step lacks a key",
           "write {model: model.json, plan: plan.yaml, run: run.yaml, seconds: 2.5}");
  else if (right)
    r.table.topology.calibrate.push_back(std::move(step));
}

void read_calibrate(TopologyReader& r, YamlId id) {
  if (!is_kind(r, id, YamlKind::Sequence, "`calibrate`")) return;
  const std::vector<YamlId>& items = at(r, id).children;
  if (items.size() > kMostMeasuredSteps)
    return reject(r, Code::InvalidTopology, id,
                  fmt::format("`calibrate` has {} steps, but at most {} are allowed", items.size(), kMostMeasuredSteps),
                  "keep steps with little and with much attention");
  for (const YamlId item : items) read_measured_step(r, item);
}

// Reads a figure of GpuFigures. Returns false if the key is none.
bool read_gpu_figure(TopologyReader& r, const std::string& name, YamlId value) {
  const auto rows = gpu_figures();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const GpuFigureRow& f) { return f.key == name; });
  if (row == rows.end()) return false;
  std::ignore = read_figure(r, value, fmt::format("`{}`", name), r.table.topology.gpu.*row->figure, row->most);
  return true;
}

// Returns the keys of a topology.
std::vector<std::string_view> top_keys() {
  std::vector<std::string_view> keys = {"format",     "name",  "device", "peak_flops",
                                        "efficiency", "links", "axes",   "calibrate"};
  for (const GpuFigureRow& row : gpu_figures()) keys.push_back(row.key);
  return keys;
}

void read_top(TopologyReader& r) {
  if (!is_kind(r, r.tree.root, YamlKind::Map, "the topology")) return;
  bool has_format = false;
  each_entry(r, r.tree.root, [&](YamlId key, YamlId value) {
    const std::string& name = at(r, key).text;
    if (name == "format") {
      has_format = at(r, value).text == kTopologyFormat;
    } else if (name == "name") {
      r.table.topology.name = at(r, value).text;
    } else if (name == "device") {
      r.table.topology.device = at(r, value).text;
    } else if (name == "peak_flops") {
      read_peaks(r, value);
    } else if (name == "efficiency") {
      std::ignore = read_figure(r, value, "`efficiency`", r.table.topology.efficiency, 1);
    } else if (name == "links") {
      read_links(r, value);
    } else if (name == "axes") {
      read_axes(r, value);
    } else if (name == "calibrate") {
      read_calibrate(r, value);
    } else if (!read_gpu_figure(r, name, value)) {
      reject_key(r, key, "a topology", top_keys());
    }
  });
  if (!has_format)
    reject(r, Code::InvalidTopology, r.tree.root, "the file does not declare that it is a topology",
           fmt::format("begin with `format: {}`", kTopologyFormat));
  if (r.table.topology.peak.empty() && !has_errors(r.diagnostics))
    reject(r, Code::InvalidTopology, r.tree.root, "the topology has no `peak_flops`",
           "write peak_flops: {bfloat16: 989e12}");
}

}  // namespace

void read_topology(const SourceFile& file, const Mesh& mesh, SpeedTable& table, Diagnostics& diagnostics) {
  YamlTree tree;
  Diagnostics own;
  const bool is_read = read_yaml(file, tree, own);
  TopologyReader r{.tree = tree, .mesh = mesh, .diagnostics = own, .table = table};
  if (is_read && tree.root == kNoYaml)
    report_message(own, Code::EmptyFile, {file.id, 0, 1}, "the topology is empty",
                   "see plans/topologies/h100.yaml for an example");
  else if (is_read && !table.topology.peak.empty())
    report_message(own, Code::InvalidTopology, {file.id, 0, 1}, "a second topology is given",
                   "give one topology with peaks and links, and add measured timings if needed");
  else if (is_read)
    read_top(r);
  diagnostics.list.insert(diagnostics.list.end(), own.list.begin(), own.list.end());
}

}  // namespace tpplan
