#include "ops/factor_rules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "ops/notation.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

// What met at each factor: one map, or one for each dim of a `..` factor.
using Factors = std::map<std::string_view, std::vector<MapId>>;

// How many dims of an operand a token stands for. Of two `..` factors the second has `norm_dims`.
size_t dims_of(const DimTokens& tokens, size_t at, size_t ndim, size_t norm_dims) {
  if (!tokens[at].is_many) return 1;
  const auto is_many = [](const DimToken& token) { return token.is_many; };
  const auto many = static_cast<size_t>(std::count_if(tokens.begin(), tokens.end(), is_many));
  const bool is_second = std::any_of(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(at), is_many);
  if (many == 2 && is_second) return norm_dims;
  const size_t taken = tokens.size() - many + (many == 2 ? norm_dims : 0);
  return ndim - std::min(ndim, taken);
}

// A factor of one operand meets what it was in those before. Dims of a `..` factor are aligned at the end.
void meet(OpCall& call, OpResult& result, Factors& factors, const DimToken& token, std::span<const MapId> dims,
          bool may_broadcast) {
  const auto [entry, is_new] = factors.try_emplace(token.factor, dims.begin(), dims.end());
  if (is_new) return;
  std::vector<MapId>& met = entry->second;
  if (dims.size() > met.size()) met.insert(met.begin(), dims.size() - met.size(), whole_map(call.table.maps, 1));
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t at = met.size() - dims.size() + i;
    met[at] = join(call, result, met[at], dims[i], token.is_many || may_broadcast,
                   token.is_many ? fmt::format("dim {}", at) : fmt::format("`{}`", token.factor));
  }
}

// Also says of each operand which addend it is of.
Factors meet_all(OpCall& call, OpResult& result, const Notation& notation, std::span<const Operand> operands,
                 std::vector<size_t>& addend_of) {
  size_t norm_dims = 1;
  if (notation.norm >= 0) norm_dims = numbers_at(call, static_cast<size_t>(notation.norm), "normalized_shape").size();
  Factors factors;
  for (size_t addend = 0; addend < notation.addends.size(); ++addend) {
    for (const DimTokens& tokens : notation.addends[addend]) {
      if (addend_of.size() == operands.size()) break;
      const std::span<const MapId> dims = operands[addend_of.size()].layout->dims;
      addend_of.push_back(addend);
      size_t dim = 0;
      for (size_t at = 0; at < tokens.size(); ++at) {
        const size_t begin = std::min(dim, dims.size()), count = dims_of(tokens, at, dims.size(), norm_dims);
        if (!tokens[at].is_one)
          meet(call, result, factors, tokens[at], dims.subspan(begin, std::min(count, dims.size() - begin)),
               addend > 0 || call.name == "einsum");
        dim += count;
      }
    }
  }
  return factors;
}

// Factors that must not be cut, and those that are summed over. The axes along which the sum stays open.
AxisMask sum_factors(OpCall& call, OpResult& result, const Notation& notation, const Factors& factors) {
  const MapTable& maps = call.table.maps;
  AxisMask summed = 0;
  for (const auto& [factor, met] : factors) {
    const bool whole = std::find(notation.whole.begin(), notation.whole.end(), factor) != notation.whole.end();
    const bool kept = std::any_of(notation.out.begin(), notation.out.end(),
                                  [name = factor](const DimToken& token) { return token.factor == name; });
    for (const MapId map : met) {
      const DimMap& held = maps.maps[map];
      if (notation.some && std::find(held.local.begin(), held.local.end(), 0) != held.local.end())
        crash(result, Code::TP5102,
              fmt::format("{}, and a rank has nothing of `{}`: {}", name_of(call), factor, map_text(maps, map)));
      if (whole && held.kind != MapKind::Whole) {
        if (call.name == "embedding")
          crash(result, Code::TP5102,
                fmt::format("a table of which ranks hold pieces is looked up as if it were whole: {}",
                            map_text(maps, map)));
        else
          make_wrong(
              result, Code::TP5113,
              fmt::format("{} over `{}`, of which ranks hold pieces: {}", name_of(call), factor, map_text(maps, map)));
      } else if (!whole && !kept && !held.is_complete) {
        if (held.tiles)
          summed |= held.axes;
        else
          make_wrong(result, Code::TP5107,
                     fmt::format("{} sums over `{}`, of which ranks hold what does not add up to the whole: {}",
                                 name_of(call), factor, map_text(maps, map)));
      }
    }
  }
  return summed;
}

