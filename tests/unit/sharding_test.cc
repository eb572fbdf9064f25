#include <doctest/doctest.h>

#include <array>

#include "sharding/check_sharding.h"
#include "sharding/dtype.h"
#include "sharding/placement.h"
#include "sharding/redistribute.h"
#include "sharding/shard_slice.h"

using namespace tpplan;

namespace {

const Mesh kMesh{.axes = {{"fsdp", 2}, {"tp", 4}}};

std::vector<std::string> placement_texts(const Sharding& sharding, const Mesh& mesh) {
  std::vector<std::string> texts;
  const auto placements = placements_of(sharding, mesh);
  if (!placements) return {"none"};
  for (const Placement& placement : *placements) texts.push_back(to_text(placement));
  return texts;
}

Placement shard(int dim) { return {.kind = PlacementKind::Shard, .dim = dim}; }
const Placement kReplicate{};
const Placement kPartial{.kind = PlacementKind::Partial};

}  // namespace

TEST_CASE("chunk matches torch.chunk") {
  struct Row {
    int64_t size, shards;
    std::vector<int64_t> lengths;
  };
  const Row rows[] = {{8, 4, {2, 2, 2, 2}}, {30, 4, {8, 8, 8, 6}}, {10, 8, {2, 2, 2, 2, 2, 0, 0, 0}},
                      {3, 4, {1, 1, 1, 0}}, {0, 3, {0, 0, 0}},     {1, 1, {1}}};
  for (const Row& row : rows) {
    for (int64_t i = 0; i < row.shards; ++i)
      CHECK(length(chunk({0, row.size}, row.shards, i)) == row.lengths[static_cast<size_t>(i)]);
  }
}

TEST_CASE("empty chunks are at the end of the interval") { CHECK(chunk({5, 8}, 4, 3) == Interval{8, 8}); }

TEST_CASE("chunk survives sizes and indices near 2^63") {
  const int64_t huge = (int64_t{1} << 62) + 1;
  CHECK(length(chunk({0, huge}, 2, 0)) == huge / 2 + 1);
  CHECK(chunk({0, 3}, int64_t{1} << 30, (int64_t{1} << 30) - 1) == Interval{3, 3});
}

TEST_CASE("one dim over two axes is sharded major first") {
  const Sharding sharding{.spec = {{1, 0}}, .segments = {}};
  CHECK(local_shape(std::vector<int64_t>{5}, {.spec = {{0, 1}}, .segments = {}}, {.axes = {{"a", 2}, {"b", 2}}},
                    std::vector<int64_t>{0, 0}) == std::vector<int64_t>{2});
  CHECK(local_shape(std::vector<int64_t>{5}, {.spec = {{0, 1}}, .segments = {}}, {.axes = {{"a", 2}, {"b", 2}}},
                    std::vector<int64_t>{1, 1}) == std::vector<int64_t>{1});
  // fsdp=1, tp=2: tp is major and selects [8, 12) of 16 elements; fsdp selects its second half.
  CHECK(shard_slice(std::vector<int64_t>{16}, sharding, kMesh, std::vector<int64_t>{1, 2})[0][0] == Interval{10, 12});
}

TEST_CASE("each segment of a fused dim is sharded separately") {
  const Sharding sharding{.spec = {{1}}, .segments = {{.dim = 0, .sizes = {8, 4, 4}}}};
  const auto slice = shard_slice(std::vector<int64_t>{16}, sharding, kMesh, std::vector<int64_t>{0, 1});
  CHECK(slice[0] == std::vector<Interval>{{2, 4}, {9, 10}, {13, 14}});
}

TEST_CASE("torch placements: fsdp after tp on one dim is strided") {
  CHECK(placement_texts({.spec = {{1, 0}, {}}, .segments = {}}, kMesh) ==
        std::vector<std::string>{"StridedShard(0, 4)", "Shard(0)"});
  CHECK(placement_texts({.spec = {{0}, {1}}, .segments = {}}, kMesh) ==
        std::vector<std::string>{"Shard(0)", "Shard(1)"});
  CHECK(placement_texts({.spec = {{0, 1}}, .segments = {}}, kMesh) == std::vector<std::string>{"Shard(0)", "Shard(0)"});
  CHECK(placement_texts({.spec = {{}, {}}, .segments = {}}, kMesh) ==
        std::vector<std::string>{"Replicate", "Replicate"});
}

