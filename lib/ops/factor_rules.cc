#include "ops/factor_rules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/text.h"
#include "ops/notation.h"
#include "ops/op_row.h"

namespace tpplan {
namespace {

// The combined layout of each factor; one for each dim of a `..` factor.
using Factors = std::map<std::string_view, std::vector<DimLayoutId>>;

// Returns the number of dims of a token. The second of two `..` factors has `norm_dims`.
size_t dims_of(const DimTokens& tokens, size_t at, size_t ndim, size_t norm_dims) {
  if (!tokens[at].is_many) return 1;
  const auto is_many = [](const DimToken& token) { return token.is_many; };
  const auto many = static_cast<size_t>(std::count_if(tokens.begin(), tokens.end(), is_many));
  const bool is_second = std::any_of(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(at), is_many);
  if (many == 2 && is_second) return norm_dims;
  const size_t taken = tokens.size() - many + (many == 2 ? norm_dims : 0);
  return ndim - std::min(ndim, taken);
}

// Combines a factor of one operand with that of the previous ones. Dims of a `..` factor are aligned at the end.
void combine_factor(OpCall& call, OpResult& result, Factors& factors, const DimToken& token,
                    std::span<const DimLayoutId> dims, bool may_broadcast) {
  const auto [entry, is_new] = factors.try_emplace(token.factor, dims.begin(), dims.end());
  if (is_new) return;
  std::vector<DimLayoutId>& combined = entry->second;
  if (dims.size() > combined.size())
    combined.insert(combined.begin(), dims.size() - combined.size(), replicated_dim(call.table.maps, 1));
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t at = combined.size() - dims.size() + i;
    combined[at] = join(call, result, combined[at], dims[i], token.is_many || may_broadcast,
                        token.is_many ? fmt::format("dim {}", at) : fmt::format("`{}`", token.factor));
  }
}

// Combines the factors of all operands. Sets the index of each operand's addend.
Factors combine_operands(OpCall& call, OpResult& result, const Notation& notation, std::span<const Operand> operands,
                         std::vector<size_t>& addend_of) {
  size_t norm_dims = 1;
  if (notation.norm >= 0) norm_dims = numbers_at(call, static_cast<size_t>(notation.norm), "normalized_shape").size();
  Factors factors;
  for (size_t addend = 0; addend < notation.addends.size(); ++addend) {
    for (const DimTokens& tokens : notation.addends[addend]) {
      if (addend_of.size() == operands.size()) break;
      const std::span<const DimLayoutId> dims = operands[addend_of.size()].layout->dims;
      addend_of.push_back(addend);
      size_t dim = 0;
      for (size_t at = 0; at < tokens.size(); ++at) {
        const size_t begin = std::min(dim, dims.size()), count = dims_of(tokens, at, dims.size(), norm_dims);
        if (!tokens[at].is_one)
          combine_factor(call, result, factors, tokens[at], dims.subspan(begin, std::min(count, dims.size() - begin)),
                         addend > 0 || call.node.op == OpId::Einsum);
        dim += count;
      }
    }
  }
  return factors;
}

// Checks the factors that must be replicated and those that are summed over. Returns the axes over which the sum is
// partial.
AxisMask sum_factors(OpCall& call, OpResult& result, const Notation& notation, const Factors& factors) {
  const DimLayoutTable& maps = call.table.maps;
  AxisMask summed = 0;
  for (const auto& [factor, layouts] : factors) {
    const bool must_be_replicated =
        std::find(notation.replicated.begin(), notation.replicated.end(), factor) != notation.replicated.end();
    const bool is_in_output = std::any_of(notation.out.begin(), notation.out.end(),
                                          [name = factor](const DimToken& token) { return token.factor == name; });
    for (const DimLayoutId map : layouts) {
      const DimLayout& held = maps.maps[map];
      if (notation.some && std::find(held.local.begin(), held.local.end(), 0) != held.local.end())
        crash(result, Code::OperandSizesDiffer,
              fmt::format("{} fails on a rank without elements of `{}`: {}", name_of(call), factor,
                          dim_layout_text(maps, map)));
      if (must_be_replicated && held.kind != DimLayoutKind::Replicated) {
        if (call.node.op == OpId::Embedding)
          crash(result, Code::OperandSizesDiffer,
                fmt::format("a sharded embedding weight is looked up with global indices: {}",
                            dim_layout_text(maps, map)));
        else
          mark_wrong(result, Code::ReductionOverShard,
                     fmt::format("{} over sharded `{}` uses only the local shard: {}", name_of(call), factor,
                                 dim_layout_text(maps, map)));
      } else if (!must_be_replicated && !is_in_output && !held.is_complete) {
        if (held.tiles)
          summed |= held.axes;
        else
          mark_wrong(result, Code::ShardsMismatch,
                     fmt::format("{} sums over `{}`, whose shards do not tile the dim: {}", name_of(call), factor,
                                 dim_layout_text(maps, map)));
      }
    }
  }
  return summed;
}

std::vector<DimLayoutId> out_dims(OpCall& call, const Notation& notation, const Factors& factors) {
  const auto target = out_shape(call);
  std::vector<DimLayoutId> dims;
  for (const DimToken& token : notation.out) {
    if (token.is_new) {
      dims.push_back(replicated_dim(call.table.maps, dims.size() < target.size() ? target[dims.size()] : 1));
    } else if (const auto layouts = factors.find(token.factor); layouts != factors.end()) {
      dims.insert(dims.end(), layouts->second.begin(), layouts->second.end());
    }
  }
  return dims;
}

// The axes over which the product and the addends are partial, and over which an addend is complete.
struct Sums {
  AxisMask matmul = 0, added = 0, complete_added = 0;
  bool is_partial_twice = false, is_zero = false, adds = false;
};

Sums sums_of(OpCall& call, OpResult& result, const Notation& notation, std::span<const Operand> operands,
             std::span<const size_t> addend_of) {
  // The product is the addend with several operands: the first one, or the second one for addmm.
  const auto& addends = notation.addends;
  const size_t matmul_addend = addends.size() > 1 && addends[0].size() == 1 && addends[1].size() > 1 ? 1 : 0;
  Sums sums;
  for (size_t i = 0; i < addend_of.size(); ++i) {
    const ValueLayout& layout = *operands[i].layout;
    if (static_cast<int64_t>(i) == notation.index) {
      if (layout.partial)
        mark_wrong(result, Code::PartialUsedAsFull,
                   "the indices are a pending partial sum, but are used as the full sum");
      continue;
    }
    if (static_cast<int64_t>(i) == notation.divides && layout.partial)
      mark_wrong(result, Code::PartialUsedAsFull,
                 fmt::format("{} divides by a pending partial sum as if it were the full sum", name_of(call)));
    if (addend_of[i] == matmul_addend) {
      sums.is_partial_twice = sums.is_partial_twice || (sums.matmul & layout.partial) != 0;
      sums.matmul |= layout.partial;
      sums.is_zero = sums.is_zero || layout.zero;
    } else {
      sums.added |= layout.partial;
      if (layout.partial == 0 && layout.zero) continue;
      sums.complete_added |= ~layout.partial;
      sums.adds = true;
    }
  }
  return sums;
}

// Sets `partial` and `zero` of the result. At most one factor of a product can be partial, and addends must be partial
// over the same axes as the product.
void add_up(OpCall& call, OpResult& result, const Notation& notation, const Sums& sums, AxisMask summed,
            ValueLayout& out) {
  const std::string name = name_of(call);
  if (sums.is_partial_twice)
    mark_wrong(
        result, Code::PartialUsedAsFull,
        fmt::format("{} multiplies two pending partial sums: the local products do not add up to the full product",
                    name));
  if ((notation.norm >= 0 || notation.bends) && sums.matmul != 0)
    mark_wrong(result, Code::PartialUsedAsFull, fmt::format("{} uses a pending partial sum as the full sum", name));
  if ((summed & sums.matmul) != 0)
    mark_wrong(result, Code::PartialUsedAsFull,
               fmt::format("{} sums a pending partial sum over a dim that is sharded over the same axis", name));
  const AxisMask partial = summed | sums.matmul;
  if ((partial & sums.complete_added) != 0)
    mark_wrong(result, Code::ReplicatedValueReduced,
               fmt::format("{} adds a full bias to a pending partial sum: the reduction counts it {} times", name,
                           call.table.maps.ranks));
  if ((~partial & sums.added) != 0)
    mark_wrong(
        result, Code::ReplicatedValueReduced,
        fmt::format("{} adds a pending partial sum to a full value: the reduction counts the full value on every rank",
                    name));
  out.partial = partial | sums.added;
  out.zero = sums.is_zero && !sums.adds;
  for (const DimLayoutId id : out.dims) {
    const DimLayout& map = call.table.maps.maps[id];
    if (map.kind == DimLayoutKind::Sharded && (map.axes & summed) != 0)
      mark_wrong(result, Code::ShardsMismatch,
                 fmt::format("{} sums over one sharded dim, but another dim is sharded over the same axis: each rank "
                             "has only its tile of the diagonal",
                             name));
  }
}

}  // namespace

