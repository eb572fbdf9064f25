#include "exec/run/copy_region.h"

namespace tpplan {
namespace {

// Converts elements to bytes. Returns false if they do not fill whole bytes.
bool to_bytes(uint64_t& value, unsigned bits) {
  const unsigned __int128 total = static_cast<unsigned __int128>(value) * bits;
  value = static_cast<uint64_t>(total / 8);
  return total % 8 == 0;
}

}  // namespace

bool plan_region_copy(const Region& from, const Region& to, const Region& part, unsigned bits,
                      std::vector<RegionCopy>& copies) {
  copies.clear();
  for (const HeldBox& held : boxes_of(part)) {
    BoxCopy copy = plan_copy(within(held.box, from), within(held.box, to), held.box);
    bool whole = to_bytes(copy.run, bits) && to_bytes(copy.from_offset, bits) && to_bytes(copy.to_offset, bits);
    for (uint64_t& stride : copy.from_strides) whole = to_bytes(stride, bits) && whole;
    for (uint64_t& stride : copy.to_strides) whole = to_bytes(stride, bits) && whole;
    if (!whole) return false;
    copies.push_back({.from_offset = copy.from_offset,
                      .to_offset = copy.to_offset,
                      .how = {.run_bytes = copy.run,
                              .counts = std::move(copy.counts),
                              .from_strides = std::move(copy.from_strides),
                              .to_strides = std::move(copy.to_strides)}});
  }
  return true;
}

}  // namespace tpplan
