#include "exec/shards/init_shards.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "exec/device/host_arithmetic.h"
#include "exec/shards/byte_boxes.h"
#include "exec/shards/encode_value.h"
#include "exec/shards/place_tensors.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

constexpr uint64_t kPatternBytes = uint64_t{1} << 20;

struct DrawTypeRow {
  std::string_view name;
  DrawType type;
};

constexpr DrawTypeRow kDrawTypes[] = {{"float32", DrawType::Float32},
                                      {"float64", DrawType::Float64},
                                      {"bfloat16", DrawType::Bfloat16},
                                      {"float16", DrawType::Float16}};

const DrawTypeRow* draw_type_of(DType dtype) {
  const auto found = std::find_if(std::begin(kDrawTypes), std::end(kDrawTypes),
                                  [&](const DrawTypeRow& row) { return row.name == dtypes()[dtype].name; });
  return found == std::end(kDrawTypes) ? nullptr : &*found;
}

float round_small(DrawType type, float value) {
  if (type == DrawType::Bfloat16) return float_of_bfloat16(bfloat16_of_float(value));
  return type == DrawType::Float16 ? float_of_half(half_of_float(value)) : value;
}

// Sets the arguments of the distribution in the dtype: JAX converts both ends of an interval, then subtracts.
void set_arguments(DrawBox& box, const Distribution& d) {
  box.kind = d.kind == DistributionKind::Normal ? DrawKind::Normal : DrawKind::Uniform;
  const double first = d.arguments[0], second = d.arguments[1];
  if (box.type == DrawType::Float64) {
    box.first = first;
    box.second = box.kind == DrawKind::Normal ? second : second - first;
  } else if (box.kind == DrawKind::Normal) {
    box.first = static_cast<float>(first);
    box.second = static_cast<float>(second);
  } else {
    const float low = round_small(box.type, static_cast<float>(first)),
                high = round_small(box.type, static_cast<float>(second));
    box.first = low;
    box.second = round_small(box.type, high - low);
  }
}

double constant_of(const Distribution& d) {
  return d.kind == DistributionKind::Constant ? d.arguments[0] : d.kind == DistributionKind::Ones ? 1 : 0;
}

// Describes why the distribution cannot fill the dtype; empty if it can.
std::string fault_of(DType dtype, const Distribution& d) {
  const DrawTypeRow* row = draw_type_of(dtype);
  if (!is_random(d))
    return encode_value(dtype, constant_of(d)).empty()
               ? fmt::format("{} {} {}", dtypes()[dtype].name,
                             dtypes()[dtype].bits < 8 ? "can be filled with 0 only, not" : "cannot represent",
                             number_text(constant_of(d)))
               : "";
  if (row == nullptr)
    return fmt::format("{} cannot be drawn at random: use zeros, ones or a constant", dtypes()[dtype].name);
  DrawBox box{.type = row->type};
  set_arguments(box, d);
  return std::isfinite(box.first) && std::isfinite(box.second)
             ? ""
             : fmt::format("values of {} exceed the range of {}", to_text(d), row->name);
}

const Distribution* distribution_of(const Manifest& manifest, const ParamLayout& layout) {
  return layout.init < manifest.distributions.size() ? &manifest.distributions[layout.init] : nullptr;
}

// One dim of a box: `count` indices with a stride of `to` elements in memory and `index` elements in the tensor.
struct Stride {
  uint64_t count, to, index;
};

// Returns the dims from the innermost outwards; adjacent dims that are contiguous on both sides become one.
std::vector<Stride> strides_of(const HeldBox& held, std::span<const uint64_t> sizes, uint64_t width) {
  std::vector<Stride> strides;
  uint64_t to = 1, index = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    const uint64_t unit = d + 1 == sizes.size() ? width : 1;  // the last dim of boxes counts bytes
    const uint64_t count = (held.box.end[d] - held.box.begin[d]) / unit;
    const bool joins = !strides.empty() && to == strides.back().to * strides.back().count &&
                       index == strides.back().index * strides.back().count;
    if (joins)
      strides.back().count *= count;
    else if (count != 1 || strides.empty())
      strides.push_back({count, to, index});
    to *= held.sizes[d] / unit;
    index *= sizes[d] / unit;
  }
  return strides;
}

