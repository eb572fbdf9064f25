// Laws of regions and boxes: each function equals an iteration over all indices.
#include "sharding/boxes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "exec/run/copy_region.h"

using namespace tpplan;

namespace {

using Index = std::vector<uint64_t>;

// Returns all indices of a region in the order of its buffer.
std::vector<Index> indices_of(const Region& region) {
  std::vector<Index> all = {{}};
  for (const Intervals& runs : region) {
    std::vector<Index> longer;
    for (const Index& index : all) {
      for (const Interval& run : runs) {
        for (int64_t i = run.begin; i < run.end; ++i) {
          longer.push_back(index);
          longer.back().push_back(static_cast<uint64_t>(i));
        }
      }
    }
    all = std::move(longer);
  }
  return all;
}

bool holds(const Box& box, const Index& index) {
  for (size_t d = 0; d < index.size(); ++d) {
    if (index[d] < box.begin[d] || index[d] >= box.end[d]) return false;
  }
  return true;
}

// Returns a random region of a tensor with at most seven indices per dim; some are empty.
Region random_region(std::mt19937& random, size_t dims) {
  std::vector<Intervals> slice(dims);
  for (Intervals& runs : slice) {
    for (int64_t at = static_cast<int64_t>(random() % 3); at < 7;) {
      const int64_t end = std::min<int64_t>(7, at + static_cast<int64_t>(random() % 4));
      runs.push_back({at, end});
      at = end + static_cast<int64_t>(random() % 4);
    }
  }
  return region_from_slice(std::move(slice));
}

constexpr int kTries = 400;

}  // namespace

TEST_CASE("the boxes of a region tile it in buffer order") {
  std::mt19937 random(1);
  for (int i = 0; i < kTries; ++i) {
    const Region region = random_region(random, random() % 4);
    const std::vector<Index> all = indices_of(region);
    const std::vector<HeldBox> boxes = boxes_of(region);
    REQUIRE(elements_in(region) == all.size());
    uint64_t in_boxes = 0;
    for (const HeldBox& held : boxes) in_boxes += elements_in(held.box);
    REQUIRE(in_boxes == all.size());
    for (uint64_t place = 0; place < all.size(); ++place) {
      const auto held = std::ranges::find_if(boxes, [&](const HeldBox& h) { return holds(h.box, all[place]); });
      REQUIRE(held != boxes.end());
      REQUIRE(offset_of(*held, all[place]) == place);
    }
  }
}

TEST_CASE("intersections of regions match those of their boxes") {
  std::mt19937 random(2);
  for (int i = 0; i < kTries; ++i) {
    const size_t dims = random() % 4;
    const Region a = random_region(random, dims), b = random_region(random, dims);
    const std::vector<Index> of_a = indices_of(a), of_b = indices_of(b);
    const std::set<Index> known(of_b.begin(), of_b.end());
    std::vector<Index> common;
    std::ranges::copy_if(of_a, std::back_inserter(common), [&](const Index& index) { return known.contains(index); });
    REQUIRE(indices_of(intersection(a, b)) == common);
    uint64_t in_boxes = 0;
    for (const HeldBox& x : boxes_of(a)) {
      for (const HeldBox& y : boxes_of(b)) {
        const Box both = intersection(x.box, y.box);
        REQUIRE(is_empty(both) == (elements_in(both) == 0));
        in_boxes += elements_in(both);
      }
    }
    REQUIRE(in_boxes == common.size());
  }
}

TEST_CASE("a copy between two regions moves every element of a third") {
  std::mt19937 random(3);
  for (int i = 0; i < kTries; ++i) {
    const size_t dims = random() % 4;
    const Region from = random_region(random, dims), to = random_region(random, dims);
    const Region part = intersection(intersection(from, to), random_region(random, dims));
    const std::vector<Index> of_from = indices_of(from), of_to = indices_of(to), of_part = indices_of(part);
    std::vector<uint16_t> source(of_from.size());
    std::iota(source.begin(), source.end(), uint16_t{1});
    std::vector<uint16_t> expected(of_to.size()), strided(of_to.size()), by_runs(of_to.size());
    for (const Index& index : of_part) {
      expected[static_cast<size_t>(std::ranges::find(of_to, index) - of_to.begin())] =
          source[static_cast<size_t>(std::ranges::find(of_from, index) - of_from.begin())];
    }
    std::vector<RegionCopy> copies;
    REQUIRE(plan_region_copy(from, to, part, 16, copies));
    for (const RegionCopy& copy : copies) {
      cpu_device().copy_strided(reinterpret_cast<char*>(strided.data()) + copy.to_offset,
                                reinterpret_cast<const char*>(source.data()) + copy.from_offset, copy.how);
    }
    REQUIRE(strided == expected);
    for (const HeldBox& held : boxes_of(part)) {
      for_each_contiguous_range(within(held.box, from), within(held.box, to), held.box,
                                [&](uint64_t at, uint64_t there, uint64_t n) {
                                  std::copy_n(source.begin() + static_cast<ptrdiff_t>(at), n,
                                              by_runs.begin() + static_cast<ptrdiff_t>(there));
                                  return true;
                                });
    }
    REQUIRE(by_runs == expected);
  }
}
