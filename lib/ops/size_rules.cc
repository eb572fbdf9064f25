#include "ops/size_rules.h"

#include <algorithm>

namespace tpplan {
namespace {

int64_t local_number(const OpCall& call, size_t position, std::string_view keyword, int64_t absent) {
  return number_at(call, position, keyword, absent).local[0];
}

}  // namespace

void pad_sizes(const OpCall& call, const Sizes& x, Sizes& out) {
  const auto padding = numbers_at(call, 1, "pad");
  for (size_t i = 0; i + 1 < padding.size() && i / 2 < x.size(); i += 2)
    out[x.size() - 1 - i / 2] = x[x.size() - 1 - i / 2] + padding[i].local[0] + padding[i + 1].local[0];
}

void topk_sizes(const OpCall& call, const Sizes&, Sizes& out) {
  const size_t dim = dim_index(number_at(call, 2, "dim", -1).traced, out.size());
  if (dim < out.size()) out[dim] = local_number(call, 1, "k", out[dim]);
}

void diff_sizes(const OpCall& call, const Sizes& x, Sizes& out) {
  const size_t dim = dim_index(number_at(call, 2, "dim", -1).traced, out.size());
  if (dim >= out.size()) return;
  out[dim] = x[dim] - local_number(call, 1, "n", 1);
  for (const auto& [position, keyword] : {std::pair<size_t, std::string_view>{3, "prepend"}, {4, "append"}}) {
    const auto more = tensor_at(call, position, keyword);
    if (more && dim < more->layout->dims.size()) out[dim] += local_size(call.table, *more->layout, dim, 0);
  }
}

void unfold_sizes(const OpCall& call, const Sizes& x, Sizes& out) {
  const size_t dim = dim_index(number_at(call, 1, "dimension", 0).traced, x.size());
  const int64_t size = local_number(call, 2, "size", 1), step = local_number(call, 3, "step", 1);
  if (dim < x.size() && step > 0) out[dim] = (x[dim] - size) / step + 1;
  out.back() = size;
}

void glu_sizes(const OpCall& call, const Sizes& x, Sizes& out) {
  const size_t dim = dim_index(number_at(call, 1, "dim", -1).traced, x.size());
  if (dim < x.size()) out[dim] = x[dim] / 2;
}

void arange_sizes(const OpCall& call, const Sizes&, Sizes& out) {
  std::vector<int64_t> numbers;
  for (const uint32_t arg : call.args) {
    if (is_number(&call.graph.args[arg])) numbers.push_back(number_of(call, call.graph.args[arg]).local[0]);
  }
  if (numbers.empty() || numbers.size() != call.args.size()) return;
  const int64_t begin = numbers.size() > 1 ? numbers[0] : 0, end = numbers.size() > 1 ? numbers[1] : numbers[0];
  const int64_t step = numbers.size() > 2 ? numbers[2] : local_number(call, 2, "step", 1);
  if (step > 0) out[0] = std::max<int64_t>(0, (end - begin + step - 1) / step);
}

void histc_sizes(const OpCall& call, const Sizes&, Sizes& out) {
  if (!out.empty()) out[0] = local_number(call, 1, "bins", out[0]);
}

// By default fft_fft and fft_ifft keep the size n of the dim, fft_rfft returns n / 2 + 1, and fft_irfft 2 * (n - 1).
void fft_sizes(const OpCall& call, const Sizes& x, Sizes& out) {
  const size_t dim = dim_index(number_at(call, 2, "dim", -1).traced, x.size());
  if (dim >= x.size() || dim >= out.size()) return;
  out[dim] = local_number(call, 1, "n", call.node.op == OpId::FftIrfft ? 2 * (x[dim] - 1) : x[dim]);
  if (call.node.op == OpId::FftRfft) out[dim] = out[dim] / 2 + 1;
}

// (input, n_fft, hop_length, win_length, window, center): the last dim counts windows. If they are centered, the first
// begins before the first element.
void stft_sizes(const OpCall& call, const Sizes& x, Sizes& out) {
  const int64_t length = local_number(call, 1, "n_fft", 1), step = local_number(call, 2, "hop_length", length / 4);
  const int64_t last_start = x.back() + (bool_at(call, 5, "center", true) ? 2 * (length / 2) : 0) - length;
  if (step > 0 && !out.empty()) out.back() = last_start / step + 1;
}

void use_traced_sizes(const OpCall&, const Sizes&, Sizes&) {}

}  // namespace tpplan
