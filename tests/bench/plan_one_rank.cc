// Prints the work of one rank of a large job before it moves data, as JSON: seconds, and MiB of memory that the result
// takes.
//   tpplan_plan_one_rank BEFORE AFTER RANK
// BEFORE and AFTER are manifests of one model. `save` lists the rank's files, `load` plans its reads of one file with
// full tensors, `reshard` lists the holders before and after, and the files that the rank reads and writes.
#include <malloc.h>
#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <tuple>

#include "base/read_file.h"
#include "exec/ranks/deadline.h"
#include "exec/shards/box_index.h"
#include "exec/shards/plan_reads.h"
#include "exec/shards/rank_boxes.h"
#include "exec/shards/shard_files.h"
#include "manifest/read_manifest.h"

using namespace tpplan;

namespace {

double in_use() {
  const struct mallinfo2 now = mallinfo2();
  return static_cast<double>(now.uordblks + now.hblkhd) / (1 << 20);
}

struct Cost {
  double seconds = 0, mebibytes = 0;
};

// Returns the cost of a result of `make` while it exists. Measures the second call.
template <typename Make>
Cost cost_of(Make make) {
  std::ignore = make();
  const double before = in_use();
  const Clock::time_point start = Clock::now();
  const auto made = make();
  return {seconds_since(start), in_use() - before};
}

Manifest read(const char* path, SourceFile& file) {
  ReadResult result = read_file(path, kMaxManifestBytes);
  file = std::move(result.file);
  Diagnostics diagnostics;
  Manifest manifest = read_manifest(file, diagnostics);
  if (result.fault != ReadError::None || has_errors(diagnostics)) std::exit(2);
  return manifest;
}

size_t tensors_of(const Manifest& manifest) { return manifest.parameters.size() + manifest.buffers.size(); }

// Returns a source with all full tensors in one file.
WeightSource one_file(const Manifest& manifest) {
  WeightSource source;
  uint64_t offset = 0;
  for (size_t i = 0; i < tensors_of(manifest); ++i) {
    const ParamLayout& layout = layout_of(manifest, tensor_of(manifest, i));
    const std::vector<uint64_t> sizes = byte_sizes(layout.shape, layout.dtype);
    const Box whole{std::vector<uint64_t>(sizes.size()), sizes};
    source.tensors.push_back({.name = path_of(manifest, tensor_of(manifest, i)), .pieces = {{0, offset, whole}}});
    offset += elements_in(whole);
  }
  source.missing.resize(tensors_of(manifest));
  return source;
}

struct ReshardPlan {
  std::vector<RankBoxes> before, after;
  std::vector<std::vector<ShardFile>> read, written;
};

// Plans like exec/shards/reshard.cc: the bands of a rank, the files that they are written into, and the files that have
// them.
ReshardPlan plan_reshard(const Manifest& before, const Manifest& after, uint64_t rank) {
  ReshardPlan plan{list_rank_boxes(before), list_rank_boxes(after), {}, {}};
  const auto world = static_cast<uint64_t>(device_count(after.mesh));
  std::set<int> from, to;
  for (size_t t = 0; t < tensors_of(after); ++t) {
    const RankBoxes& wanted = plan.after[tensor_of(after, t).layout];
    const RankBoxes& stored = plan.before[tensor_of(before, t).layout];
    const uint64_t count = wanted.bands.size(), begin = rank * count / world,
                   end = std::max(begin + 1, (rank + 1) * count / world);
    for (uint64_t b = begin; b < end; ++b) {
      for (const uint32_t member : wanted.bands[b].members) to.insert(wanted.ranks[member]);
      for (const uint32_t near : boxes_near(stored.index, wanted.bands[b].box)) {
        if (!is_empty(intersection(stored.boxes[near], wanted.bands[b].box))) from.insert(stored.ranks[near]);
      }
    }
  }
  for (const int other : to) plan.written.push_back(list_shard_files(describe_shards(after, other), {}));
  for (const int other : from) plan.read.push_back(list_shard_files(describe_shards(before, other), {}));
  return plan;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  SourceFile texts[2];
  const Manifest before = read(argv[1], texts[0]), after = read(argv[2], texts[1]);
  const int ranks[] = {std::atoi(argv[3])};
  const WeightSource whole = one_file(before);
  const Cost save = cost_of([&] { return list_shard_files(describe_shards(before, ranks[0]), {}); });
  const Cost load = cost_of([&] { return plan_reads(before, whole, ranks); });
  const Cost reshard = cost_of([&] { return plan_reshard(before, after, static_cast<uint64_t>(ranks[0])); });
  fmt::print(R"({{"save": [{:.4f}, {:.2f}], "load": [{:.4f}, {:.2f}], "reshard": [{:.4f}, {:.2f}]}})"
             "\n",
             save.seconds, save.mebibytes, load.seconds, load.mebibytes, reshard.seconds, reshard.mebibytes);
}