TEST_CASE("transformers placements: packed weights are strided") {
  CHECK(placement_texts({.spec = {{1}}, .segments = {{0, {4, 4}}}}, kMesh) ==
        std::vector<std::string>{"Replicate", "StridedShard(0, 2)"});
  CHECK(placement_texts({.spec = {{1, 0}}, .segments = {{0, {8, 8}}}}, kMesh) ==
        std::vector<std::string>{"StridedShard(0, 4)", "StridedShard(0, 2)"});
  CHECK(placement_texts({.spec = {{1}}, .segments = {{0, {3, 2}}}}, kMesh) ==
        std::vector<std::string>{"Replicate", "StridedShard(0, 2)"});
}

TEST_CASE("segments unlike torch.chunk have no placement") {
  CHECK(placement_texts({.spec = {{1}}, .segments = {{0, {8, 4, 4}}}}, kMesh) == std::vector<std::string>{"none"});
}

TEST_CASE("placements are read in our and in torch's notation") {
  for (const char* text :
       {"Replicate", "Shard(0)", "Shard(-1)", "StridedShard(1, 4)", "Partial(sum)", "Partial(max)"}) {
    Placement placement;
    REQUIRE(parse_placement(text, placement));
    CHECK(to_text(placement) == text);
  }
  Placement placement;
  CHECK(parse_placement("Partial()", placement));
  for (const char* text : {"", "shard(0)", "Shard", "Shard()", "Shard(x)", "Shard(0", "Shard(99)", "StridedShard(0)",
                           "StridedShard(0, 0)", "Partial(mul)", "Replicate "})
    CHECK_FALSE(parse_placement(text, placement));
}

TEST_CASE("specs print in the notation of plans") {
  CHECK(to_text(PartitionSpec{{1, 0}, {}, {1}}, kMesh) == "[[tp, fsdp], null, tp]");
  CHECK(to_text(PartitionSpec{}, kMesh) == "[]");
  CHECK(axis_text("no") == "\"no\"");
  CHECK(axis_text("a \"b\"\n") == "\"a \\\"b\\\"\\n\"");
}

TEST_CASE("check_sharding finds each kind of error") {
  const auto kinds = [](std::vector<int64_t> shape, const Sharding& sharding, UnevenPolicy uneven = UnevenPolicy::Error,
                        std::vector<DimGranularity> granularity = {}) {
    std::vector<ShardingErrorKind> found;
    for (const ShardingError& fault : check_sharding(shape, sharding, kMesh, uneven, granularity))
      found.push_back(fault.kind);
    return found;
  };
  using enum ShardingErrorKind;
  using Kinds = std::vector<ShardingErrorKind>;
  CHECK(kinds({8, 8}, {.spec = {{1}, {0}}, .segments = {}}) == Kinds{});
  CHECK(kinds({8}, {.spec = {{1}, {}}, .segments = {}}) == Kinds{EntryCount});
  CHECK(kinds({8}, {.spec = {{7}}, .segments = {}}) == Kinds{UnknownAxis});
  CHECK(kinds({8, 8}, {.spec = {{1}, {1}}, .segments = {}}) == Kinds{AxisTwice});
  CHECK(kinds({8}, {.spec = {{1, 1}}, .segments = {}}) == Kinds{AxisTwice});
  CHECK(kinds({6}, {.spec = {{1}}, .segments = {}}) == Kinds{NotDivisible});
  CHECK(kinds({4}, {.spec = {{1, 0}}, .segments = {}}) == Kinds{AxesNotDivisible});
  CHECK(kinds({6}, {.spec = {{1}}, .segments = {}}, UnevenPolicy::Torch) == Kinds{});
  CHECK(kinds({0}, {.spec = {{1}}, .segments = {}}) == Kinds{});
  CHECK(kinds({1}, {.spec = {{1}}, .segments = {}}) == Kinds{NotDivisible});
  CHECK(kinds({12}, {.spec = {{1}}, .segments = {{0, {8, 4}}}}) == Kinds{});
  CHECK(kinds({12}, {.spec = {{1}}, .segments = {{0, {6, 6}}}}) == Kinds{SegmentNotDivisible});
  CHECK(kinds({12}, {.spec = {{1}}, .segments = {{0, {8, 8}}}}) == Kinds{SegmentsDoNotFit});
  CHECK(kinds({192}, {.spec = {{1}}, .segments = {}}, UnevenPolicy::Error, {{0, 32}}) ==
        Kinds{SplitsGranule});  // 6 heads over 4
  CHECK(kinds({256}, {.spec = {{1}}, .segments = {}}, UnevenPolicy::Error, {{0, 32}}) == Kinds{});
  CHECK(kinds({256}, {.spec = {{0}}, .segments = {}}, UnevenPolicy::Error, {{0, 256}}) == Kinds{SplitsGranule});
}

