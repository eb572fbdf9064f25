// Operations whose dims are factors: products of tensors, summed over what the result lacks. One notation, one table.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "ops/op_rules.h"

namespace tpplan {
namespace {

struct NotationRow {
  std::string_view name;
  std::string_view text;
};

// The first row of a name whose operands have as many dims as those at hand.
constexpr NotationRow kRows[] = {
    {"linear", "b.. k, o k | o -> b.. o"},
    {"bmm", "b m k, b k n -> b m n"},
    {"mm", "m k, k n -> m n"},
    {"mv", "m k, k -> m"},
    {"addmm", "n | m k, k n -> m n"},
    {"addmm", "m n | m k, k n -> m n"},
    {"baddbmm", "b m n | b m k, b k n -> b m n"},
    {"outer", "m, n -> m n"},
    {"embedding", "i.., v h -> i.. h; whole v; index 0"},
    {"_grouped_mm", "t k, e k n, e -> t n; whole t e; index 2"},
    {"grouped_mm", "t k, e k n, e -> t n; whole t e; index 2"},
    {"layer_norm", "b.. n.., n.. | n.. -> b.. n..; whole n; norm 1"},
    {"rms_norm", "b.. n.., n.. -> b.. n..; whole n; norm 1"},
    {"conv1d", "b i s, o i w | o -> b o s+; whole s w"},
    {"conv1d_depthwise", "b c s, c 1 w | c -> b c s+; whole s w"},
    {"scaled_dot_product_attention", "b.. q d, b.. k d, b.. k e -> b.. q e; whole q k d e"},
    {"gather", "d.., d.. -> d..; gather 2"},
    {"linalg_solve_triangular", "b.. n m, b.. n k -> b.. m k; whole n m; divides 0"},
    {"pad", "d.. -> d..; pad"},
    {"tril", "b.. m n -> b.. m n; whole m n"},
    {"triu", "b.. m n -> b.. m n; whole m n"},
    {"view_as_complex", "b.. c -> b..; whole c"},
    {"view_as_real", "b.. -> b.. c+"},
};

std::vector<std::string_view> words(std::string_view text, std::string_view between) {
  std::vector<std::string_view> found;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find_first_not_of(between, at);
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(text.find_first_of(between, begin), text.size());
    found.push_back(text.substr(begin, end - begin));
    at = end;
  }
  return found;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view{}
                                         : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<std::string_view> parts(std::string_view text, char between) {
  std::vector<std::string_view> found;
  for (size_t at = 0;;) {
    const size_t end = text.find(between, at);
    found.push_back(trimmed(text.substr(at, end == std::string_view::npos ? end : end - at)));
    if (end == std::string_view::npos) return found;
    at = end + 1;
  }
}

struct Notation {
  std::vector<std::vector<std::vector<std::string_view>>> addends;  // [addend][operand][dim]
  std::vector<std::string_view> out;
  std::vector<std::string_view> whole;
  int64_t index = -1;    // operand that holds indices
  int64_t norm = -1;     // position of the argument that says how many dims `n..` is
  int64_t divides = -1;  // operand that the others are divided by
};

bool parse(std::string_view text, Notation& notation) {
  const std::vector<std::string_view> clauses = parts(text, ';');
  const size_t arrow = clauses[0].find("->");
  if (arrow == std::string_view::npos || trimmed(clauses[0].substr(0, arrow)).empty()) return false;
  for (const std::string_view addend : parts(clauses[0].substr(0, arrow), '|')) {
    auto& operands = notation.addends.emplace_back();
    for (const std::string_view operand : parts(addend, ',')) operands.push_back(words(operand, " "));
  }
  notation.out = words(clauses[0].substr(arrow + 2), " ");
  for (size_t i = 1; i < clauses.size(); ++i) {
    const std::vector<std::string_view> clause = words(clauses[i], " ");
    static constexpr std::string_view known[] = {"whole", "index", "norm", "divides", "gather", "pad"};
    if (clause.empty() || std::find(std::begin(known), std::end(known), clause[0]) == std::end(known)) return false;
    if (clause[0] == "whole") notation.whole.assign(clause.begin() + 1, clause.end());
    if (clause[0] == "index" && clause.size() > 1) notation.index = clause[1][0] - '0';
    if (clause[0] == "norm" && clause.size() > 1) notation.norm = clause[1][0] - '0';
    if (clause[0] == "divides" && clause.size() > 1) notation.divides = clause[1][0] - '0';
  }
  return true;
}

bool is_many(std::string_view token) { return token.ends_with(".."); }
std::string_view factor_of(std::string_view token) {
  return is_many(token) ? token.substr(0, token.size() - 2) : token;
}

// What met at a factor so far; `many` factors have a list, aligned at the end.
struct Factors {
  std::map<std::string_view, std::vector<MapId>> maps;
  std::map<std::string_view, size_t> uses;
};

// How many dims a many-factor of this operand has; the first one takes what the others leave.
size_t many_dims(const Notation& notation, const std::vector<std::string_view>& tokens, size_t ndim, size_t norm_dims) {
  size_t single = 0, many = 0;
  for (const std::string_view token : tokens) (is_many(token) ? many : single) += 1;
  (void)notation;
  if (many == 2) return ndim - std::min(ndim, single + norm_dims);
  return ndim - std::min(ndim, single);
}

bool fits(const Notation& notation, std::span<const Operand> operands) {
  size_t at = 0;
  for (const auto& addend : notation.addends) {
    for (const auto& tokens : addend) {
      if (at == operands.size()) return true;  // what is left out: a bias
      const bool many = std::any_of(tokens.begin(), tokens.end(), is_many);
      const size_t ndim = operands[at].layout->dims.size();
      if (many ? ndim + 1 < tokens.size() : ndim != tokens.size()) return false;
      ++at;
    }
  }
  return at == operands.size();
}

}  // namespace

bool is_notation(std::string_view text) {
  Notation notation;
  return parse(text, notation);
}

std::string_view find_notation(std::string_view name, size_t index) {
  for (const NotationRow& row : kRows) {
    if (row.name == name && index-- == 0) return row.text;
  }
  return {};
}

void apply_factors(OpCall& call, OpResult& result, std::string_view text, std::vector<Operand> operands) {
  Notation notation;
  if (!parse(text, notation)) {
    result.unknown = true;
    return;
  }
  MapTable& maps = call.table.maps;
  size_t norm_dims = 1;
  if (notation.norm >= 0) norm_dims = numbers_at(call, static_cast<size_t>(notation.norm), "normalized_shape").size();
  Factors factors;
  std::vector<size_t> addend_of;
  size_t at = 0;
  for (size_t addend = 0; addend < notation.addends.size(); ++addend) {
    for (const auto& tokens : notation.addends[addend]) {
      if (at == operands.size()) break;
      const Operand& operand = operands[at++];
      addend_of.push_back(addend);
      size_t dim = 0;
      bool first_many = true;
      for (const std::string_view token : tokens) {
        if (token == "1") {
          ++dim;
          continue;
        }
        const std::string_view factor = factor_of(token);
        size_t count = 1;
        if (is_many(token)) {
          const size_t many = std::count_if(tokens.begin(), tokens.end(), is_many);
          count = many == 2 && !first_many ? norm_dims
                                           : many_dims(notation, tokens, operand.layout->dims.size(), norm_dims);
          first_many = false;
        }
        auto& met = factors.maps[factor];
        const bool is_new = factors.uses[factor]++ == 0;
        const std::span<const MapId> given =
            std::span(operand.layout->dims)
                .subspan(std::min(dim, operand.layout->dims.size()),
                         std::min(count, operand.layout->dims.size() - std::min(dim, operand.layout->dims.size())));
        dim += count;
        if (is_new) {
          met.assign(given.begin(), given.end());
          continue;
        }
        if (given.size() > met.size()) met.insert(met.begin(), given.size() - met.size(), whole_map(maps, 1));
        for (size_t i = 0; i < given.size(); ++i) {
          MapId& slot = met[met.size() - given.size() + i];
          slot =
              join(call, result, slot, given[i], is_many(token) || addend > 0,
                   is_many(token) ? fmt::format("dim {}", met.size() - given.size() + i) : fmt::format("`{}`", factor));
        }
      }
    }
  }
  // Factors that must not be cut, and those that are summed over.
  const auto is_kept = [&](std::string_view factor) {
    return std::any_of(notation.out.begin(), notation.out.end(),
                       [&](std::string_view token) { return factor_of(token) == factor; });
  };
  AxisMask summed = 0;
  for (const auto& [factor, met] : factors.maps) {
    const bool whole = std::find(notation.whole.begin(), notation.whole.end(), factor) != notation.whole.end();
    for (const MapId map : met) {
      const DimMap& held = maps.maps[map];
      if (whole && held.kind != MapKind::Whole) {
        if (call.name == "embedding")
          crash(result, Code::TP5102,
                fmt::format("a table of which ranks hold pieces is looked up as if it were whole: {}",
                            map_text(maps, map)));
        else
          make_wrong(
              result, Code::TP5113,
              fmt::format("{} over `{}`, of which ranks hold pieces: {}", name_of(call), factor, map_text(maps, map)));
      } else if (!whole && !is_kept(factor) && !held.is_complete) {
        if (held.tiles)
          summed |= held.axes;
        else
          make_wrong(result, Code::TP5107,
                     fmt::format("{} sums over `{}`, of which ranks hold what does not add up to the whole: {}",
                                 name_of(call), factor, map_text(maps, map)));
      }
    }
  }
  Spread out;
  const auto target = out_shape(call);
  for (const std::string_view token : notation.out) {
    if (token.ends_with('+')) {
      const std::string_view factor = token.substr(0, token.size() - 1);
      (void)factor;
      out.dims.push_back(whole_map(maps, out.dims.size() < target.size() ? target[out.dims.size()] : 1));
      continue;
    }
    const auto& met = factors.maps[factor_of(token)];
    out.dims.insert(out.dims.end(), met.begin(), met.end());
  }
  // Sums: a product has one open factor at most; what is added must be open where the product is.
  AxisMask open_product = 0, open_added = 0, complete_added = 0;
  bool open_twice = false, zero_product = false, added = false;
  const size_t product = notation.addends.size() == 1                                       ? 0
                         : notation.addends[0].size() > 1 || notation.addends[1].size() < 2 ? 0
                                                                                            : 1;
  for (size_t i = 0; i < addend_of.size(); ++i) {
    const Spread& layout = *operands[i].layout;
    if (static_cast<int64_t>(i) == notation.index) {
      if (layout.partial) make_wrong(result, Code::TP5108, "indices are a sum that is still open");
      continue;
    }
    if (static_cast<int64_t>(i) == notation.divides && layout.partial)
      make_wrong(result, Code::TP5108, fmt::format("{} divides by a sum that is still open", name_of(call)));
    if (addend_of[i] == product) {
      open_twice = open_twice || (open_product & layout.partial) != 0;
      open_product |= layout.partial;
      zero_product = zero_product || layout.zero;
    } else {
      open_added |= layout.partial;
      if (layout.partial == 0 && layout.zero) continue;
      complete_added |= ~layout.partial;
      added = true;
    }
  }
  if (open_twice)
    make_wrong(result, Code::TP5108, fmt::format("{} multiplies two sums that are still open", name_of(call)));
  if (notation.norm >= 0 && open_product != 0)
    make_wrong(result, Code::TP5108, fmt::format("{} of a sum that is still open", name_of(call)));
  if ((summed & open_product) != 0)
    make_wrong(result, Code::TP5108, fmt::format("{} sums over pieces of a sum that is still open", name_of(call)));
  const AxisMask product_open = summed | open_product;
  if ((product_open & complete_added) != 0)
    make_wrong(result, Code::TP5109,
               fmt::format("{} adds a complete bias to a sum that is still open: it is counted {} times", name_of(call),
                           maps.ranks));
  if ((~product_open & open_added) != 0)
    make_wrong(result, Code::TP5109, fmt::format("{} adds a sum that is still open to a complete one", name_of(call)));
  out.partial = product_open | open_added;
  out.zero = zero_product && !added;
  if (summed != 0) {
    for (const MapId map : out.dims) {
      if (maps.maps[map].kind == MapKind::Cut && (maps.maps[map].axes & summed) != 0)
        make_wrong(
            result, Code::TP5107,
            fmt::format(
                "{} sums over one cut dim, and another dim is cut too: each rank has only its block of the diagonal",
                name_of(call)));
    }
  }
  check_layout(call, result, out);
  give(result, std::move(out));
}

void apply_notation(OpCall& call, OpResult& result, std::string_view text) {
  apply_factors(call, result, text, tensors_of(call));
}

namespace {

// pad: dims that are not padded stay; padded ones must be whole.
void pad_dims(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  if (!x) return;
  const auto target = out_shape(call);
  const std::vector<RankNumber> padding = numbers_at(call, 1, "pad");
  Spread out = *x->layout;
  out.is_dtensor = out.wrong = out.local_view = false;
  const size_t ndim = x->layout->dims.size();
  for (size_t i = 0; i + 1 < padding.size() && i / 2 < ndim; i += 2) {
    const size_t dim = ndim - 1 - i / 2;
    if (padding[i].traced == 0 && padding[i + 1].traced == 0) continue;
    if (!is_whole(call.table.maps, x->layout->dims[dim]))
      make_wrong(result, Code::TP5113, fmt::format("padding of dim {}, of which ranks hold pieces", dim));
    out.dims[dim] = whole_map(call.table.maps, target[dim]);
  }
  const GraphArg* value = find_arg(call, 3, "value");
  if (out.partial && value != nullptr && value->number != 0)
    make_wrong(result, Code::TP5109, "a sum that is still open is padded with a number");
  give(result, std::move(out));
}

// gather, scatter, index_add: one dim whole; along the others the index goes with what it is applied to.
void index_along(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  const bool index_first = call.name == "take_along_dim";  // (x, index, dim)
  const GraphArg* dim_arg = find_arg(call, index_first ? 2 : 1, "dim");
  auto index = tensor_at(call, index_first ? 1 : 2, index_first ? "indices" : "index");
  const auto source = tensor_at(call, 3, call.name == "index_add" ? "source" : "src");
  if (!x || !index) return;
  MapTable& maps = call.table.maps;
  const size_t ndim = x->layout->dims.size();
  const size_t dim = from_end(is_number(dim_arg) ? number_of(call, *dim_arg).traced : 0, ndim);
  const bool gathers = call.name == "gather" || call.name == "take_along_dim" || call.name == "index_select";
  const bool by_rows = call.name.starts_with("index_");  // one index for a whole row
  if (index->layout->partial) make_wrong(result, Code::TP5108, "an index is a sum that is still open");
  if (dim < ndim && !is_whole(maps, x->layout->dims[dim]))
    make_wrong(result, Code::TP5113,
               fmt::format("{} along dim {}, of which ranks hold pieces: {}", name_of(call), dim,
                           map_text(maps, x->layout->dims[dim])));
  Spread out = *x->layout;
  out.is_dtensor = out.wrong = out.local_view = false;
  for (size_t d = 0; d < ndim; ++d) {
    if (by_rows) {
      if (d == dim && gathers) out.dims[d] = index->layout->dims.empty() ? whole_map(maps, 1) : index->layout->dims[0];
      if (source && d < source->layout->dims.size()) {
        if (d != dim)
          out.dims[d] =
              join(call, result, x->layout->dims[d], source->layout->dims[d], false, fmt::format("dim {}", d));
        else if (!index->layout->dims.empty())
          join(call, result, index->layout->dims[0], source->layout->dims[d], false,
               fmt::format("dim {} of the source", d));
      }
      continue;
    }
    if (d >= index->layout->dims.size()) continue;
    MapId by = index->layout->dims[d];
    if (source && d < source->layout->dims.size())
      by = join(call, result, by, source->layout->dims[d], false, fmt::format("dim {} of the source", d));
    if (d == dim) {
      if (gathers) out.dims[d] = by;
      if (!gathers && !is_whole(maps, by))
        make_wrong(result, Code::TP5113, fmt::format("{} by an index of which ranks hold pieces", name_of(call)));
    } else if (x->layout->dims[d] != by && x->shape[d] == index->shape[d]) {
      out.dims[d] = join(call, result, x->layout->dims[d], by, false, fmt::format("dim {}", d));
    } else if (gathers) {
      out.dims[d] = by;
    }
  }
  if (source) {
    const AxisMask x_open = x->layout->partial, y_open = source->layout->partial;
    const bool adds = call.name == "index_add" || call.name == "scatter_add";
    const bool fits = x_open == y_open || (x_open == 0 && x->layout->zero) || (y_open == 0 && source->layout->zero);
    if (!fits)
      make_wrong(result, Code::TP5109,
                 y_open != 0
                     ? fmt::format("{} adds an open sum to a complete value", name_of(call))
                     : fmt::format("{} puts a complete value into a sum that is still open: it is counted {} times",
                                   name_of(call), maps.ranks));
    (void)adds;
    out.partial = x_open | y_open;
    out.zero = x->layout->zero && source->layout->zero;
    // The rows that are added in are pieces of what is added up: each rank adds its own.
    if (by_rows && !index->layout->dims.empty()) {
      const DimMap& rows = maps.maps[index->layout->dims[0]];
      if (!rows.is_complete) {
        if (rows.tiles && x->layout->zero)
          out.partial |= rows.axes;
        else
          make_wrong(result, Code::TP5113, fmt::format("{} of rows of which ranks hold pieces", name_of(call)));
      }
    }
  } else if (!gathers) {
    const GraphArg* value = find_arg(call, 3, "value");
    const bool nonzero = value != nullptr && value->number != 0;
    if (x->layout->partial && nonzero)
      make_wrong(result, Code::TP5109, fmt::format("{} of a number into a sum that is still open", name_of(call)));
    out.zero = x->layout->zero && !nonzero;
  }
  check_layout(call, result, out);
  give(result, std::move(out));
}

void conv1d(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0, "input");
  const auto weight = tensor_at(call, 1, "weight");
  if (!x || !weight) return;
  const RankNumber groups = number_at(call, 6, "groups", 1);
  std::vector<Operand> operands{*x, *weight};
  if (const auto bias = tensor_at(call, 2, "bias")) operands.push_back(*bias);
  if (groups.traced > 1 && x->shape.size() == 3) {
    for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
      const int64_t channels = local_size(call.table, *x->layout, 1, rank),
                    outs = local_size(call.table, *weight->layout, 0, rank);
      if (groups.local[rank] == 0 ||
          channels != groups.local[rank] * local_size(call.table, *weight->layout, 1, rank) ||
          outs % std::max<int64_t>(1, groups.local[rank]) != 0)
        crash(result, Code::TP5102,
              fmt::format("conv1d in {} groups, and rank {} has {} channels and {} filters", groups.local[rank], rank,
                          channels, outs));
    }
  }
  const bool depthwise = groups.traced > 1 && weight->shape[1] == 1;
  apply_factors(call, result, find_notation(depthwise ? "conv1d_depthwise" : "conv1d", 0), std::move(operands));
}