std::vector<MapId> out_dims(OpCall& call, const Notation& notation, const Factors& factors) {
  const auto target = out_shape(call);
  std::vector<MapId> dims;
  for (const DimToken& token : notation.out) {
    if (token.is_new) {
      dims.push_back(whole_map(call.table.maps, dims.size() < target.size() ? target[dims.size()] : 1));
    } else if (const auto met = factors.find(token.factor); met != factors.end()) {
      dims.insert(dims.end(), met->second.begin(), met->second.end());
    }
  }
  return dims;
}

// What is open of the product, of what is added to it, and what of that is complete.
struct Sums {
  AxisMask product = 0, added = 0, complete_added = 0;
  bool product_twice = false, product_is_zero = false, adds = false;
};

Sums sums_of(OpCall& call, OpResult& result, const Notation& notation, std::span<const Operand> operands,
             std::span<const size_t> addend_of) {
  // The addend that multiplies is the product; it stands first, or behind what is added (addmm).
  const auto& addends = notation.addends;
  const size_t product = addends.size() > 1 && addends[0].size() == 1 && addends[1].size() > 1 ? 1 : 0;
  Sums sums;
  for (size_t i = 0; i < addend_of.size(); ++i) {
    const Spread& layout = *operands[i].layout;
    if (static_cast<int64_t>(i) == notation.index) {
      if (layout.partial) make_wrong(result, Code::TP5108, "indices are a sum that is still open");
      continue;
    }
    if (static_cast<int64_t>(i) == notation.divides && layout.partial)
      make_wrong(result, Code::TP5108, fmt::format("{} divides by a sum that is still open", name_of(call)));
    if (addend_of[i] == product) {
      sums.product_twice = sums.product_twice || (sums.product & layout.partial) != 0;
      sums.product |= layout.partial;
      sums.product_is_zero = sums.product_is_zero || layout.zero;
    } else {
      sums.added |= layout.partial;
      if (layout.partial == 0 && layout.zero) continue;
      sums.complete_added |= ~layout.partial;
      sums.adds = true;
    }
  }
  return sums;
}

// Sets what of the result is open: a product has one open factor at most, and what is added must be open where the
// product is.
void add_up(OpCall& call, OpResult& result, const Notation& notation, const Sums& sums, AxisMask summed, Spread& out) {
  const std::string name = name_of(call);
  if (sums.product_twice)
    make_wrong(result, Code::TP5108, fmt::format("{} multiplies two sums that are still open", name));
  if ((notation.norm >= 0 || notation.bends) && sums.product != 0)
    make_wrong(result, Code::TP5108, fmt::format("{} of a sum that is still open", name));
  if ((summed & sums.product) != 0)
    make_wrong(result, Code::TP5108, fmt::format("{} sums over pieces of a sum that is still open", name));
  const AxisMask open = summed | sums.product;
  if ((open & sums.complete_added) != 0)
    make_wrong(result, Code::TP5109,
               fmt::format("{} adds a complete bias to a sum that is still open: it is counted {} times", name,
                           call.table.maps.ranks));
  if ((~open & sums.added) != 0)
    make_wrong(result, Code::TP5109, fmt::format("{} adds a sum that is still open to a complete one", name));
  out.partial = open | sums.added;
  out.zero = sums.product_is_zero && !sums.adds;
  for (const MapId id : out.dims) {
    const DimMap& map = call.table.maps.maps[id];
    if (map.kind == MapKind::Cut && (map.axes & summed) != 0)
      make_wrong(
          result, Code::TP5107,
          fmt::format(
              "{} sums over one cut dim, and another dim is cut too: each rank has only its block of the diagonal",
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
  const Factors factors = meet_all(call, result, notation, operands, addend_of);
  const AxisMask summed = sum_factors(call, result, notation, factors);
  Spread out;
  out.dims = out_dims(call, notation, factors);
  add_up(call, result, notation, sums_of(call, result, notation, operands, addend_of), summed, out);
  check_layout(call, result, out);
  give(result, std::move(out));
}

void rule_factors(OpCall& call, OpResult& result) {
  std::vector<Operand> operands = tensors_of(call);
  for (size_t i = 0;; ++i) {
    const std::string_view text = find_notation(call.name, i);
    if (text.empty()) break;
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

// What torch takes for the result where the equation names none: what `...` stands for, and the letters that occur
// once, in their order (at::native::einsum, torch 2.13).
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

// The equation is rewritten into the notation.
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
