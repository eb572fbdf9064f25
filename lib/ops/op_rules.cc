#include "ops/op_rules.h"

#include <algorithm>
#include <unordered_map>

#include "ops/factor_rules.h"
#include "ops/notation.h"
#include "ops/op_names.h"

namespace tpplan {
namespace {

struct RuleRow {
  std::string_view names;  // between blanks
  OpRule rule;
};

constexpr RuleRow kRules[] = {
    {" view reshape flatten unflatten view_as reshape_as ", rule_view},
    {" expand expand_as broadcast_to ", rule_expand},
    {" permute transpose T t mT mH adjoint swapaxes swapdims movedim moveaxis unsqueeze squeeze ", rule_permute},
    {" __getitem__ ", rule_getitem},
    {" __setitem__ ", rule_setitem},
    {" split split_with_sizes chunk unbind tensor_split narrow select ", rule_pieces},
    {" cat concat concatenate stack ", rule_cat},
    {" repeat tile repeat_interleave ", rule_repeat},
    {" zeros ones empty full new_zeros new_ones new_empty new_full zeros_like ones_like empty_like full_like rand_like "
     "randn_like fill zero arange linspace eye rand randn tensor scalar_tensor ",
     rule_fill},
    {" gather scatter scatter_add scatter_reduce index_add index_select take_along_dim index_copy ", rule_index_along},
    {" masked_scatter ", rule_masked_scatter},
    {" pad ", rule_pad},
    {" pixel_shuffle pixel_unshuffle channel_shuffle ", rule_rearrange},
    {" im2col col2im ", rule_windows},
    {" meshgrid ", rule_meshgrid},
    {" cosine_similarity pairwise_distance ", rule_similarity},
    {" _weight_norm ", rule_weight_norm},
    {" conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d ", rule_convolution},
    {" layer_norm rms_norm ", rule_norm},
    {" cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy "
     "binary_cross_entropy_with_logits ",
     rule_loss},
    {" lstm gru rnn_tanh rnn_relu ", rule_recurrent},
    {" group_norm batch_norm instance_norm ", rule_channel_norm},
    {" scaled_dot_product_attention ", rule_attention},
    {" multi_head_attention_forward ", rule_multihead},
    {" matmul ", rule_matmul},
    {" einsum ", rule_einsum},
};

std::unordered_map<std::string_view, OpRule> index_rules() {
  std::unordered_map<std::string_view, OpRule> index;
  std::vector<std::string_view> names;
  for (const RuleRow& row : kRules) {
    names.clear();
    add_words(row.names, names);
    for (const std::string_view name : names) index.emplace(name, row.rule);
  }
  return index;
}

}  // namespace

OpRule find_rule(std::string_view name) {
  static const auto index = index_rules();
  if (const auto found = index.find(name); found != index.end()) return found->second;
  Linearity linearity;
  if (is_dim_op(name)) return rule_dim;
  if (find_pointwise(name, linearity)) return rule_pointwise;
  if (!find_notation(name, 0).empty()) return rule_factors;
  return nullptr;
}

void add_words(std::string_view row, std::vector<std::string_view>& names) {
  for (size_t at = row.find_first_not_of(' '); at != std::string_view::npos;) {
    const size_t end = std::min(row.find(' ', at), row.size());
    names.push_back(row.substr(at, end - at));
    at = row.find_first_not_of(' ', end);
  }
}

std::vector<std::string_view> ruled_ops() {
  std::vector<std::string_view> names;
  for (const RuleRow& row : kRules) add_words(row.names, names);
  add_dim_names(names);
  add_pointwise_names(names);
  add_notation_names(names);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void begin_call(OpCall& call) {
  call.name = plain_op(call.graph.strings[call.node.name]);
  call.args.clear();
  for (uint32_t i = call.node.args_begin; i < call.node.args_end; i = call.graph.args[i].end) call.args.push_back(i);
}

OpResult run_rule(OpCall& call) {
  OpResult result;
  begin_call(call);
  result.is_write = call.name.size() < call.graph.strings[call.node.name].size();
  const size_t outs = call.node.out_end - call.node.out_begin;
  const auto own = std::find_if(call.graph.rules.begin(), call.graph.rules.end(),
                                [&](const auto& rule) { return rule.first == call.name; });
  if (own != call.graph.rules.end())
    apply_factors(call, result, own->second, tensors_of(call));
  else if (const OpRule rule = find_rule(call.name))
    rule(call, result);
  else
    result.unknown = true;
  // Results beyond what the rule made of them, or with other dims than recorded, are not known.
  if (result.outs.size() > outs) result.outs.resize(outs);
  for (size_t i = 0; i < outs; ++i) {
    if (i < result.outs.size() && result.outs[i].dims.size() == out_shape(call, i).size()) continue;
    const bool said = !result.crash.empty() || !result.wrong.empty();
    result.unknown = result.unknown || !said;
    Spread whole = whole_layout(call.table, out_shape(call, i));
    if (i < result.outs.size())
      result.outs[i] = std::move(whole);
    else
      result.outs.push_back(std::move(whole));
  }
  return result;
}

}  // namespace tpplan
