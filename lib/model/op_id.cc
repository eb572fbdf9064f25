#include "model/op_id.h"

#include <unordered_map>

#include "base/text.h"

namespace tpplan {
namespace {

std::unordered_map<std::string_view, OpId> index_names() {
  std::unordered_map<std::string_view, OpId> index;
  for (size_t op = 1; op < kOpCount; ++op) {
    for (const std::string_view name : split(kOpNames[op], ' ')) index.emplace(name, static_cast<OpId>(op));
  }
  return index;
}

}  // namespace

OpId find_op(std::string_view name) {
  static const auto index = index_names();
  const auto found = index.find(name);
  return found == index.end() ? OpId::Unknown : found->second;
}

}  // namespace tpplan