void apply_factors(OpCall& call, OpResult& result, std::string_view text, std::vector<Operand> operands) {
  Notation notation;
  if (!parse_notation(text, notation)) {
    result.unknown = true;
    return;
  }
  std::vector<size_t> addend_of;  // by operand
  const Factors factors = combine_operands(call, result, notation, operands, addend_of);
  const AxisMask summed = sum_factors(call, result, notation, factors);
  ValueLayout out;
  out.dims = out_dims(call, notation, factors);
  add_up(call, result, notation, sums_of(call, result, notation, operands, addend_of), summed, out);
  check_layout(call, result, out);
  append_result(result, std::move(out));
}

void rule_factors(OpCall& call, OpResult& result) {
  std::vector<Operand> operands = tensors_of(call);
  for (const std::string_view text : split(op_row(call.node.op).notation, '/')) {
    Notation notation;
    if (parse_notation(text, notation) && fits(notation, operands))
      return apply_factors(call, result, text, std::move(operands));
  }
  result.unknown = true;
}

void rule_matmul(OpCall& call, OpResult& result) {
  std::vector<Operand> operands = tensors_of(call);
  if (operands.size() != 2) {
    result.unknown = true;
    return;
  }
  const size_t a = operands[0].layout->dims.size(), b = operands[1].layout->dims.size();
  const std::string_view text = a == 1 && b == 1 ? "k, k -> "
                                : a == 1         ? "k, b.. k n -> b.. n"
                                : b == 1         ? "b.. m k, k -> b.. m"
                                                 : "b.. m k, b.. k n -> b.. m n";
  apply_factors(call, result, text, std::move(operands));
}

