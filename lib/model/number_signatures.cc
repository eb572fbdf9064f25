#include "model/number_signatures.h"

#include <string>

#include "base/keyed_hash.h"

namespace tpplan {
namespace {

// Appends the arguments [begin, end) as bytes, without ids of values and sizes. Equal literals have equal bytes.
void append_literals(const OpGraph& graph, uint32_t begin, uint32_t end, std::string& key) {
  for (uint32_t i = begin; i < end; ++i) {
    const GraphArg& arg = graph.args[i];
    key += static_cast<char>('A' + static_cast<int>(arg.kind));
    switch (arg.kind) {
      case ArgKind::Text:
      case ArgKind::TypeName:
      case ArgKind::Other:
        key += graph.texts[arg.id];
        key += '\0';
        break;
      case ArgKind::Tuple:
      case ArgKind::Slice:
        key += std::to_string(arg.end - i);
        break;
      case ArgKind::Int:
      case ArgKind::Bool:
        key.append(reinterpret_cast<const char*>(&arg.integer), sizeof arg.integer);
        break;
      case ArgKind::Number:
      case ArgKind::Float:
      case ArgKind::Host:
        key.append(reinterpret_cast<const char*>(&arg.number), sizeof arg.number);
        break;
      case ArgKind::None:
      case ArgKind::Value:
      case ArgKind::Size:
      case ArgKind::Ellipsis:
        break;
    }
  }
}

}  // namespace

// Numbers ops by a hash of their bytes, in linear time. The walk and prove_shapes cache results by signature and
// operands. So these bytes must contain everything else that a rule reads.
void number_signatures(OpGraph& graph) {
  TextMap<std::string, uint32_t> numbers;
  std::string key;
  for (GraphNode& node : graph.nodes) {
    if (node.kind != NodeKind::Op) continue;
    key.assign(graph.strings[node.name]);
    key += '\0';
    append_literals(graph, node.args_begin, node.args_end, key);
    for (uint32_t k = node.keywords_begin; k < node.keywords_end; ++k) {
      key += '\1';
      key += graph.strings[graph.keywords[k].name];
      key += '\0';
      append_literals(graph, graph.keywords[k].arg, graph.args[graph.keywords[k].arg].end, key);
    }
    // Includes the results, because rules compare their outputs with the traced shapes.
    for (uint32_t out = node.out_begin; out < node.out_end; ++out) {
      const GraphValue& value = graph.values[graph.outs[out]];
      key += '\2';
      key.append(reinterpret_cast<const char*>(&value.shape), sizeof value.shape);
      key += value.requires_grad ? 'g' : '-';
    }
    node.signature = numbers.try_emplace(key, static_cast<uint32_t>(numbers.size())).first->second;
  }
  graph.signatures = static_cast<uint32_t>(numbers.size());
}

}  // namespace tpplan
