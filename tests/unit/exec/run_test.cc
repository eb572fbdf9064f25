// Test data with known sums, the schedule of a manifest, and bandwidths.
#include <doctest/doctest.h>

#include <cstring>

#include "exec/device/host_arithmetic.h"
#include "exec/run/bandwidth.h"
#include "exec/run/exact_data.h"

using namespace tpplan;

namespace {

const Mesh kMesh{{{"dp", 2}, {"tp", 3}}};

DType dtype(std::string_view name) {
  DType id = 0;
  REQUIRE(find_dtype(name, id));
  return id;
}

std::vector<float> floats(const std::vector<char>& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

TEST_CASE("contributions of all ranks sum to the reduced value") {
  const ExactTensor tensor{.salt = 7, .shape = {4, 6}, .dtype = dtype("float32"), .partial = {1}};
  const std::vector<std::vector<Interval>> slice = {{{1, 3}}, {{0, 2}, {4, 6}}};
  const AxisId open[] = {1};
  std::vector<float> sum(8, 0.0f);
  for (int64_t tp = 0; tp < 3; ++tp) {
    const std::vector<float> part = floats(exact_bytes(tensor, kMesh, std::vector<int64_t>{0, tp}, slice, open));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  CHECK(floats(exact_bytes(tensor, kMesh, std::vector<int64_t>{0, 0}, slice, {})) == sum);
}

TEST_CASE("averages and extremes of contributions match") {
  const std::vector<std::vector<Interval>> slice = {{{0, 16}}};
  const AxisId open[] = {0, 1};
  for (const ReduceOp op : {ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min}) {
    const ExactTensor tensor{.salt = 1, .shape = {16}, .dtype = dtype("float32"), .partial = {0, 1}, .op = op};
    std::vector<float> sum(16, 0.0f), largest(16, -1e9f), smallest(16, 1e9f);
    for (int64_t rank = 0; rank < 6; ++rank) {
      const std::vector<float> part = floats(exact_bytes(tensor, kMesh, coordinate_of(kMesh, rank), slice, open));
      for (size_t i = 0; i < 16; ++i) {
        sum[i] += part[i] / 6;
        largest[i] = std::max(largest[i], part[i]);
        smallest[i] = std::min(smallest[i], part[i]);
      }
    }
    const std::vector<float> reduced = floats(exact_bytes(tensor, kMesh, std::vector<int64_t>{0, 0}, slice, {}));
    CHECK(reduced == (op == ReduceOp::Avg ? sum : op == ReduceOp::Max ? largest : smallest));
  }
}

TEST_CASE("elements depend only on the global index") {
  const ExactTensor tensor{.salt = 3, .shape = {5, 7}, .dtype = dtype("bool")};
  const std::vector<char> whole = exact_bytes(tensor, kMesh, std::vector<int64_t>{0, 0}, {{{0, 5}}, {{0, 7}}}, {});
  const std::vector<char> column = exact_bytes(tensor, kMesh, std::vector<int64_t>{1, 2}, {{{2, 5}}, {{6, 7}}}, {});
  CHECK(column == std::vector<char>{whole[2 * 7 + 6], whole[3 * 7 + 6], whole[4 * 7 + 6]});
}

TEST_CASE("sums of test data are exact in the narrowest dtypes") {
  for (const char* name : {"bfloat16", "float16", "int8", "uint8"}) {
    for (const int64_t ranks : {int64_t{16}, int64_t{129}, int64_t{2048}, int64_t{5000}}) {
      const DType id = dtype(name);
      const Mesh mesh{{{"dp", ranks}}};
      const ExactTensor tensor{.salt = 9, .shape = {64}, .dtype = id, .partial = {0}};
      const AxisId open[] = {0};
      const auto part_of = [&](int64_t rank) {
        return exact_bytes(tensor, mesh, std::vector<int64_t>{rank}, {{{0, 64}}}, open);
      };
      const std::vector<char> whole = exact_bytes(tensor, mesh, std::vector<int64_t>{0}, {{{0, 64}}}, {});
      // Sums sequentially, and in halves as in a tree.
      std::vector<char> sum = part_of(ranks - 1);
      std::vector<std::vector<char>> tree;
      for (int64_t rank = 0; rank < ranks; ++rank) tree.push_back(part_of(rank));
      for (int64_t rank = ranks - 1; rank-- > 0;)
        REQUIRE(reduce_on_host(sum.data(), part_of(rank).data(), 64, id, ReduceOp::Sum));
      for (size_t step = 1; step < tree.size(); step *= 2) {
        for (size_t at = 0; at + step < tree.size(); at += 2 * step)
          REQUIRE(reduce_on_host(tree[at].data(), tree[at + step].data(), 64, id, ReduceOp::Sum));
      }
      CHECK_MESSAGE(sum == whole, name << " over " << ranks);
      CHECK_MESSAGE(tree[0] == whole, name << " over " << ranks);
      // Every rank contributes at least one nonzero element.
      const std::vector<char> silent(whole.size(), 0);
      for (int64_t rank = 0; rank < ranks; ++rank) CHECK(part_of(rank) != silent);
    }
  }
}

TEST_CASE("float16 and bfloat16 round to nearest even") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if ((half & 0x7fff) <= 0x7c00) CHECK(half_of_float(float_of_half(half)) == half);
    if ((half & 0x7fff) <= 0x7f80) CHECK(bfloat16_of_float(float_of_bfloat16(half)) == half);
  }
  CHECK(half_of_float(2049.0f) == half_of_float(2048.0f));
  CHECK(half_of_float(2051.0f) == half_of_float(2052.0f));
  CHECK(half_of_float(65519.0f) == 0x7bff);
  CHECK(half_of_float(65520.0f) == 0x7c00);
  CHECK(bfloat16_of_float(257.0f) == bfloat16_of_float(256.0f));
  CHECK(bfloat16_of_float(259.0f) == bfloat16_of_float(260.0f));
}

// NVIDIA/nccl-tests, doc/PERFORMANCE.md.
TEST_CASE("bus bandwidth follows nccl-tests") {
  CHECK(bandwidth_of(CollectiveKind::AllReduce, 800, 2, 4).algorithm == 400);
  CHECK(bandwidth_of(CollectiveKind::AllReduce, 800, 2, 4).bus == 600);
  CHECK(bandwidth_of(CollectiveKind::AllGather, 800, 2, 4).bus == 300);
  CHECK(bandwidth_of(CollectiveKind::ReduceScatter, 800, 2, 4).bus == 300);
  CHECK(bandwidth_of(CollectiveKind::AllToAll, 800, 2, 8).bus == 350);
  CHECK(bandwidth_of(CollectiveKind::AllReduce, 800, 2, 1).bus == 0);
  CHECK(bandwidth_of(CollectiveKind::AllReduce, 800, 0, 4).bus == 0);
}
