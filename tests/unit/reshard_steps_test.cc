// Collectives between two shardings of a recorded program, and attributes of its operations.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "programs/attribute_text.h"
#include "programs/reshard_to_collectives.h"

namespace {

using namespace tpplan::programs;

const std::vector<std::string> kNames{"a", "b"};
const std::vector<int64_t> kSizes{2, 4};
const AxisPart kA{0, 1, 2}, kB{1, 1, 4}, kMajorB{1, 1, 2}, kMinorB{1, 2, 2};

// The kinds of the steps as letters: gather, all-to-all (t), permute.
std::string kinds(const std::vector<AxisParts>& from, const std::vector<AxisParts>& to) {
  const std::vector<int64_t> shape(from.size(), 16);
  std::string letters;
  std::vector<AxisParts> last = from;
  for (const ReshardStep& step : reshard_steps({kNames, kSizes}, shape, from, to)) {
    letters += step.kind == ReshardKind::AllGather ? 'g' : step.kind == ReshardKind::AllToAll ? 't' : 'p';
    last = step.after;
  }
  CHECK((letters.empty() || last == to));
  return letters;
}

TEST_CASE("reshard steps send what the shardings differ in") {
  CHECK(kinds({{kA}, {}}, {{kA}, {}}).empty());
  CHECK(kinds({{}, {}}, {{kA}, {kB}}).empty());  // slices send nothing
  CHECK(kinds({{kA}, {}}, {{}, {}}) == "g");
  CHECK(kinds({{kA}, {}}, {{}, {kA}}) == "t");
  CHECK(kinds({{kA, kB}, {}}, {{kB, kA}, {}}) == "p");
  CHECK(kinds({{kB}, {}}, {{kMajorB}, {}}) == "g");
  CHECK(kinds({{kMinorB}, {}}, {{kMajorB}, {}}) == "p");
  CHECK(kinds({{kB}, {}}, {{kMajorB}, {kMinorB}}) == "t");
}

TEST_CASE("parts of an axis know their order") {
  CHECK(contains(kB, kMinorB));
  CHECK(is_prefix(kMajorB, kB));
  CHECK_FALSE(is_prefix(kMinorB, kB));
  CHECK_FALSE(overlaps(kMajorB, kMinorB));
  CHECK(prefix_without(kB, kMinorB) == kMajorB);
  AxisParts joined{kMajorB};
  append_part(joined, kMinorB);
  CHECK(joined == AxisParts{kB});
}

TEST_CASE("attributes are read as MLIR prints them") {
  std::vector<int64_t> numbers;
  CHECK(read_integers("array<i64: 0, -1>", numbers));
  CHECK(numbers == std::vector<int64_t>{0, -1});
  CHECK(read_integers("array<i64>", numbers));
  CHECK(numbers.empty());
  CHECK_FALSE(read_integers("array<i64: 99999999999999999999>", numbers));
  CHECK_FALSE(read_integers("dense<0>", numbers));
  CHECK(find_field("#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>",
                   "rhs_contracting_dimensions") == "[0]");
  CHECK(find_field("#stablehlo.gather<offset_dims = [1], index_vector_dim = 2>", "index_vector_dim") == "2");
  CHECK(find_field("#stablehlo.dot<>", "lhs_contracting_dimensions").empty());
  ConvDims groups[3];
  CHECK(read_conv_dims("#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>", groups));
  CHECK(groups[1].input == 2);
  CHECK(groups[2].spatial == std::vector<int64_t>{1, 2});
  CHECK_FALSE(read_conv_dims("#stablehlo.conv<[b, z]x[i, o]>", groups));
}

}  // namespace
