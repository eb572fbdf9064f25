#include "diff/diff_calls.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/starred_path.h"

namespace tpplan {
namespace {

// Adds without overflow. @pre `b` is not negative; read_collective rejects negative bytes.
uint64_t saturated_sum(uint64_t a, int64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, static_cast<uint64_t>(b), &sum) ? kTooManyBytes : sum;
}

}  // namespace

// Groups calls by path pattern, without the shape. Calls of a thousand layers are one change, and a resized call is a
// change rather than a removed and an added call.
CallsDiff diff_calls(const Manifest& old_manifest, const Manifest& new_manifest) {
  CallsDiff diff{.known_before = old_manifest.has_collectives, .known_after = new_manifest.has_collectives};
  using Key = std::tuple<bool, bool, CollectiveKind, std::string_view, std::string, std::string_view>;
  std::map<Key, size_t> index;
  std::vector<CallChange> changes;
  std::map<size_t, std::set<std::string_view>> modules;  // by index of the change
  // Reads the new manifest first: changes are in the order of its step, followed by removed calls.
  for (const auto& [manifest, is_new] : {std::pair{&new_manifest, true}, std::pair{&old_manifest, false}}) {
    for (const CollectiveCall& call : manifest->collectives) {
      const std::string& axis = manifest->mesh.axes[call.axis].name;
      const auto [entry, first] = index.try_emplace(
          Key(call.backward, call.hidden, call.kind, axis, starred_path(call.module), call.dtype), changes.size());
      if (first)
        changes.push_back({.backward = call.backward,
                           .hidden = call.hidden,
                           .kind = call.kind,
                           .axis = axis,
                           .module = call.module,
                           .modules = {},
                           .shapes_before = {},
                           .shapes_after = {},
                           .dtype = call.dtype});
      CallChange& change = changes[entry->second];
      if (change.module != call.module) change.module = std::get<4>(entry->first);
      modules[entry->second].insert(call.module);
      ++(is_new ? change.after : change.before);
      ++(is_new ? diff.after : diff.before);
      auto& shapes = is_new ? change.shapes_after : change.shapes_before;
      if (std::find(shapes.begin(), shapes.end(), call.shape) == shapes.end()) shapes.push_back(call.shape);
      uint64_t& bytes = is_new ? change.bytes_after : change.bytes_before;
      uint64_t& all = is_new ? diff.bytes_after : diff.bytes_before;
      bytes = saturated_sum(bytes, call.bytes);
      all = saturated_sum(all, call.bytes);
    }
  }
  if (!diff.known_before || !diff.known_after) return diff;
  for (const auto& [change, paths] : modules) changes[change].modules.assign(paths.begin(), paths.end());
  std::erase_if(changes, [](const CallChange& change) {
    return change.before == change.after && change.shapes_before == change.shapes_after &&
           change.bytes_before == change.bytes_after;
  });
  std::stable_partition(changes.begin(), changes.end(), [](const CallChange& change) { return !change.backward; });
  diff.changes = std::move(changes);
  return diff;
}

}  // namespace tpplan