TEST_CASE("a split block is found in every shard of an earlier axis") {
  const Mesh mesh{.axes = {{"a", 3}, {"b", 2}}};
  const DimGranularity pairs[] = {{0, 2}};
  // 22 elements over 3 ranks are 8, 8 and 6. Halving the 6 splits a block of 2; halving an 8 does not.
  const auto faults = check_sharding(std::vector<int64_t>{22, 4}, {.spec = {{0, 1}, {}}, .segments = {}}, mesh,
                                     UnevenPolicy::Torch, pairs);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].kind == ShardingErrorKind::SplitsGranule);
}

TEST_CASE("check_sharding finds exactly the blocks that ranks split") {
  int cut = 0, kept = 0;
  for (const auto& [a, b, c] : std::vector<std::array<int64_t, 3>>{{3, 2, 1}, {2, 3, 2}, {4, 2, 2}, {5, 3, 1}}) {
    const Mesh mesh{.axes = {{"a", a}, {"b", b}, {"c", c}}};
    for (int64_t size = 0; size < 60; ++size) {
      for (int64_t granule = 2; granule < 7; ++granule) {
        const Sharding sharding{.spec = {{0, 1, 2}}, .segments = {}};
        bool inside = false;
        for (int64_t rank = 0; rank < device_count(mesh); ++rank) {
          const Interval piece = shard_slice(std::span(&size, 1), sharding, mesh, coordinate_of(mesh, rank))[0][0];
          inside = inside || (piece.end != size && piece.end % granule != 0);
        }
        const DimGranularity blocks[] = {{0, granule}};
        const bool found = !check_sharding(std::span(&size, 1), sharding, mesh, UnevenPolicy::Torch, blocks).empty();
        CHECK_MESSAGE(found == inside, size, " in blocks of ", granule, " over ", a, " x ", b, " x ", c);
        (inside ? cut : kept) += 1;
      }
    }
  }
  CHECK(cut > 50);
  CHECK(kept > 50);
}

TEST_CASE("divisors of sizes are found quickly for many ranks") {
  const int64_t heads[] = {32, 8}, none[] = {0};
  CHECK(common_divisors(heads, INT64_MAX - 1) == std::vector<int64_t>{1, 2, 4, 8});
  CHECK(common_divisors(heads, 4) == std::vector<int64_t>{1, 2, 4});
  CHECK(common_divisors(none, 3) == std::vector<int64_t>{1, 2, 3});  // no constraint
}

TEST_CASE("redistribute uses the collectives that DTensor uses") {
  const auto one = [](Placement from, Placement to) {
    const auto steps = redistribute(std::span(&from, 1), std::span(&to, 1));
    if (!steps) return std::string("error");
    return steps->empty() ? std::string("nothing") : std::string(to_text((*steps)[0].kind));
  };
  CHECK(one(shard(0), kReplicate) == "all_gather");
  CHECK(one(kReplicate, shard(1)) == "slice");
  CHECK(one(kPartial, kReplicate) == "all_reduce");
  CHECK(one(kPartial, shard(0)) == "reduce_scatter");
  CHECK(one(shard(0), shard(1)) == "all_to_all");
  CHECK(one(shard(0), shard(0)) == "nothing");
  CHECK(one(kPartial, kPartial) == "nothing");
  CHECK(one(kReplicate, kPartial) == "error");
  CHECK(one(shard(0), kPartial) == "error");
}

TEST_CASE("two axes on a dim are gathered inner first, as in DTensor") {
  const auto steps = [](std::vector<Placement> from, std::vector<Placement> to) {
    std::string text;
    const auto found = redistribute(from, to);
    for (const Collective& c : *found) text += std::string(to_text(c.kind)) + " " + std::to_string(c.axis) + "; ";
    return text;
  };
  CHECK(steps({shard(0), shard(0)}, {kReplicate, kReplicate}) == "all_gather 1; all_gather 0; ");
  CHECK(steps({shard(0), shard(0)}, {kReplicate, shard(0)}) == "all_gather 1; all_gather 0; slice 1; ");
  CHECK(steps({kReplicate, kReplicate}, {shard(0), shard(0)}) == "slice 0; slice 1; ");
  CHECK(steps({kPartial, kPartial}, {shard(0), kReplicate}) == "reduce_scatter 0; all_reduce 1; ");
  CHECK(steps({shard(0), shard(1)}, {shard(1), shard(0)}) == "all_gather 1; all_to_all 0; slice 1; ");
}

TEST_CASE("dtypes have torch's names and sizes") {
  DType dtype = 0;
  REQUIRE(find_dtype("bfloat16", dtype));
  CHECK(byte_size(dtype, 3) == 6);
  REQUIRE(find_dtype("int4", dtype));
  CHECK(byte_size(dtype, 3) == 2);
  CHECK_FALSE(find_dtype("BF16", dtype));
}
