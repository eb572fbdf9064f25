#include "cost/measure_training.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "cost/checked_sum.h"
#include "cost/memory_pool.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Elements that rank 0 holds, by dtype; separately for trained parameters.
struct HeldElements {
  std::map<DType, CheckedSum> all, trained;
};

HeldElements held_by_first(const Manifest& manifest) {
  HeldElements held;
  const std::vector<uint64_t> uses = tensors_by_layout(manifest);
  for (size_t i = 0; i < uses.size(); ++i) {
    const ParamLayout& layout = manifest.layouts[i];
    if (uses[i] == 0 || layout.local_shapes.empty()) continue;
    const uint64_t elements = elements_of(layout.local_shapes[0]);
    add(held.all[layout.dtype], elements, uses[i]);
    if (is_trainable(layout.dtype)) add(held.trained[layout.dtype], elements, uses[i]);
  }
  return held;
}

// Adds a term with a number of bytes for each element.
template <typename BytesOf>
void put_term(TrainingMemory& memory, std::string_view name, const std::map<DType, CheckedSum>& elements,
              BytesOf bytes_of) {
  CheckedSum sum;
  std::vector<std::string> formula;
  for (const auto& [dtype, count] : elements) {
    const auto [times, bytes] = bytes_of(dtype, count.value);
    if (bytes == 0) continue;
    memory.overflow |= count.overflow || bytes == kTooManyBytes;
    add(sum, bytes, times);
    formula.push_back(fmt::format(
        "{} x {}{}", count.value, times == 1 ? "" : fmt::format("{} x ", times),
        count.value == 0 ? std::string("0")
                         : fmt::format("{:g}", static_cast<double>(bytes) / static_cast<double>(count.value))));
  }
  memory.overflow |= sum.overflow;
  if (sum.value > 0) memory.terms.push_back({std::string(name), sum.value, join(formula, " + ")});
}

// "80 x 210.0 MiB + 12.1 MiB".
std::string layers_formula(const StepCosts& costs) {
  std::vector<std::string> parts;
  for (const LayerCosts& layer : costs.layers) {
    if (layer.saved == 0) continue;
    parts.push_back(layer.count == 1 ? human_bytes(layer.saved)
                                     : fmt::format("{} layers x {}", layer.count, human_bytes(layer.saved)));
  }
  constexpr size_t kMost = 3;
  if (parts.size() > kMost) {
    const size_t more = parts.size() - kMost;
    parts.resize(kMost);
    parts.push_back(fmt::format("{} more", more));
  }
  return join(parts, " + ");
}

void put_step(TrainingMemory& memory, const StepCosts& costs) {
  memory.terms.push_back({"saved activations", costs.saved, layers_formula(costs)});
  if (costs.gathered > 0)
    memory.terms.push_back({"gathered copies", costs.gathered, "of these: full tensors after gathers", true});
  if (costs.gathered_weights > 0)
    memory.terms.push_back({"gathered weights", costs.gathered_weights, "of these: over data axes", true});
  memory.terms.push_back({"logits", costs.logits, "results x 4, saved by a float32 loss"});
  memory.terms.push_back({"largest transient", costs.transient,
                          costs.transient_op.empty()
                              ? std::string("none")
                              : fmt::format("gradients of {}{}{}", costs.transient_op,
                                            costs.transient_module.empty() ? "" : " in ", costs.transient_module)});
}

void set_total(TrainingMemory& memory) {
  CheckedSum total;
  for (const MemoryTerm& term : memory.terms) add(total, term.is_part ? 0 : term.bytes, 1);
  memory.overflow |= total.overflow;
  memory.total = total.value;
}

void put_buffers(TrainingMemory& memory, const Manifest& manifest) {
  CheckedSum buffers;
  for (const ManifestParam& buffer : manifest.buffers) add(buffers, global_bytes(layout_of(manifest, buffer)), 1);
  memory.overflow |= buffers.overflow;
  if (buffers.value > 0)
    memory.terms.push_back({"buffers", buffers.value, fmt::format("{} replicated", manifest.buffers.size())});
}

}  // namespace

