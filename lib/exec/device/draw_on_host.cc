#include "exec/device/draw_on_host.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

namespace tpplan {
namespace {

constexpr uint64_t kBlock = 1024;  // elements that are drawn together, so that they stay in the L1 cache
constexpr uint64_t kThreadElements = uint64_t{1} << 18;  // a thread for fewer elements costs more than it saves

#define TPPLAN_INLINE inline __attribute__((always_inline))

// Buffers for one block of elements.
struct RandomBlock {
  alignas(64) uint32_t high[kBlock], low[kBlock];  // words of the index; draw_pairs replaces them with random words
  alignas(64) uint32_t bits[kBlock];
  alignas(64) float x[kBlock], w[kBlock], value[kBlock];
  alignas(64) double wide_x[kBlock], wide_w[kBlock];
  alignas(64) unsigned char out[kBlock * 8];
};

TPPLAN_INLINE void draw_pairs(RandomBlock& b, const ThreefryKey key) {
  for (uint64_t i = 0; i < kBlock; ++i) {
    const ThreefryPair pair = threefry2x32(key, b.high[i], b.low[i]);
    b.high[i] = pair.first;
    b.low[i] = pair.second;
    b.bits[i] = pair.first ^ pair.second;
  }
}

TPPLAN_INLINE void draw_floats(RandomBlock& b, const DrawBox& box, float* value) {
  const float first = static_cast<float>(box.first), second = static_cast<float>(box.second);
  if (box.kind == DrawKind::Uniform) {
    for (uint64_t i = 0; i < kBlock; ++i) value[i] = uniform_float(b.bits[i], first, second);
    return;
  }
  for (uint64_t i = 0; i < kBlock; ++i) b.x[i] = symmetric_float(b.bits[i]);
  for (uint64_t i = 0; i < kBlock; ++i) b.w[i] = minus_log1p_square(b.x[i]);
  for (uint64_t i = 0; i < kBlock; ++i) value[i] = normal_float(b.x[i], b.w[i], first, second);
}

TPPLAN_INLINE void draw_doubles(RandomBlock& b, const DrawBox& box, double* value) {
  if (box.kind == DrawKind::Uniform) {
    for (uint64_t i = 0; i < kBlock; ++i)
      value[i] = uniform_double(bits64_of({b.high[i], b.low[i]}), box.first, box.second);
    return;
  }
  for (uint64_t i = 0; i < kBlock; ++i) b.wide_x[i] = symmetric_double(bits64_of({b.high[i], b.low[i]}));
  for (uint64_t i = 0; i < kBlock; ++i) b.wide_w[i] = minus_log1p_square(b.wide_x[i]);
  for (uint64_t i = 0; i < kBlock; ++i) value[i] = normal_double(b.wide_x[i], b.wide_w[i], box.first, box.second);
}

template <typename T>
TPPLAN_INLINE void draw_small(RandomBlock& b, const DrawBox& box, uint16_t* value) {
  const float first = static_cast<float>(box.first), second = static_cast<float>(box.second);
  if (box.kind == DrawKind::Uniform) {
    for (uint64_t i = 0; i < kBlock; ++i) value[i] = uniform_small<T>(b.bits[i], first, second).bits;
    return;
  }
  draw_floats(b, box, b.value);
  for (uint64_t i = 0; i < kBlock; ++i) value[i] = T::of(b.value[i]).bits;
}

TPPLAN_INLINE void draw_block_inline(RandomBlock& b, const DrawBox& box) {
  draw_pairs(b, box.key);
  switch (box.type) {
    case DrawType::Float32:
      return draw_floats(b, box, reinterpret_cast<float*>(b.out));
    case DrawType::Float64:
      return draw_doubles(b, box, reinterpret_cast<double*>(b.out));
    case DrawType::Bfloat16:
      return draw_small<Bfloat16>(b, box, reinterpret_cast<uint16_t*>(b.out));
    case DrawType::Float16:
      return draw_small<Half>(b, box, reinterpret_cast<uint16_t*>(b.out));
  }
}

// The generic version; processors without fma compute it in software, with the same result.
void draw_block_anywhere(RandomBlock& b, const DrawBox& box) { draw_block_inline(b, box); }
#ifdef __x86_64__
__attribute__((target("avx2,fma"))) void draw_block_avx2(RandomBlock& b, const DrawBox& box) {
  draw_block_inline(b, box);
}
__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,prefer-vector-width=512"))) void draw_block_avx512(
    RandomBlock& b, const DrawBox& box) {
  draw_block_inline(b, box);
}
#endif

using DrawBlock = void (*)(RandomBlock&, const DrawBox&);

DrawBlock fastest_draw_block() {
#ifdef __x86_64__
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
  if (avx512) return draw_block_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return draw_block_avx2;
#endif
  return draw_block_anywhere;
}

// A range of a block that is contiguous on both sides.
struct Piece {
  uint64_t to, index, count;
};

// Draws elements [begin, end) of the box in row-major order.
void draw_range(char* to, const DrawBox& box, uint64_t begin, uint64_t end) {
  static const DrawBlock draw_block = fastest_draw_block();
  const uint64_t width = box.type == DrawType::Float64 ? 8 : box.type == DrawType::Float32 ? 4 : 2;
  const auto block = std::make_unique<RandomBlock>();
  std::vector<Piece> pieces;
  for (uint64_t at = begin; at < end;) {
    uint64_t filled = 0;
    pieces.clear();
    while (filled < kBlock && at < end) {
      const uint64_t row = at / box.run, inside = at - row * box.run;
      Piece piece{.to = 0, .index = 0, .count = std::min({box.run - inside, kBlock - filled, end - at})};
      row_offsets(box, row, piece.to, piece.index);
      piece.to += inside;
      piece.index += inside;
      for (uint64_t i = 0; i < piece.count; ++i) {
        block->high[filled + i] = static_cast<uint32_t>((piece.index + i) >> 32);
        block->low[filled + i] = static_cast<uint32_t>(piece.index + i);
      }
      filled += piece.count;
      at += piece.count;
      pieces.push_back(piece);
    }
    for (uint64_t i = filled; i < kBlock; ++i) block->high[i] = block->low[i] = 0;
    draw_block(*block, box);
    uint64_t from = 0;
    for (const Piece& piece : pieces) {
      std::memcpy(to + piece.to * width, block->out + from * width, piece.count * width);
      from += piece.count;
    }
  }
}

}  // namespace

void draw_on_host(void* to, const DrawBox& box, int threads) {
  const uint64_t parts =
      std::clamp<uint64_t>(box.elements / kThreadElements, 1, static_cast<uint64_t>(std::max(threads, 1)));
  const uint64_t share = (box.elements + parts - 1) / parts;
  std::vector<std::jthread> others;
  for (uint64_t part = 1; part < parts; ++part) {
    others.emplace_back([=, &box] {
      draw_range(static_cast<char*>(to), box, part * share, std::min(box.elements, (part + 1) * share));
    });
  }
  draw_range(static_cast<char*>(to), box, 0, std::min(box.elements, share));
}

}  // namespace tpplan
