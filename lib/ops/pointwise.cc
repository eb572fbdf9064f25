// Operations on elements: one row, four columns of how they treat an open sum.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "ops/op_rules.h"

namespace tpplan {
namespace {

struct PointwiseRow {
  Linearity linearity;
  std::string_view names;  // between blanks
};

constexpr PointwiseRow kPointwise[] = {
    {Linearity::Linear,
     " neg clone contiguous to float double half bfloat16 type type_as dropout dropout1d dropout2d dropout3d detach "
     "data "
     "positive real imag conj cpu cuda "},
    {Linearity::Add, " add sub where copy "},
    {Linearity::Mul, " mul "},
    {Linearity::Div, " div "},
    {Linearity::Other,
     " pow rsqrt sqrt square exp exp2 expm1 log log1p log2 log_sigmoid logsigmoid sigmoid tanh relu relu6 silu gelu "
     "softplus leaky_relu prelu elu selu "
     "hardswish hardsigmoid mish cos sin tan acos asin atan atan2 cosh sinh erf erfinv erfc abs floor ceil round trunc "
     "sign sgn reciprocal clamp clip clamp_min "
     "clamp_max maximum minimum fmod remainder floor_divide eq ne lt le gt ge bitwise_and bitwise_or bitwise_not "
     "bitwise_xor logical_and logical_or "
     "logical_not logical_xor bool int long short byte isnan isinf isfinite polar nan_to_num threshold softsign hypot "
     "addcmul addcdiv lerp bitwise_left_shift "
     "bitwise_right_shift xlogy frac celu masked_fill heaviside isclose hardtanh hardshrink softshrink tanhshrink "
     "logit sinc "
     "logaddexp log10 fmax fmin asinh acosh atanh "},
};

// By name: a walk asks for each operation, forward and back.
std::unordered_map<std::string_view, Linearity> index_names() {
  std::unordered_map<std::string_view, Linearity> index;
  std::vector<std::string_view> names;
  for (const PointwiseRow& row : kPointwise) {
    names.clear();
    add_words(row.names, names);
    for (const std::string_view name : names) index.emplace(name, row.linearity);
  }
  return index;
}

// True when some number among the arguments is not 0 (of `where` and sums).
bool adds_number(const OpCall& call) {
  for (size_t i = 0; i < call.args.size(); ++i) {
    const GraphArg& arg = call.graph.args[call.args[i]];
    if ((is_number(&arg) && arg.kind == ArgKind::Size) ||
        ((is_number(&arg) || arg.kind == ArgKind::Float) && arg.number != 0))
      return true;
  }
  return false;
}

// A factor that a rank counts on its own piece is another one than in the whole model.
void check_factors(OpCall& call, OpResult& result) {
  for (const uint32_t at : call.args) {
    const GraphArg& arg = call.graph.args[at];
    if (arg.kind != ArgKind::Size) continue;
    const RankNumber factor = number_of(call, arg);
    if (std::any_of(factor.local.begin(), factor.local.end(), [&](int64_t n) { return n != factor.traced; }))
      make_wrong(result, Code::TP5113,
                 fmt::format("{} by a size that each rank asks of its own piece: {}, and {} in the whole model",
                             name_of(call), rank_sizes_text(factor.local), factor.traced));
  }
}

}  // namespace

bool find_pointwise(std::string_view name, Linearity& linearity) {
  static const auto index = index_names();
  const auto found = index.find(name);
  if (found == index.end()) return false;
  linearity = found->second;
  return true;
}

void add_pointwise_names(std::vector<std::string_view>& names) {
  for (const PointwiseRow& row : kPointwise) add_words(row.names, names);
}

void rule_pointwise(OpCall& call, OpResult& result) {
  Linearity linearity = Linearity::Other;
  std::ignore = find_pointwise(call.name, linearity);  // a name of the table: the row of pointwise rules leads here
  std::vector<Operand> operands = tensors_of(call);
  if (operands.empty()) return give(result, whole_layout(call.table, out_shape(call)));
  if (call.name == "prelu" && operands.size() > 1 &&
      std::ranges::any_of(operands[1].shape, [](int64_t n) { return n != 1; })) {
    result.unknown = true;  // a slope for each part of dim 1
    return;
  }
  if (call.name == "type_as" || (linearity == Linearity::Linear && operands.size() > 1)) operands.resize(1);
  Spread out;
  out.dims = broadcast_dims(call, result, operands);
  // A constant that is chosen where a condition holds: the condition itself must be complete.
  std::span<const Operand> summed = operands;
  bool number_added = linearity == Linearity::Add && adds_number(call);
  if (call.name == "where" || call.name == "masked_fill") {
    const size_t condition = call.name == "where" ? 0 : 1;
    if (condition < operands.size() && operands[condition].layout->partial)
      make_wrong(result, Code::TP5108, fmt::format("{} goes by a sum that is still open", call.name));
    if (call.name == "masked_fill") {
      linearity = Linearity::Add;
      const GraphArg* value = find_arg(call, 2, "value");
      number_added = value != nullptr && value->kind != ArgKind::Value && value->number != 0;
      operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(1, operands.size() - 1)));
      summed = operands;
    } else {
      summed = std::span(operands).subspan(std::min<size_t>(1, operands.size()));
    }
  }
  if (call.name == "copy") summed = std::span(operands).subspan(operands.size() > 1 ? 1 : 0);
  if (linearity == Linearity::Mul || linearity == Linearity::Div) check_factors(call, result);
  combine_sums(call, result, summed, linearity, number_added, out);
  if (call.name == "contiguous" || call.name == "to" || call.name == "dropout" || call.name == "type" ||
      call.name == "float")
    out.local_view = operands[0].layout->local_view && call.name != "float";
  if (call.graph.strings[call.node.name].ends_with('_') && !operands.empty()) {
    // In place: the target keeps its size.
    const Spread& target = *operands[0].layout;
    for (size_t dim = 0; dim < out.dims.size() && dim < target.dims.size(); ++dim) {
      if (!same_sizes(call.table.maps, out.dims[out.dims.size() - 1 - dim], target.dims[target.dims.size() - 1 - dim]))
        crash(result, Code::TP5102, fmt::format("{} writes into a tensor of another size", name_of(call)));
    }
  }
  check_layout(call, result, out);
  give(result, std::move(out));
}

}  // namespace tpplan
