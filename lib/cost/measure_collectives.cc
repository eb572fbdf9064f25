#include "cost/measure_collectives.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.h"
#include "cost/checked_sum.h"
#include "cost/layer_path.h"
#include "sharding/dtype.h"
#include "sharding/steps.h"

namespace tpplan {
namespace {

// Modules whose paths differ only in their first number.
struct Family {
  std::string_view stack, below;
  std::vector<int64_t> numbers;  // empty if the path has no number
};

std::string text_of(Family& family) {
  if (family.numbers.empty()) return std::string(family.below);
  std::sort(family.numbers.begin(), family.numbers.end());
  family.numbers.erase(std::unique(family.numbers.begin(), family.numbers.end()), family.numbers.end());
  const std::string numbers =
      family.numbers.size() == 1 ? std::to_string(family.numbers[0]) : ranges_text(family.numbers);
  return join_path(join_path(family.stack, numbers), family.below);
}

// Returns "self_attn" for "self_attn.o_proj", "experts" for "experts.7.w2".
std::string_view parent_of(std::string_view path) {
  const LayerPath layer = layer_path(path);
  if (layer.number >= 0) return layer.stack;
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

bool same_but_module(const CollectiveCall& a, const CollectiveCall& b) {
  return a.backward == b.backward && a.hidden == b.hidden && a.kind == b.kind && a.axis == b.axis &&
         a.shape == b.shape && a.dtype == b.dtype && a.operation == b.operation;
}

struct Summing {
  const Mesh& mesh;
  bool overflow = false;
};

void add(Summing& summing, CallSums& sums, const CallSums& more, uint64_t times) {
  CheckedSum payload{sums.payload}, wire{sums.wire};
  add(payload, more.payload, times);
  add(wire, more.wire, times);
  summing.overflow |= payload.overflow || wire.overflow;
  sums = {sums.calls + more.calls * times, payload.value, wire.value};
}

CallSums sums_of(Summing& summing, const CollectiveCall& call) {
  const int64_t ranks = summing.mesh.axes[call.axis].size;
  const uint64_t payload = payload_bytes(call, ranks), wire = ring_bytes(call.kind, payload, ranks);
  summing.overflow |= payload == kTooManyBytes || wire == kTooManyBytes;
  return {1, payload, wire};
}

struct LayerCall {
  const CollectiveCall* call = nullptr;
  std::string_view below;
};

// Returns the rows of one pass: consecutive identical calls of one parent, or identical calls of all experts.
std::vector<CallRow> rows_of(Summing& summing, const std::vector<LayerCall>& calls, bool backward) {
  struct Building {
    CallRow row;
    std::vector<Family> families;
    std::string_view parent;
  };
  std::vector<Building> rows;
  for (const LayerCall& c : calls) {
    if (c.call->backward != backward) continue;
    const LayerPath path = layer_path(c.below);
    const std::string_view parent = parent_of(c.below);
    const auto fits = [&](const Building& row) {
      return row.parent == parent && same_but_module(*row.row.call, *c.call);
    };
    // Calls of experts alternate, so identical ones need not be consecutive.
    auto found = rows.empty() || !fits(rows.back()) ? rows.end() : rows.end() - 1;
    if (path.number >= 0) found = std::find_if(rows.begin(), rows.end(), fits);
    if (found == rows.end()) found = rows.insert(rows.end(), {{c.call, {}, {}}, {}, parent});
    const auto family = std::find_if(found->families.begin(), found->families.end(), [&](const Family& f) {
      return f.numbers.empty() == (path.number < 0) && f.stack == path.stack && f.below == path.below;
    });
    if (family == found->families.end())
      found->families.push_back(
          {path.stack, path.below, path.number < 0 ? std::vector<int64_t>{} : std::vector{path.number}});
    else if (path.number >= 0)
      family->numbers.push_back(path.number);
    add(summing, found->row.sums, sums_of(summing, *c.call), 1);
  }
  std::vector<CallRow> out;
  for (Building& row : rows) {
    for (Family& family : row.families) row.row.modules.push_back(text_of(family));
    out.push_back(std::move(row.row));
  }
  return out;
}

// Returns a key that is equal for layers with the same calls in the same order.
std::string signature_of(const std::vector<LayerCall>& calls) {
  std::string key;
  for (const LayerCall& c : calls) {
    key += fmt::format("{} {} {} {} {} ", c.call->backward, c.call->hidden, static_cast<int>(c.call->kind),
                       c.call->axis, c.call->dtype);
    for (const int64_t size : c.call->shape) key += fmt::format("{},", size);
    key.append(c.call->operation).append(" ").append(c.below).push_back('\n');
  }
  return key;
}

}  // namespace

CallSums sum_calls(std::span<const CollectiveCall> calls, const Mesh& mesh) {
  CallSums sums;
  Summing summing{mesh};
  for (const CollectiveCall& call : calls) add(summing, sums, sums_of(summing, call), 1);
  return summing.overflow ? CallSums{calls.size(), kTooManyBytes, kTooManyBytes} : sums;
}

// Layers of different stacks, as of encoder and decoder, are never one group. The rows are those of the first layer of
// a group.
CollectiveMeasure measure_collectives(std::span<const CollectiveCall> calls, const Mesh& mesh) {
  CollectiveMeasure measure;
  Summing summing{mesh};
  // Layers in the order of their first calls; number -1 is everything outside of layers.
  std::vector<std::pair<LayerPath, std::vector<LayerCall>>> layers;
  std::map<std::pair<std::string_view, int64_t>, size_t> index;
  for (const CollectiveCall& call : calls) {
    const LayerPath path = layer_path(call.module);
    const auto [entry, is_new] = index.try_emplace({path.stack, path.number}, layers.size());
    if (is_new) layers.push_back({path, {}});
    layers[entry->second].second.push_back({&call, path.below});
    const CallSums sums = sums_of(summing, call);
    add(summing, call.backward ? measure.backward : measure.forward, sums, 1);
    if (call.hidden) add(summing, measure.hidden, sums, 1);
  }
  std::stable_partition(layers.begin(), layers.end(), [](const auto& layer) { return layer.first.number < 0; });
  struct Equal {
    size_t group = 0;
    std::vector<int64_t> numbers;
  };
  std::map<std::pair<std::string_view, std::string>, Equal> equal;
  for (const auto& [path, layer_calls] : layers) {
    Equal& same = equal[{path.stack, path.number < 0 ? std::string() : signature_of(layer_calls)}];
    same.numbers.push_back(path.number);
    if (same.numbers.size() > 1) continue;
    same.group = measure.groups.size();
    CallGroup& group = measure.groups.emplace_back();
    group.forward = rows_of(summing, layer_calls, false);
    group.backward = rows_of(summing, layer_calls, true);
    for (const auto* rows : {&group.forward, &group.backward}) {
      for (const CallRow& row : *rows) add(summing, group.sums, row.sums, 1);
    }
  }
  for (auto& [key, same] : equal) {
    CallGroup& group = measure.groups[same.group];
    if (same.numbers[0] < 0) continue;
    std::sort(same.numbers.begin(), same.numbers.end());
    group.count = same.numbers.size();
    group.layers =
        join_path(key.first, same.numbers.size() == 1 ? std::to_string(same.numbers[0]) : ranges_text(same.numbers));
  }
  for (const CallSums& pass : {measure.forward, measure.backward}) add(summing, measure.total, pass, 1);
  measure.overflow = summing.overflow;
  return measure;
}

std::string modules_text(std::span<const std::string> modules) {
  if (modules.size() == 1) return modules[0];
  const std::string& first = modules[0];
  size_t prefix = first.size(), suffix = first.size();
  for (const std::string& path : modules) {
    prefix = std::min(
        prefix,
        static_cast<size_t>(std::mismatch(first.begin(), first.end(), path.begin(), path.end()).first - first.begin()));
    suffix = std::min(
        suffix, static_cast<size_t>(std::mismatch(first.rbegin(), first.rend(), path.rbegin(), path.rend()).first -
                                    first.rbegin()));
  }
  // Only full words: the prefix ends after a dot, the suffix begins at an underscore or dot.
  prefix = prefix == 0 ? 0 : first.rfind('.', prefix - 1) + 1;
  const size_t word = first.find_first_of("_.", first.size() - suffix);
  suffix = word == std::string::npos ? 0 : first.size() - word;
  std::vector<std::string> names;
  for (const std::string& path : modules) {
    if (path.size() <= prefix + suffix) return join(std::vector<std::string>(modules.begin(), modules.end()), ", ");
    names.push_back(path.substr(prefix, path.size() - prefix - suffix));
  }
  if (prefix + suffix == 0) return join(names, ", ");
  return fmt::format("{}{{{}}}{}", first.substr(0, prefix), join(names, ","), first.substr(first.size() - suffix));
}

}  // namespace tpplan
