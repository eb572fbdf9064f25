#include "ops/dim_map.h"

#include <doctest/doctest.h>

#include <tuple>

#include "ops/map_parts.h"
#include "ops/regroup_maps.h"

namespace tpplan {
namespace {

MapTable table_of(size_t ranks) {
  MapTable table;
  set_axes(table, {ranks});
  return table;
}

MapId chunked_map(MapTable& table, int64_t size, int64_t factor = 1) {
  return cut_map(table, whole_map(table, size), 0, factor);
}

TEST_CASE("equal maps have one id, and a cut into one piece a rank that holds all is the whole") {
  MapTable table = table_of(2);
  CHECK(chunked_map(table, 8) == chunked_map(table, 8));
  CHECK(chunked_map(table, 8) != chunked_map(table, 6));
  CHECK(runs_map(table, 8, {{{0, 3}, {3, 8}}, {{0, 8}}}) == whole_map(table, 8));
  CHECK(any_map(table, 8, {8, 8}) == whole_map(table, 8));
}

TEST_CASE("chunks tile the dim as torch.chunk cuts it, the last ones shorter or empty") {
  MapTable table = table_of(4);
  const DimMap map = table.maps[chunked_map(table, 3)];
  CHECK(map.local == std::vector<int64_t>{1, 1, 1, 0});
  CHECK(map.tiles);
  CHECK_FALSE(map.is_complete);
}

TEST_CASE("halves of a packed cut are the halves of the whole, those of a plain cut are not") {
  MapTable table = table_of(2);
  const std::vector<LocalSlice> first{{0, 4, 1}, {0, 4, 1}};
  std::string fault;
  const auto packed = slice_map(table, chunked_map(table, 16, 2), first, {0, 8, 1}, fault);
  REQUIRE(packed.has_value());
  CHECK(*packed == chunked_map(table, 8));
  CHECK_FALSE(slice_map(table, chunked_map(table, 16), first, {0, 8, 1}, fault).has_value());
  CHECK(fault == "rank 1 takes 8..11 of the whole, which takes 0..7");
}

TEST_CASE("a slice by step of a piece is a piece of the slice") {
  MapTable table = table_of(2);
  const std::vector<LocalSlice> every_second{{0, 8, 2}, {0, 8, 2}};
  std::string fault;
  const auto map = slice_map(table, chunked_map(table, 16), every_second, {0, 16, 2}, fault);
  REQUIRE(map.has_value());
  CHECK(*map == chunked_map(table, 8));
}

TEST_CASE("a piece that ends between heads is viewed as heads, one through a head is not") {
  MapTable table = table_of(3);
  const MapId five_heads_of_two = chunked_map(table, 10);  // 4, 4, 2
  const std::vector<int64_t> to{5, 2};
  std::string fault;
  const std::vector<std::vector<int64_t>> local{{2, 2, 1}, {2, 2, 2}};
  const auto maps = regroup_maps(table, std::vector<MapId>{five_heads_of_two}, to, local, fault);
  REQUIRE(maps.has_value());
  CHECK((*maps)[0] == chunked_map(table, 5));
  CHECK((*maps)[1] == whole_map(table, 2));
  MapTable two = table_of(2);
  const std::vector<std::vector<int64_t>> halves{{1, 1}, {9, 9}};
  CHECK_FALSE(regroup_maps(two, std::vector<MapId>{chunked_map(two, 18)}, std::vector<int64_t>{3, 6},
                           std::vector<std::vector<int64_t>>{{3, 3}, {3, 3}}, fault)
                  .has_value());
}

TEST_CASE("heads that are cut merge with what is whole behind them, and come apart again") {
  MapTable table = table_of(2);
  const MapId heads = chunked_map(table, 4), width = whole_map(table, 8);
  std::string fault;
  const auto merged = regroup_maps(table, std::vector<MapId>{heads, width}, std::vector<int64_t>{32},
                                   std::vector<std::vector<int64_t>>{{16, 16}}, fault);
  REQUIRE(merged.has_value());
  CHECK((*merged)[0] == chunked_map(table, 32));
  const auto apart = regroup_maps(table, *merged, std::vector<int64_t>{4, 8},
                                  std::vector<std::vector<int64_t>>{{2, 2}, {8, 8}}, fault);
  REQUIRE(apart.has_value());
  CHECK(*apart == std::vector<MapId>{heads, width});
}

TEST_CASE("pieces that are gathered are the whole, what every rank has whole is there twice") {
  MapTable table = table_of(2);
  bool right = false;
  CHECK(gathered_map(table, chunked_map(table, 8), 0, right) == whole_map(table, 8));
  CHECK(right);
  std::ignore = gathered_map(table, whole_map(table, 8), 0, right);
  CHECK_FALSE(right);
  const MapId permuted = gathered_map(table, chunked_map(table, 8, 2), 0, right);
  CHECK(right);
  CHECK(table.maps[permuted].is_complete);
  CHECK_FALSE(is_whole(table, permuted));
}

TEST_CASE("a dim that two axes cut is a piece along both, and comes together axis by axis, the inner one first") {
  MapTable table;
  set_axes(table, {2, 3});
  const MapId outer = cut_map(table, whole_map(table, 12), 0), both = cut_map(table, outer, 1);
  CHECK(table.maps[outer].axes == 1);
  CHECK(table.maps[both].axes == 3);
  CHECK(table.maps[outer].tiles);
  CHECK(table.maps[both].tiles);
  CHECK(table.maps[both].runs[4] == std::vector<Interval>{{8, 10}});
  bool right = false;
  CHECK(gathered_map(table, both, 1, right) == outer);
  CHECK(right);
  CHECK(gathered_map(table, outer, 0, right) == whole_map(table, 12));
  CHECK(right);
  std::ignore = gathered_map(table, outer, 1, right);  // along an axis that does not cut it
  CHECK_FALSE(right);
}

TEST_CASE("pieces along one axis and pieces along another differ, though they have one size") {
  MapTable table;
  set_axes(table, {2, 2});
  const MapId a = cut_map(table, whole_map(table, 8), 0), b = cut_map(table, whole_map(table, 8), 1);
  CHECK(a != b);
  CHECK(same_sizes(table, a, b));
}

}  // namespace
}  // namespace tpplan
