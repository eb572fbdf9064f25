#include "cost/memory_pool.h"

#include <doctest/doctest.h>

#include "cost/peak_memory.h"

namespace tpplan {
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

TEST_CASE("a logged step has the memory of any number of ranks that shard a parameter") {
  // A parameter of 3 x 1000 elements: its shard of 4 bytes an element, and all shards of 2 bytes an element.
  MemoryLog log;
  log.counts = {{.elements = 3000, .rows = 3, .is_gathered = false, .parts = {}},
                {.elements = 0, .rows = 0, .is_gathered = true, .parts = {0}}};
  const auto run = [&](int64_t ranks, MemoryLog* logged) {
    MemoryPool pool;
    pool.log = logged;
    const auto shard = [&](uint32_t count, double each, UnitBuffer buffer) {
      const uint64_t bytes = shard_bytes(elements_at(log, count, ranks), each);
      return allocate(pool, bytes, TensorUse::Gathered, {count, each, buffer});
    };
    const BlockId own = shard(0, 4, UnitBuffer::None), fixed = allocate(pool, 5000, TensorUse::Saved),
                  gathered = shard(1, 2, UnitBuffer::Gathered);
    release(pool, fixed);
    if (logged != nullptr) {
      logged->spans.push_back({StepPhase::Forward, -1, pool.peak, pool.now});
      end_logged_span(pool);
    }
    release(pool, gathered);
    release(pool, own);
    return pool.peak;
  };
  MemoryLog logged = log;
  const uint64_t peak = run(2, &logged);
  CHECK(peak_of(stages_at(logged, 2)) == peak);
  for (const int64_t ranks : {1, 2, 3, 4, 7}) CHECK(peak_of(stages_at(logged, ranks)) == run(ranks, nullptr));
}

TEST_CASE("what the caching allocator reserves grows with what is alive") {
  for (const uint64_t active : {1, 2 << 20, (2 << 20) + 1, 20 << 20, (20 << 20) + 1, 77 << 20}) {
    const uint64_t reserved = reserved_bytes_for(active);
    CHECK(reserved >= active);
    CHECK(active_bytes_within(reserved) >= active);
    CHECK(reserved_bytes_for(active_bytes_within(reserved)) == reserved);
    CHECK(active_bytes_within(reserved - 1) < active);
  }
}

}  // namespace tpplan