namespace {

// Returns the result of an einsum equation without `->`: `...`, then the letters that occur once, in alphabetical order
// (at::native::einsum, torch 2.13).
std::string implied_result(std::string_view operands) {
  std::string letters;
  for (const char c : operands) {
    if (std::isalpha(static_cast<unsigned char>(c)) && std::count(operands.begin(), operands.end(), c) == 1)
      letters += c;
  }
  std::sort(letters.begin(), letters.end());
  return (operands.find("...") == std::string_view::npos ? "" : "...") + letters;
}

}  // namespace

// Converts the equation to a notation.
void rule_einsum(OpCall& call, OpResult& result) {
  const GraphArg* equation = find_arg(call, 0, "equation");
  if (equation == nullptr || equation->kind != ArgKind::Text) {
    result.unknown = true;
    return;
  }
  std::string text(call.graph.texts[equation->id]);
  if (text.find("->") == std::string::npos) text += "->" + implied_result(text);
  std::string notation;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::string_view(text).substr(i).starts_with("...")) {
      notation += " z..";
      i += 2;
    } else if (std::string_view(text).substr(i).starts_with("->")) {
      notation += " -> ";
      ++i;
    } else if (text[i] == ',') {
      notation += ", ";
    } else if (text[i] != ' ') {
      notation += ' ';
      notation += text[i];
    }
  }
  apply_factors(call, result, notation, tensors_of(call));
}

}  // namespace tpplan
