#include "plan/explain_style.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "plan/style_of_class.h"
#include "plan/style_table.h"

namespace tpplan {
namespace {

// What no column of the style table says.
struct StyleWords {
  std::string_view name;
  std::string_view use;     // where it stands in a model
  std::string_view beside;  // what comes before or behind it
};
constexpr StyleWords kWords[] = {
    {"all_reduce", "a module whose result is a sum that its parts leave open", "layers before it that leave open sums"},
    {"colwise", "the first layer of a pair: q_proj, k_proj, v_proj, gate_proj, up_proj, fc1",
     "what follows works on the piece (heads, an activation), then rowwise closes the pair"},
    {"colwise_gather_output", "a layer whose whole result is wanted: lm_head", "nothing: what leaves it is whole"},
    {"colwise_rep", "the older name of colwise_gather_output", "nothing: what leaves it is whole"},
    {"embedding_colwise", "an embedding, cut over the hidden dim", "nothing: what leaves it is whole"},
    {"embedding_rowwise", "an embedding, cut over the vocabulary", "nothing: what leaves it is whole"},
    {"ep_dispatch_experts", "experts of which each rank has some", "grouped_gemm on their weights"},
    {"grouped_gemm", "weights of experts, [experts, in, out]: a rank has some of the experts",
     "ep_dispatch_experts on their module"},
    {"local_params", "a module whose parameters are used as local tensors", "the styles of what is below it"},
    {"mla_kv_a_proj", "kv_a_proj_with_mqa of multi-head latent attention: it stays whole",
     "kv_b_proj colwise, which sees its result"},
    {"moe_identity_expert", "an expert that returns what it gets", "moe_tp_experts on its neighbours"},
    {"moe_tp_experts", "the module of experts: takes whole tokens, and sums what the ranks' pieces give",
     "packed_colwise and rowwise on the experts' weights"},
    {"packed_colwise", "two layers in one parameter, gate and up: each half is cut by itself", "rowwise behind it"},
    {"packed_rowwise", "two layers in one parameter, cut over their inputs", "a layer before it that leaves the piece"},
    {"prepare_module_input", "a module whose inputs must come in another layout: attention behind sequence_parallel",
     "colwise layers inside it"},
    {"prepare_module_input_output", "a module whose inputs and outputs change their layout", "layers inside it"},
    {"prepare_module_output", "a module whose output must leave in another layout", "what takes the output"},
    {"replicate", "what stays whole on purpose: a router, a small projection", "anything: it changes nothing"},
    {"replicated_with_grad_allreduce", "a norm of some of the heads (q_norm, k_norm): whole, its gradient is summed",
     "colwise before it"},
    {"rowwise", "the second layer of a pair: o_proj, down_proj, fc2; an embedding, cut over the vocabulary",
     "colwise before it, which leaves the piece; what leaves it is whole"},
    {"rowwise_rep", "the older name of rowwise_split_input", "nothing: it cuts what comes in itself"},
    {"rowwise_split_input", "a rowwise layer whose input comes whole", "nothing: it cuts what comes in itself"},
    {"sequence_parallel", "a norm or dropout between layers that leave a piece of the sequence",
     "rowwise before it with `output_layouts: Shard(1)`; prepare_module_input behind it"},
};

const StyleRow* row_of(std::string_view name) {
  for (const StyleSet set : {kOwnStyles, kTorchStyles, kTransformersStyles}) {
    if (const StyleRow* row = find_style(name, set)) return row;
  }
  return nullptr;
}

std::string cut_text(const StyleRow& row) {
  if (row.cut_dim.empty()) return row.touches_parameters ? "nothing: parameters stay whole" : "nothing";
  const bool linear = row.modules == StyleModules::LinearOrEmbedding;
  std::string text = fmt::format("dim `{}` of each parameter", row.cut_dim);
  if (row.packed_segments > 1) text += fmt::format(", in {} segments", row.packed_segments);
  if (row.cut_dim == "out" && linear) text += ": rows of a Linear's weight, [out, in], and its bias";
  if (row.cut_dim == "in" && linear) text += ": columns of a Linear's weight, [out, in]; its bias stays whole";
  return text;
}

std::string boundary_text(const BoundaryRow& row, bool prepared) {
  if (prepared) return "as `input_layouts` and `desired_input_layouts` say";
  if (!row.used) return "left alone";
  const std::string from = to_text(row.from), to = to_text(row.to);
  std::string text = from == to ? from : fmt::format("{} -> {}", from, to);
  if (row.from.kind == PlacementKind::Partial) text += ", an all_reduce";
  if (row.from.kind == PlacementKind::Shard && row.to.kind == PlacementKind::Replicate) text += ", an all_gather";
  if (row.from.kind == PlacementKind::Replicate && row.to.kind == PlacementKind::Shard)
    text += ", each rank takes its slice";
  if (row.gradient_is_partial) text += "; backward, an all_reduce of its gradient";
  return text;
}

// Who has the style, each under its own name for it.
std::string holders_text(std::string_view name) {
  std::vector<std::string> holders;
  if (find_style(name, kTorchStyles) != nullptr) holders.push_back(fmt::format("torch `{}`", class_of_style(name)));
  if (find_style(name, kTransformersStyles) != nullptr) holders.push_back(fmt::format("transformers `{}`", name));
  return join(holders, ", ");
}

std::string options_text(const StyleRow& row) {
  std::vector<std::string> names = {"axis", "optional"};
  for (uint16_t bit = 1; bit <= kLastOption; bit = static_cast<uint16_t>(bit << 1)) {
    if ((known_options(row) & bit) != 0) names.emplace_back(option_name(static_cast<StyleOption>(bit)));
  }
  return join(names, ", ");
}

// The words behind `head`, on lines of at most 80 columns, one below the other.
std::string wrapped(const std::string& head, std::string_view words) {
  constexpr size_t kWidth = 80;
  std::string text = head;
  size_t column = head.size();
  for (const std::string_view word : split(words, ' ')) {
    if (column + 1 + word.size() > kWidth) {
      text += "\n" + std::string(head.size(), ' ');
      column = head.size();
    }
    text += ' ';
    text += word;
    column += 1 + word.size();
  }
  return text + '\n';
}

}  // namespace

std::optional<std::string> explain_style(std::string_view name) {
  const std::string_view of_class = row_of(name) == nullptr ? style_of_class(name) : name;
  const StyleRow* row = row_of(of_class);
  if (row == nullptr) return std::nullopt;
  const auto* words =
      std::find_if(std::begin(kWords), std::end(kWords), [row](const StyleWords& w) { return w.name == row->name; });
  std::string text = fmt::format("{}\n", row->name);
  const auto line = [&text](std::string_view what, std::string_view value) {
    if (!value.empty()) text += wrapped(fmt::format("  {:<9}", what), value);
  };
  const bool prepares_input = (row->options & kDesiredInputLayouts) != 0;
  const bool prepares_output = (row->options & kDesiredOutputLayouts) != 0;
  if (words != std::end(kWords)) line("for", words->use);
  line("cuts", cut_text(*row));
  line("input", boundary_text(row->input, prepares_input));
  line("output",
       prepares_output ? "as `output_layouts` and `desired_output_layouts` say" : boundary_text(row->output, false));
  if (row->sums_parameter_gradients) line("gradients", "of its parameters are summed over the axis");
  if (words != std::end(kWords)) line("beside", words->beside);
  line("options", options_text(*row));
  line("elsewhere", holders_text(row->name));
  return text;
}

std::string_view nearest_style(std::string_view name) {
  std::vector<std::string_view> names;
  for (const StyleRow& row : style_table()) names.push_back(row.name);
  return nearest_name(name, names);
}

}  // namespace tpplan