TrainingMemory measure_inference(const Manifest& manifest, std::optional<uint64_t> results,
                                 const std::optional<MemoryTerm>& cache) {
  TrainingMemory memory = measure_training(manifest, *find_recipe("none"));
  memory.infer = true;
  memory.has_step = results.has_value();
  if (results) memory.terms.push_back({"results", *results, "outputs of the model"});
  memory.has_cache = cache.has_value();
  if (cache) memory.terms.push_back(*cache);
  set_total(memory);
  return memory;
}

TrainingMemory measure_training(const Manifest& manifest, const Recipe& recipe) {
  TrainingMemory memory{.recipe = &recipe};
  const HeldElements held = held_by_first(manifest);
  put_term(memory, "parameters", held.all,
           [](DType dtype, uint64_t elements) { return std::pair(uint64_t{1}, byte_size(dtype, elements)); });
  const auto put_trained = [&](std::string_view name, uint64_t TrainedBytes::*part, int times) {
    put_term(memory, name, held.trained, [&](DType dtype, uint64_t elements) {
      return std::pair(static_cast<uint64_t>(times), trained_bytes(recipe, dtype, elements).*part);
    });
  };
  put_trained("gradients", &TrainedBytes::gradient, 1);
  put_trained("master weights", &TrainedBytes::master, 1);
  put_trained("optimizer state", &TrainedBytes::state, recipe.states);
  put_buffers(memory, manifest);
  memory.has_step = manifest.costs.is_there;
  if (memory.has_step && recipe.gradient != ElementDtype::None) put_step(memory, manifest.costs);
  set_total(memory);
  return memory;
}

TrainingMemory measure_between_batches(const Manifest& manifest, const Run& run) {
  const Recipe& recipe = *find_recipe(run.recipe);
  const bool has_fsdp = manifest.fsdp && manifest.mesh.axes[manifest.fsdp->axis].size > 1;
  const std::vector<AxisId> data_axes = data_axes_of(manifest);
  const bool is_ddp = !has_fsdp && std::any_of(data_axes.begin(), data_axes.end(),
                                               [&](AxisId axis) { return manifest.mesh.axes[axis].size > 1; });
  const bool has_gradients = run.accumulation > 1 || (recipe.gradient == ElementDtype::Float32 && !has_fsdp);
  TrainingMemory memory{.recipe = &recipe};
  const HeldElements held = held_by_first(manifest);
  const auto stored = [&](DType dtype) {
    return keeps_float32_shard(recipe, has_fsdp, dtype) ? dtype_of("float32") : dtype;
  };
  const auto put = [&](TensorUse use, const std::map<DType, CheckedSum>& elements, int times, const auto& bytes_of) {
    put_term(memory, to_text(use), elements, [&](DType dtype, uint64_t count) {
      return std::pair(static_cast<uint64_t>(times), bytes_of(dtype, count));
    });
  };
  const auto trained = [&](uint64_t TrainedBytes::*part) {
    return [&, part](DType dtype, uint64_t count) { return trained_bytes(recipe, stored(dtype), count).*part; };
  };
  put(TensorUse::Parameters, held.all, 1, [&](DType dtype, uint64_t count) { return byte_size(stored(dtype), count); });
  put(TensorUse::Master, held.trained, 1, trained(&TrainedBytes::master));
  put(TensorUse::Optimizer, held.trained, recipe.states, trained(&TrainedBytes::state));
  if (has_gradients)
    put(TensorUse::Gradients, held.trained, 1, [&](DType dtype, uint64_t count) {
      return stored(dtype) == dtype ? trained_bytes(recipe, dtype, count).gradient : byte_size(stored(dtype), count);
    });
  if (is_ddp)
    put(TensorUse::Buckets, held.trained, 1, [](DType dtype, uint64_t count) { return byte_size(dtype, count); });
  put_buffers(memory, manifest);
  set_total(memory);
  return memory;
}

}  // namespace tpplan