// softmax makes it non-linear in the first two; heads may be grouped.
void attention(OpCall& call, OpResult& result) {
  std::vector<Operand> operands;
  for (size_t i = 0; i < 3; ++i) {
    const auto x = tensor_at(call, i, i == 0 ? "query" : i == 1 ? "key" : "value");
    if (!x) return;
    operands.push_back(*x);
  }
  if (operands[0].layout->partial || operands[1].layout->partial)
    make_wrong(result, Code::TP5108, "attention of a sum that is still open");
  if (bool_at(call, 100, "enable_gqa", false) && operands[0].shape.size() == 4 &&
      operands[1].shape[1] != operands[0].shape[1]) {
    // Each key head serves a group of query heads: their pieces must be those of the groups.
    const int64_t group = operands[1].shape[1] == 0 ? 1 : operands[0].shape[1] / operands[1].shape[1];
    MapTable& maps = call.table.maps;
    const DimMap keys = maps.maps[operands[1].layout->dims[1]], queries = maps.maps[operands[0].layout->dims[1]];
    for (size_t rank = 0; rank < maps.ranks; ++rank) {
      if (keys.local[rank] == 0 || queries.local[rank] % keys.local[rank] != 0)
        crash(
            result, Code::TP5102,
            fmt::format("the ranks have {} query heads and {} key heads, and no group of query heads for each key head",
                        rank_sizes_text(queries.local), rank_sizes_text(keys.local)));
      RankRuns runs(maps.ranks);
      for (size_t r = 0; r < maps.ranks; ++r) {
        for (const Interval& run : runs_of(keys, r)) runs[r].push_back({run.begin * group, run.end * group});
      }
      if (keys.kind != MapKind::Any && runs_map(maps, queries.size, std::move(runs)) != operands[0].layout->dims[1])
        make_wrong(result, Code::TP5107, "query heads meet key heads of other groups");
    }
    // Batch goes along; sequences and widths are whole, as without groups.
    for (size_t i = 0; i < operands.size(); ++i) {
      for (size_t dim = 2; dim < 4; ++dim) {
        if (!is_whole(maps, operands[i].layout->dims[dim]))
          make_wrong(result, Code::TP5113,
                     fmt::format("{} over dim {}, of which ranks hold pieces: {}", name_of(call), dim,
                                 map_text(maps, operands[i].layout->dims[dim])));
      }
      for (size_t dim = 0; dim < 2 && i > 0; ++dim) {
        if (dim == 0 || i == 2)
          join(call, result, operands[i - 1].layout->dims[dim], operands[i].layout->dims[dim], dim == 0,
               fmt::format("dim {}", dim));
      }
    }
    Spread out = *operands[0].layout;
    out.is_dtensor = out.wrong = out.local_view = false;
    out.dims.back() = operands[2].layout->dims.back();
    out.partial = operands[2].layout->partial;
    check_layout(call, result, out);
    return give(result, std::move(out));
  }
  apply_factors(call, result, find_notation("scaled_dot_product_attention", 0), std::move(operands));
}

