#include <doctest/doctest.h>

#include <tuple>

#include "ops/dim_layout.h"
#include "ops/layout_parts.h"
#include "ops/regroup_layouts.h"

namespace tpplan {
namespace {

DimLayoutTable table_of(size_t ranks) {
  DimLayoutTable table;
  reset_for_axes(table, {ranks});
  return table;
}

DimLayoutId chunked_map(DimLayoutTable& table, int64_t size, int64_t factor = 1) {
  return sharded_dim(table, replicated_dim(table, size), 0, factor);
}

TEST_CASE("equal layouts share one id, and one shard is replicated") {
  DimLayoutTable table = table_of(2);
  CHECK(chunked_map(table, 8) == chunked_map(table, 8));
  CHECK(chunked_map(table, 8) != chunked_map(table, 6));
  CHECK(layout_of_intervals(table, 8, {{{0, 3}, {3, 8}}, {{0, 8}}}) == replicated_dim(table, 8));
  CHECK(unknown_dim(table, 8, {8, 8}) == replicated_dim(table, 8));
}

TEST_CASE("chunks tile the dim as in torch.chunk, the last ones short") {
  DimLayoutTable table = table_of(4);
  const DimLayout map = table.maps[chunked_map(table, 3)];
  CHECK(map.local == std::vector<int64_t>{1, 1, 1, 0});
  CHECK(map.tiles);
  CHECK_FALSE(map.is_complete);
}

TEST_CASE("halves of a packed shard are shards of the halves") {
  DimLayoutTable table = table_of(2);
  const std::vector<LocalSlice> first{{0, 4, 1}, {0, 4, 1}};
  std::string fault;
  const auto packed = slice_layout(table, chunked_map(table, 16, 2), first, {0, 8, 1}, fault);
  REQUIRE(packed.has_value());
  CHECK(*packed == chunked_map(table, 8));
  CHECK_FALSE(slice_layout(table, chunked_map(table, 16), first, {0, 8, 1}, fault).has_value());
  CHECK(fault == "rank 1 selects global indices 8..11, the unsharded model 0..7");
}

TEST_CASE("a strided slice of a shard is a shard of the slice") {
  DimLayoutTable table = table_of(2);
  const std::vector<LocalSlice> every_second{{0, 8, 2}, {0, 8, 2}};
  std::string fault;
  const auto map = slice_layout(table, chunked_map(table, 16), every_second, {0, 16, 2}, fault);
  REQUIRE(map.has_value());
  CHECK(*map == chunked_map(table, 8));
}

TEST_CASE("a shard views as heads only if it splits none") {
  DimLayoutTable table = table_of(3);
  const DimLayoutId five_heads_of_two = chunked_map(table, 10);  // 4, 4, 2
  const std::vector<int64_t> to{5, 2};
  std::string fault;
  const std::vector<std::vector<int64_t>> local{{2, 2, 1}, {2, 2, 2}};
  const auto maps = regroup_layouts(table, std::vector<DimLayoutId>{five_heads_of_two}, to, local, fault);
  REQUIRE(maps.has_value());
  CHECK((*maps)[0] == chunked_map(table, 5));
  CHECK((*maps)[1] == replicated_dim(table, 2));
  DimLayoutTable two = table_of(2);
  const std::vector<std::vector<int64_t>> halves{{1, 1}, {9, 9}};
  CHECK_FALSE(regroup_layouts(two, std::vector<DimLayoutId>{chunked_map(two, 18)}, std::vector<int64_t>{3, 6},
                              std::vector<std::vector<int64_t>>{{3, 3}, {3, 3}}, fault)
                  .has_value());
}

TEST_CASE("sharded heads merge with replicated dims and split again") {
  DimLayoutTable table = table_of(2);
  const DimLayoutId heads = chunked_map(table, 4), width = replicated_dim(table, 8);
  std::string fault;
  const auto merged = regroup_layouts(table, std::vector<DimLayoutId>{heads, width}, std::vector<int64_t>{32},
                                      std::vector<std::vector<int64_t>>{{16, 16}}, fault);
  REQUIRE(merged.has_value());
  CHECK((*merged)[0] == chunked_map(table, 32));
  const auto apart = regroup_layouts(table, *merged, std::vector<int64_t>{4, 8},
                                     std::vector<std::vector<int64_t>>{{2, 2}, {8, 8}}, fault);
  REQUIRE(apart.has_value());
  CHECK(*apart == std::vector<DimLayoutId>{heads, width});
}

TEST_CASE("gathered shards are replicated, gathered copies repeat") {
  DimLayoutTable table = table_of(2);
  bool right = false;
  CHECK(gathered_dim(table, chunked_map(table, 8), 0, right) == replicated_dim(table, 8));
  CHECK(right);
  std::ignore = gathered_dim(table, replicated_dim(table, 8), 0, right);
  CHECK_FALSE(right);
  const DimLayoutId permuted = gathered_dim(table, chunked_map(table, 8, 2), 0, right);
  CHECK(right);
  CHECK(table.maps[permuted].is_complete);
  CHECK_FALSE(is_fully_replicated(table, permuted));
}

TEST_CASE("a dim over two axes is gathered inner axis first") {
  DimLayoutTable table;
  reset_for_axes(table, {2, 3});
  const DimLayoutId outer = sharded_dim(table, replicated_dim(table, 12), 0), both = sharded_dim(table, outer, 1);
  CHECK(table.maps[outer].axes == 1);
  CHECK(table.maps[both].axes == 3);
  CHECK(table.maps[outer].tiles);
  CHECK(table.maps[both].tiles);
  CHECK(table.maps[both].intervals[4] == std::vector<Interval>{{8, 10}});
  bool right = false;
  CHECK(gathered_dim(table, both, 1, right) == outer);
  CHECK(right);
  CHECK(gathered_dim(table, outer, 0, right) == replicated_dim(table, 12));
  CHECK(right);
  std::ignore = gathered_dim(table, outer, 1, right);  // along an axis that does not shard it
  CHECK_FALSE(right);
}

TEST_CASE("shards along different axes differ despite equal sizes") {
  DimLayoutTable table;
  reset_for_axes(table, {2, 2});
  const DimLayoutId a = sharded_dim(table, replicated_dim(table, 8), 0),
                    b = sharded_dim(table, replicated_dim(table, 8), 1);
  CHECK(a != b);
  CHECK(same_sizes(table, a, b));
}

}  // namespace
}  // namespace tpplan