// Draws the elements of `strides` (innermost first). A DrawBox has at most kMaxDrawDims dims, outermost first; loops
// over the others.
void draw_strides(const Device& device, void* to, DrawBox box, std::span<const Stride> strides, int threads) {
  if (strides.size() > kMaxDrawDims + 1) {
    const Stride& outer = strides.back();
    for (uint64_t i = 0; i < outer.count; ++i) {
      draw_strides(device, to, box, strides.first(strides.size() - 1), threads);
      box.to_offset += outer.to;
      box.index_offset += outer.index;
    }
    return;
  }
  box.run = box.elements = strides[0].count;
  box.dims = static_cast<int>(strides.size()) - 1;
  for (size_t i = 1; i < strides.size(); ++i) {
    const size_t d = strides.size() - 1 - i;  // the box has the outermost first
    box.counts[d] = strides[i].count;
    box.to_strides[d] = strides[i].to;
    box.index_strides[d] = strides[i].index;
    box.elements *= strides[i].count;
  }
  device.draw(to, box, threads);
}

uint64_t draw_shard(const Device& device, const Shard& shard, ThreefryKey key, const Distribution& distribution,
                    int threads) {
  const ParamLayout& layout = *shard.layout;
  const uint64_t width = dtypes()[layout.dtype].bits / 8;
  const std::vector<uint64_t> sizes = byte_sizes(layout.shape, layout.dtype);
  for (const HeldBox& held : held_boxes(layout.shape, layout.dtype, shard.slice)) {
    DrawBox box{.key = key, .type = draw_type_of(layout.dtype)->type};
    set_arguments(box, distribution);
    box.to_offset = offset_of(held, held.box.begin) / width;
    box.index_offset = offset_of(within(held.box, sizes), held.box.begin) / width;
    draw_strides(device, shard.data, box, strides_of(held, sizes, width), threads);
  }
  return shard.bytes / width;
}

void fill_constant(const Device& device, const Shard& shard, double value) {
  const std::string element = encode_value(shard.layout->dtype, value);
  std::string pattern;
  const uint64_t repeats = std::max<uint64_t>(std::min(shard.bytes, kPatternBytes) / element.size(), 1);
  for (uint64_t i = 0; i < repeats; ++i) pattern += element;
  for (uint64_t at = 0; at < shard.bytes; at += pattern.size()) {
    device.from_host(static_cast<char*>(shard.data) + at, pattern.data(),
                     std::min<uint64_t>(pattern.size(), shard.bytes - at));
  }
  device.synchronize();
}

}  // namespace

InitPlan plan_init(const Manifest& manifest) {
  InitPlan plan;
  const size_t parameters = manifest.parameters.size();
  plan.omitted.resize(parameters + manifest.buffers.size());
  for (size_t i = 0; i < plan.omitted.size(); ++i) {
    const ManifestParam& param = tensor_of(manifest, i);
    const ParamLayout& layout = layout_of(manifest, param);
    const Distribution* distribution = distribution_of(manifest, layout);
    if (distribution != nullptr) {
      const std::string fault = fault_of(layout.dtype, *distribution);
      if (!fault.empty())
        plan.faults.push_back({.code = Code::InitOutOfRange,
                               .message = fmt::format("`{}`: {}", escape_for_terminal(path_of(manifest, param)), fault),
                               .help = "change `init` in the plan and compile it again"});
    } else if (i < parameters) {
      plan.unspecified.push_back(path_of(manifest, param));
    } else {
      plan.omitted[i] = true;
      if (!is_never_saved(path_of(manifest, param))) plan.omitted_names.push_back(path_of(manifest, param));
    }
  }
  return plan;
}

// JAX's fold_in takes 32 bits, so the hash is folded in two halves. `/` counts as `.`, so that a tensor has the same
// values in every framework.
ThreefryKey key_of_tensor(uint64_t seed, std::string_view path) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c == '/' ? '.' : c)) * 0x100000001b3u;
  return fold_in(fold_in(key_of_seed(seed), static_cast<uint32_t>(hash >> 32)), static_cast<uint32_t>(hash));
}

uint64_t init_shards(ShardStore& store, uint64_t seed, int threads) {
  const std::vector<uint32_t> first = first_tied_params(*store.manifest);
  uint64_t drawn = 0;
  for (size_t i = 0; i < store.shards.size(); ++i) {
    const Shard& shard = store.shards[i];
    const Distribution* distribution = distribution_of(*store.manifest, *shard.layout);
    const bool tied = i < first.size() && first[i] != i;
    if (tied || shard.bytes == 0 || distribution == nullptr) continue;
    if (is_random(*distribution))
      drawn += draw_shard(*store.device, shard, key_of_tensor(seed, shard.path), *distribution, threads);
    else
      fill_constant(*store.device, shard, constant_of(*distribution));
  }
  store.device->synchronize();
  return drawn;
}

}  // namespace tpplan
