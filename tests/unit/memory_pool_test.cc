#include "cost/memory_pool.h"

#include <doctest/doctest.h>

namespace tpplan {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

}  // namespace

TEST_CASE("tensors are rounded up to 512 bytes and freed with their last holder") {
  MemoryPool pool;
  const BlockId a = allocate(pool, 1, TensorUse::Saved), b = allocate(pool, 1025, TensorUse::Transient);
  CHECK(pool.now == 512 + 1536);
  CHECK(hold(pool, a) == a);
  release(pool, a);
  CHECK(pool.now == 512 + 1536);
  release(pool, a);
  release(pool, b);
  CHECK(pool.now == 0);
  CHECK(pool.peak == 512 + 1536);
  CHECK(pool.at_peak[static_cast<size_t>(TensorUse::Saved)] == 512);
}

TEST_CASE("the sum of tensors does not overflow") {
  MemoryPool pool;
  const BlockId a = allocate(pool, uint64_t{1} << 62, TensorUse::Saved);
  CHECK(allocate(pool, uint64_t{1} << 62, TensorUse::Saved) == kNoBlock);
  CHECK(pool.overflow);
  release(pool, a);
  release(pool, kNoBlock);
  CHECK(pool.now == 0);
}

TEST_CASE("the allocator has segments of 2 MiB, 20 MiB, and of the size of large tensors") {
  CachingAllocator a;
  const SegmentPart small = allocate(a, kMiB, MemoryStream::Compute);
  CHECK(a.reserved == 2 * kMiB);
  const SegmentPart large = allocate(a, 2 * kMiB, MemoryStream::Compute);
  CHECK(a.reserved == 22 * kMiB);
  const SegmentPart own = allocate(a, 19 * kMiB + 1, MemoryStream::Compute);
  CHECK(a.reserved == 42 * kMiB);
  const SegmentPart rest = allocate(a, 18 * kMiB, MemoryStream::Compute);  // of the first 20 MiB
  CHECK(a.reserved == 42 * kMiB);
  for (const SegmentPart part : {small, large, own, rest}) release(a, part);
  const SegmentPart joined = allocate(a, 20 * kMiB, MemoryStream::Compute);
  CHECK(a.reserved == 42 * kMiB);
  release(a, joined);
}

TEST_CASE("streams share no segment") {
  CachingAllocator a;
  release(a, allocate(a, 32 * kMiB, MemoryStream::Compute));
  const SegmentPart other = allocate(a, 32 * kMiB, MemoryStream::AllGather);
  CHECK(a.reserved == 64 * kMiB);
  release(a, other);
}

TEST_CASE("freed parts that are too small cause fragmentation") {
  CachingAllocator a;
  std::vector<SegmentPart> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(allocate(a, 16 * kMiB, MemoryStream::Compute));
  for (const SegmentPart part : parts) release(a, part);
  const SegmentPart whole = allocate(a, 64 * kMiB, MemoryStream::Compute);
  CHECK(a.reserved == 128 * kMiB);
  release(a, whole);
}

}  // namespace tpplan