void norm_shape(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0, "input");
  const auto shape = numbers_at(call, 1, "normalized_shape");
  if (!x) return;
  for (size_t i = 0; i < shape.size() && i < x->layout->dims.size(); ++i) {
    for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
      const int64_t held = local_size(call.table, *x->layout, x->layout->dims.size() - 1 - i, rank);
      const int64_t asked = shape[shape.size() - 1 - i].local[rank];
      if (held != asked)
        crash(result, Code::TP5102,
              fmt::format("{} over {} elements, and rank {} holds {}", name_of(call), asked, rank, held));
    }
  }
}

}  // namespace

void rule_factors(OpCall& call, OpResult& result) {
  if (call.name == "pad") return pad_dims(call, result);
  if (call.name == "conv1d") return conv1d(call, result);
  if (call.name == "scaled_dot_product_attention") return attention(call, result);
  if (call.name == "gather" || call.name == "scatter" || call.name == "scatter_add" || call.name == "index_add" ||
      call.name == "index_select" || call.name == "take_along_dim" || call.name == "index_copy")
    return index_along(call, result);
  if (call.name == "layer_norm" || call.name == "rms_norm") {
    norm_shape(call, result);
    std::vector<Operand> operands;
    for (const auto& x : {tensor_at(call, 0, "input"), tensor_at(call, 2, "weight"), tensor_at(call, 3, "bias")}) {
      if (x) operands.push_back(*x);
    }
    const bool weighted = tensor_at(call, 2, "weight").has_value();
    return apply_factors(
        call, result, weighted ? find_notation(call.name, 0) : std::string_view("b.. n.. -> b.. n..; whole n; norm 1"),
        std::move(operands));
  }
  std::vector<Operand> operands = tensors_of(call);
  for (size_t i = 0;; ++i) {
    const std::string_view text = find_notation(call.name, i);
    if (text.empty()) break;
    Notation notation;
    if (parse(text, notation) && fits(notation, operands))
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

// The equation is rewritten into the notation.
void rule_einsum(OpCall& call, OpResult& result) {
  const GraphArg* equation = find_arg(call, 0, "equation");
  if (equation == nullptr || equation->kind != ArgKind::Text) {
    result.unknown = true;
    return;
  }
  const std::string_view text = call.graph.texts[equation->id];
  if (text.find("->") == std::string_view::npos) {
    result.unknown = true;
    return;
  }
  std::string notation;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("...")) {
      notation += " z..";
      i += 2;
    } else if (text.substr(i).starts_with("->")) {
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
