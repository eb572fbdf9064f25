// Boxes, read plans, and files that change during a read.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <tuple>

#include "exec/ranks/launch.h"
#include "exec/shards/byte_boxes.h"
#include "exec/shards/load_shards.h"
#include "exec/shards/open_weights.h"
#include "exec/shards/place_tensors.h"
#include "exec/shards/plan_reads.h"
#include "exec/shards/read_item.h"
#include "exec/shards/verify_shards.h"

using namespace tpplan;
namespace fs = std::filesystem;

namespace {

DType dtype_called(std::string_view name) {
  DType dtype = 0;
  REQUIRE(find_dtype(name, dtype));
  return dtype;
}

// Returns a manifest with one parameter `w` of this shape and spec.
Manifest manifest_of(std::vector<int64_t> shape, std::string_view dtype, Mesh mesh, Sharding sharding) {
  Manifest manifest;
  manifest.mesh = std::move(mesh);
  manifest.uneven = UnevenPolicy::Torch;
  manifest.names = "w";
  ParamLayout layout{.shape = shape, .dtype = dtype_called(dtype), .sharding = std::move(sharding)};
  layout.local_shapes = list_local_shapes(shape, layout.sharding, manifest.mesh);
  manifest.layouts = {layout};
  manifest.parameters = {{0, 1, 0}};
  return manifest;
}

// Weights file with one tensor `w` whose bytes count up; removed by the destructor.
struct WeightsFile {
  fs::path path = fs::temp_directory_path() / ("tpplan-shards-test-" + std::to_string(getpid()) + ".safetensors");
  std::vector<char> bytes;
  WeightsFile(const std::string& dtype, const std::string& shape, uint64_t size) : bytes(size) {
    std::mt19937_64 random(7);
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::string header = "{\"w\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[0," +
                               std::to_string(size) + "]}}";
    std::ofstream out(path, std::ios::binary);
    for (size_t i = 0; i < 8; ++i) out.put(static_cast<char>(header.size() >> (8 * i)));
    out << header;
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  ~WeightsFile() { fs::remove(path); }
};

std::vector<ShardStore> stores_of(const Manifest& manifest) {
  std::vector<ShardStore> stores;
  for (int rank = 0; rank < device_count(manifest.mesh); ++rank)
    stores.push_back(allocate_shards(manifest, rank, cpu_device()));
  return stores;
}

// Returns the result of `work` on all ranks, as threads of this process. The first rank has all shards, as load_shards
// requires.
template <typename Work>
std::string fault_of(std::vector<ShardStore>& stores, Work work) {
  const LaunchOptions options{.world = static_cast<int>(stores.size())};
  const JobResult end = run_ranks(options, [&](Comm& comm) {
    work(comm, comm.rank == 0 ? std::span(stores) : std::span<ShardStore>());
    return 0;
  });
  return end.fault ? to_text(*end.fault) : "";
}

std::string fault_of_loading(const Manifest& manifest, const WeightSource& source, uint64_t staging = 1 << 20) {
  std::vector<ShardStore> stores = stores_of(manifest);
  return fault_of(stores, [&](Comm& comm, std::span<ShardStore> own) {
    std::ignore = load_shards(comm, source, own, {.staging = staging, .threads = 2});
  });
}

// Returns the first difference, or the error that ended the comparison.
std::optional<Fault> verify(const WeightSource& source, std::vector<ShardStore>& stores) {
  std::optional<Fault> difference;
  const std::string fault = fault_of(stores, [&](Comm& comm, std::span<ShardStore> own) {
    const VerifyResult result = verify_shards(comm, source, own, 2, ProgressKind::None);
    if (comm.rank == 0) difference = result.difference;
    CHECK((comm.rank == 0 || result.compared_bytes == 0));
  });
  if (!fault.empty()) difference = Fault{.code = Code::WeightsChanged, .message = fault};
  return difference;
}

}  // namespace

TEST_CASE("a file truncated during a read is named with its tensor") {
  const Manifest manifest = manifest_of({64, 4096}, "float32", {{{"tp", 2}}}, {{{}, {0}}, {}});
  const WeightsFile file("F32", "[64,4096]", 64 * 4096 * 4);
  WeightSource source;
  REQUIRE(open_weights(file.path.string(), manifest, source));
  CHECK(fault_of_loading(manifest, source) == "");
  REQUIRE(truncate(file.path.c_str(), 500000) == 0);
  const std::string fault = fault_of_loading(manifest, source);
  CHECK(fault.find("truncated while it was read: `w`") != std::string::npos);
  CHECK(fault.find("ends at 500000") != std::string::npos);
}

TEST_CASE("a changed file is detected by its time and size") {
  const Manifest manifest = manifest_of({64, 64}, "float32", {{{"tp", 2}}}, {{{0}, {}}, {}});
  const WeightsFile file("F32", "[64,64]", 64 * 64 * 4);
  WeightSource source;
  REQUIRE(open_weights(file.path.string(), manifest, source));
  const timespec times[2] = {{1, 0}, {1, 0}};
  REQUIRE(utimensat(AT_FDCWD, file.path.c_str(), times, 0) == 0);
  CHECK(fault_of_loading(manifest, source).find("changed while it was read") != std::string::npos);
  std::vector<ShardStore> stores = stores_of(manifest);
  const std::optional<Fault> fault = verify(source, stores);
  REQUIRE(fault);
  CHECK(fault->message.find("changed while it was read") != std::string::npos);
}

TEST_CASE("a file replaced between header and data is not read") {
  const Manifest manifest = manifest_of({64, 64}, "float32", {{{"tp", 2}}}, {{{}, {0}}, {}});
  const WeightsFile file("F32", "[64,64]", 64 * 64 * 4);
  WeightSource source;
  REQUIRE(open_files(file.path.string(), source));  // its header is read, its data is not
  const fs::path other = file.path.string() + ".other";
  fs::copy_file(file.path, other);
  std::fstream(other, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(-64 * 64 * 4, std::ios::end)
      .write("another", 7);
  fs::rename(other, file.path);
  REQUIRE(place_tensors(file.path.string(), manifest, source));
  std::vector<ShardStore> stores = stores_of(manifest);
  CHECK(fault_of(stores, [&](Comm& comm, std::span<ShardStore> own) {
          std::ignore = load_shards(comm, source, own, {});
        }) == "");
  CHECK(std::memcmp(stores[0].shards[0].data, file.bytes.data(), 7) == 0);
  CHECK(!verify(source, stores));
  WeightSource now;
  REQUIRE(open_weights(file.path.string(), manifest, now));
  CHECK(verify(now, stores));
}

TEST_CASE("too little staging memory is rejected, little suffices") {
  const Manifest manifest = manifest_of({64, 64}, "float32", {{{"tp", 2}}}, {{{}, {0}}, {}});
  const WeightsFile file("F32", "[64,64]", 64 * 64 * 4);
  WeightSource source;
  REQUIRE(open_weights(file.path.string(), manifest, source));
  CHECK(fault_of_loading(manifest, source, 1000).find("--staging") != std::string::npos);
  CHECK(fault_of_loading(manifest, source, kMinStaging) == "");
}

TEST_CASE("every shard has the bytes of its slice") {
  std::mt19937 random(3);
  const auto number = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> shape;
    const int dims = number(1, 4);
    for (int d = 0; d < dims; ++d) shape.push_back(number(1, d + 1 == dims ? 40 : 9));
    Mesh mesh{{{"a", number(1, 3)}, {"b", number(1, 3)}}};
    Sharding sharding{.spec = PartitionSpec(shape.size()), .segments = {}};
    for (const AxisId axis : {AxisId{0}, AxisId{1}}) {
      if (number(0, 3) != 0) sharding.spec[static_cast<size_t>(number(0, dims - 1))].push_back(axis);
    }
    const size_t fused = static_cast<size_t>(number(0, dims - 1));
    if (!sharding.spec[fused].empty() && shape[fused] > 2) sharding.segments.push_back({fused, {1, shape[fused] - 1}});
    const Manifest manifest = manifest_of(shape, "int16", mesh, sharding);
    uint64_t elements = 1;
    std::string text;
    for (const int64_t size : shape)
      elements *= static_cast<uint64_t>(size), text += (text.empty() ? "[" : ",") + std::to_string(size);
    const WeightsFile file("I16", text + "]", elements * 2);
    WeightSource source;
    REQUIRE(open_weights(file.path.string(), manifest, source));
    CHECK(tiling_errors(manifest).empty());
    std::vector<int> ranks;
    for (int rank = 0; rank < device_count(mesh); ++rank) ranks.push_back(rank);
    const ReadPlan plan = plan_reads(manifest, source, ranks);
    CHECK(plan.needed_bytes == elements * 2);
    CHECK(plan.planned_bytes == elements * 2);
    std::vector<ShardStore> stores = stores_of(manifest);
    ReadTo to{.manifest = &manifest, .source = &source, .stores = {}, .device = &cpu_device()};
    for (ShardStore& store : stores) to.stores.push_back(&store);
    const uint64_t block = static_cast<uint64_t>(number(1, 200));
    for (const bool straight : {true, false}) {
      for (ShardStore& store : stores) {
        if (store.shards[0].bytes != 0) std::memset(store.shards[0].data, 0, store.shards[0].bytes);
      }
      for (const ReadRange& file_range : plan.file_ranges) {
        for (uint64_t i = 0; i < item_count(file_range, block); ++i) {
          const ReadItem item = item_at(file_range, block, i);
          if (straight) {
            std::ignore = scatter(to, item);
            continue;
          }
          std::vector<char> packed(packed_bytes(item));
          std::ignore = read_packed(to, item, packed.data());
          copy_to_targets(to, item, packed.data());
        }
      }
      // Compares single elements; the oracle uses slices, not boxes.
      for (const ShardStore& store : stores) {
        const Shard& shard = store.shards[0];
        std::vector<std::vector<int64_t>> indices(shape.size());
        for (size_t d = 0; d < shape.size(); ++d) {
          for (const Interval& run : shard.slice[d]) {
            for (int64_t i = run.begin; i < run.end; ++i) indices[d].push_back(i);
          }
        }
        bool equal = true;
        for (uint64_t local = 0; local < shard.bytes / 2; ++local) {
          uint64_t rest = local, global = 0, stride = 1;
          for (size_t d = shape.size(); d-- > 0;) {
            global += static_cast<uint64_t>(indices[d][rest % indices[d].size()]) * stride;
            rest /= indices[d].size();
            stride *= static_cast<uint64_t>(shape[d]);
          }
          equal = equal &&
                  std::memcmp(static_cast<const char*>(shard.data) + local * 2, file.bytes.data() + global * 2, 2) == 0;
        }
        CHECK(equal);
      }
    }
    CHECK(!verify(source, stores));
    ShardStore& last = stores.back();
    if (last.shards[0].bytes == 0) continue;
    static_cast<char*>(last.shards[0].data)[last.shards[0].bytes - 1] ^= 1;
    const std::optional<Fault> difference = verify(source, stores);
    REQUIRE(difference);
    CHECK(difference->code == Code::ShardDiffers);
    CHECK(difference->message.find("rank " + std::to_string(last.rank) + ": `w`[") == 0);
  }
}

TEST_CASE("shards tile a tensor or the first error is reported") {
  const std::vector<uint64_t> sizes{4, 6};
  const auto box = [](uint64_t a, uint64_t b, uint64_t c, uint64_t d) { return Box{{a, c}, {b, d}}; };
  const auto fault = [&](std::vector<Box> boxes) { return tiling_error(sizes, boxes); };
  CHECK(fault({box(0, 4, 0, 6)}) == "");
  CHECK(fault({box(0, 2, 0, 6), box(2, 4, 0, 3), box(2, 4, 3, 6), box(1, 1, 0, 6)}) == "");
  CHECK(fault({box(0, 2, 0, 6), box(2, 4, 0, 3)}) == "6 of 24 bytes are in no shard");
  CHECK(fault({}) == "24 of 24 bytes are in no shard");
  CHECK(fault({box(0, 2, 0, 6), box(1, 4, 0, 4)}).find("overlap") != std::string::npos);
  CHECK(fault({box(0, 2, 0, 6), box(2, 5, 0, 6)}).find("exceeds the tensor") != std::string::npos);
  CHECK(fault({box(0, 4, 0, 3), box(0, 4, 2, 5)}).find("overlap") != std::string::npos);
}
