#include "diff/field_texts.h"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "base/keyed_hash.h"
#include "base/starred_path.h"
#include "base/text.h"
#include "sharding/tensor_size.h"

namespace tpplan {

std::string comma_list(const std::vector<std::string>& items) { return items.empty() ? "none" : join(items, ", "); }

std::string placement_list_text(const std::optional<std::vector<Placement>>& placements) {
  return placements ? to_text(*placements) : "none";
}

std::string segments_text(const std::vector<DimSegments>& segments) {
  std::vector<std::string> words;
  for (const DimSegments& s : segments) words.push_back(fmt::format("dim {}: {}", s.dim, shape_text(s.sizes)));
  return comma_list(words);
}

std::string local_shapes_text(const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<std::pair<const std::vector<int64_t>*, uint64_t>> runs;
  for (const std::vector<int64_t>& shape : shapes) {
    if (!runs.empty() && *runs.back().first == shape)
      ++runs.back().second;
    else
      runs.emplace_back(&shape, 1);
  }
  std::vector<std::string> words;
  for (const auto& [shape, count] : runs)
    words.push_back(shape_text(*shape) + (count == 1 ? "" : fmt::format(" x {}", count)));
  return comma_list(words);
}

std::string grad_reduce_text(const std::vector<GradReduce>& reductions, const Mesh& mesh) {
  return reductions.empty() ? "none" : to_text(reductions, mesh);
}

std::string rule_name_text(const ManifestRule* rule) {
  if (rule == nullptr) return "none";
  return fmt::format("`{}{}`", rule->in_block ? rule->block + " / " : "", rule->key);
}

std::string style_text(const std::string& style) { return style.empty() ? "none" : style; }

std::string values_text(const std::vector<ManifestValue>& values, const Mesh& mesh) {
  std::vector<std::string> words;
  for (const ManifestValue& value : values) {
    std::string text = value.kwarg.empty() ? fmt::format("arg {}", value.arg) : fmt::format("kwarg {}", value.kwarg);
    text += fmt::format(" {} to {}", placement_list_text(value.from), placement_list_text(value.to));
    for (const auto& [direction, steps] :
         {std::pair{"forward", &value.forward}, std::pair{"backward", &value.backward}}) {
      for (const Step& step : *steps) {
        text += fmt::format(", {} {}", direction, to_text(step.collective, mesh));
      }
    }
    text += sent_dtypes_text(value.forward_dtype, value.backward_dtype, ", ");
    if (value.use_local) text += *value.use_local ? ", as a local tensor" : ", as a DTensor";
    words.push_back(std::move(text));
  }
  return comma_list(words);
}

std::string param_steps_text(const ManifestStep& step, const Mesh& mesh) {
  std::vector<std::string> words, axes;
  if (step.batch > 0) words.push_back(fmt::format("batch {}", step.batch));
  if (step.sequence > 0) words.push_back(fmt::format("sequence {}", step.sequence));
  for (const AxisId axis : step.unlisted) axes.push_back(axis_name(mesh, axis));
  if (!axes.empty()) words.push_back(fmt::format("without the calls over {}", comma_list(axes)));
  return words.empty() ? "none" : join(words, ", ");
}

std::string costs_text(const StepCosts& costs) {
  if (!costs.is_there) return "unknown";
  std::string words = fmt::format("{} saved for backward, {} of logits, {} transient", human_bytes(costs.saved),
                                  human_bytes(costs.logits), human_bytes(costs.transient));
  for (const MatmulWork& work : work_of(costs))
    words += fmt::format(", {:.4g} FLOPs in {}", static_cast<double>(work.forward + work.backward + work.again),
                         dtypes()[work.dtype].name);
  return words;
}

std::string data_text(const std::optional<ManifestData>& data, const Mesh& mesh) {
  if (!data) return "none";
  std::vector<std::string> axes;
  for (const AxisId axis : data->axes) axes.push_back(axis_name(mesh, axis));
  return fmt::format("dim {} over {}", data->dim, comma_list(axes));
}

std::string paths_text(const std::vector<std::string>& paths) {
  std::vector<std::pair<std::string, uint64_t>> patterns;
  TextMap<std::string, size_t> index;
  for (const std::string& path : paths) {
    const std::string pattern = starred_path(path);
    const auto [known, is_new] = index.emplace(pattern, patterns.size());
    if (is_new)
      patterns.emplace_back(pattern, 1);
    else
      ++patterns[known->second].second;
  }
  std::vector<std::string> words;
  for (const auto& [pattern, count] : patterns)
    words.push_back(fmt::format("{} ({})", pattern.empty() ? "<root>" : pattern, count));
  return comma_list(words);
}

std::string local_attributes_text(const std::optional<ManifestLocalAttributes>& local, const Mesh& mesh) {
  if (!local) return "none";
  std::vector<std::string> paths;
  for (const ManifestLocalModule& module : local->modules) {
    for (const auto& [name, size] : module.attributes) paths.push_back(fmt::format("{} of {}", name, module.path));
  }
  return fmt::format("over {}: {}", axis_name(mesh, local->axis), paths_text(paths));
}

std::string fsdp_text(const std::optional<ManifestFsdp>& fsdp, const Mesh& mesh) {
  if (!fsdp) return "none";
  return fmt::format("{} over {}, min_weight_size {}, units {}", fsdp->policy, axis_name(mesh, fsdp->axis),
                     fsdp->min_weight_size, paths_text(fsdp->units));
}

}  // namespace tpplan
