#include "cost/op_effects.h"

#include <unordered_map>

#include "ops/op_names.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

constexpr OpEffects kEffects[] = {
    // ---- views ----
    {" view reshape flatten unflatten view_as reshape_as unsqueeze squeeze ", ResultMemory::Regroups},
    {" transpose permute T t mT mH H adjoint swapaxes swapdims movedim moveaxis ", ResultMemory::Permutes},
    {" expand expand_as broadcast_to broadcast_tensors ", ResultMemory::Expands},
    {" split split_with_sizes chunk tensor_split narrow ", ResultMemory::Cuts},
    {" unbind select ", ResultMemory::Drops},
    {" __getitem__ ", ResultMemory::Indexes, "i1"},
    {" detach data positive real imag view_as_complex view_as_real ", ResultMemory::Alias},
    {" contiguous ", ResultMemory::Contiguous},
    {" to float double half bfloat16 type type_as bool int long short byte cpu cuda ", ResultMemory::Converts},
    {" dropout ", ResultMemory::DropsOut, "b"},
    {" dropout1d dropout2d dropout3d ", ResultMemory::DropsOut},
    {" unfold im2col col2im pixel_shuffle pixel_unshuffle channel_shuffle meshgrid ", ResultMemory::New},
    // ---- products ----
    {" linear matmul bmm mm mv outer ", ResultMemory::New, "p", Contraction::LastOfFirst},
    {" addmm baddbmm ", ResultMemory::New, "1?2 2?1", Contraction::LastOfSecond},
    {" _grouped_mm grouped_mm ", ResultMemory::New, "0?1 1?0 2", Contraction::LastOfFirst},
    {" conv1d conv2d conv3d ", ResultMemory::New, "0?1 1?0", Contraction::Window},
    {" conv_transpose1d conv_transpose2d conv_transpose3d ", ResultMemory::New, "0?1 1?0", Contraction::Scatter},
    {" dot ", ResultMemory::New, "0?1 1?0", Contraction::LastOfFirst},
    {" bilinear ", ResultMemory::New, "0 1 2"},
    {" lstm gru rnn_tanh rnn_relu ", ResultMemory::New, "0 r0 r0 r0"},
    {" einsum ", ResultMemory::New, "p", Contraction::Equation},
    {" scaled_dot_product_attention ", ResultMemory::New, "0!3 1!3 2!3 m3!3 r0!3 l!3 h3", Contraction::Attention},
    {" linalg_solve_triangular ", ResultMemory::New, "0 r0", Contraction::LastOfFirst},
    // ---- elements: nothing is kept ----
    {" add sub neg clone copy conj eq ne lt le gt ge bitwise_and bitwise_or bitwise_not bitwise_xor logical_and "
     "logical_or logical_not logical_xor isnan isinf isfinite isclose floor ceil round trunc sign sgn floor_divide "
     "bitwise_left_shift bitwise_right_shift heaviside ",
     ResultMemory::NewLike},
    // ---- elements: their operands ----
    {" mul ", ResultMemory::NewLike, "0?1 1?0"},
    {" div ", ResultMemory::NewLike, "0?1 1"},
    {" pow ", ResultMemory::NewLike, "0 1 r0?1"},
    {" silu gelu square cos sin log log1p log2 erf softplus leaky_relu elu selu celu hardswish hardsigmoid mish abs "
     "acos "
     "asin atan cosh sinh erfc expm1 erfinv clamp clip clamp_min clamp_max relu6 threshold softsign nan_to_num "
     "hardtanh hardshrink softshrink tanhshrink logit sinc log10 asinh acosh atanh ",
     ResultMemory::NewLike, "0"},
    {" log_sigmoid logsigmoid ", ResultMemory::NewLike, "0 s"},
    {" frac ", ResultMemory::NewLike},
    {" logaddexp fmax fmin prelu maximum minimum atan2 hypot fmod remainder xlogy lerp addcmul addcdiv polar ",
     ResultMemory::NewLike, "0 1 2"},
    {" where ", ResultMemory::NewLike, "0"},
    {" masked_fill ", ResultMemory::NewLike, "1"},
    // ---- elements: their result ----
    {" relu sigmoid tanh exp exp2 sqrt rsqrt reciprocal tan ", ResultMemory::NewLike, "r0"},
    // ---- along dims ----
    {" sum mean cumsum flip roll diff all any argmax argmin argsort count_nonzero one_hot trace ", ResultMemory::New},
    {" softmax log_softmax softmin ", ResultMemory::New, "r0"},
    {" cumprod prod amax amin std norm linalg_vector_norm logsumexp logcumsumexp normalize ", ResultMemory::New,
     "0 r0"},
    {" var glu ", ResultMemory::New, "0"},
    {" max min ", ResultMemory::New, "r1"},
    {" sort topk kthvalue ", ResultMemory::New, "r1"},
    {" histc bincount searchsorted bucketize isin ", ResultMemory::New},
    {" cummax cummin ", ResultMemory::New, "r1"},
    {" linalg_norm ", ResultMemory::New, "0 r0"},
    {" cdist ", ResultMemory::New, "0 1 r0"},
    {" cosine_similarity ", ResultMemory::New, "0 1 s s f4"},
    {" pairwise_distance ", ResultMemory::New, "s r0"},
    {" fft_fft fft_ifft fft_rfft fft_irfft istft ", ResultMemory::New},
    {" stft ", ResultMemory::New, "1"},
    {" layer_norm ", ResultMemory::New, "0 f2"},
    {" rms_norm ", ResultMemory::New, "0 f1"},
    {" batch_norm group_norm instance_norm ", ResultMemory::New, "0 c2"},
    {" cross_entropy ", ResultMemory::New, "s 1"},
    {" nll_loss ", ResultMemory::New, "1"},
    {" mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits ",
     ResultMemory::New, "0 1"},
    // ---- windows ----
    {" max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d ",
     ResultMemory::New, "0 j"},
    {" avg_pool1d avg_pool2d avg_pool3d ", ResultMemory::New, "0"},
    {" adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d ", ResultMemory::New, "a"},
    {" interpolate ", ResultMemory::New},
    {" grid_sample ", ResultMemory::New, "0 1"},
    // ---- by positions ----
    {" _weight_norm ", ResultMemory::New, "0 1"},
    {" embedding ", ResultMemory::New, "0"},
    {" gather index_select take_along_dim ", ResultMemory::New, "1"},
    {" scatter_reduce ", ResultMemory::New, "0 1 2 r0"},
    {" scatter scatter_add index_add index_copy ", ResultMemory::New, "1"},
    {" __setitem__ ", ResultMemory::Alias, "i2"},
    {" masked_scatter ", ResultMemory::New, "1"},
    {" nonzero ", ResultMemory::New},
    // ---- put together, filled ----
    {" cat concat concatenate stack repeat tile repeat_interleave pad tril triu ", ResultMemory::New},
    {" zeros ones empty full new_zeros new_ones new_empty new_full zeros_like ones_like empty_like full_like rand_like "
     "randn_like arange linspace eye rand randn tensor scalar_tensor uniform exponential normal fill zero ",
     ResultMemory::New},
};

std::unordered_map<std::string_view, const OpEffects*> index_effects() {
  std::unordered_map<std::string_view, const OpEffects*> index;
  std::vector<std::string_view> names;
  for (const OpEffects& row : kEffects) {
    names.clear();
    add_words(row.names, names);
    for (const std::string_view name : names) index.emplace(name, &row);
  }
  return index;
}

}  // namespace

bool is_attention_of_products(const OpEffects& effects, const StepTrace& trace, std::span<const uint32_t> ins) {
  constexpr size_t kMask = 3;
  return effects.product == Contraction::Attention && ins.size() > kMask && trace.values[ins[kMask]].requires_grad;
}

bool writes_in_place(std::string_view name) { return name == "__setitem__" || is_in_place(name); }

const OpEffects* find_effects(std::string_view name) {
  static const auto index = index_effects();
  const auto found = index.find(plain_op(name));
  return found == index.end() ? nullptr : found->second;
}

}  // namespace tpplan
