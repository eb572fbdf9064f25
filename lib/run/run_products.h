// The sharded product of every styled Linear and Embedding, forward and backward, against the unsharded one.
#pragma once

#include <cstdint>
#include <string>

#include "manifest/manifest.h"
#include "ranks/backend.h"
#include "run/list_products.h"

namespace tpplan {

// NoMemory and Packed: not run here, and nothing is wrong. The others are faults of the manifest.
enum class ProductFault : uint8_t { None, NoMemory, Packed, InputLayout, OutputLayout, GradientLayout };
[[nodiscard]] inline bool is_wrong(ProductFault fault) { return fault > ProductFault::Packed; }

// One product on one rank: elements that this rank holds, and how many differ from the unsharded product.
struct ProductResult {
  ProductFault fault = ProductFault::None;  // the same on every rank: then nothing was computed
  std::string reason;
  uint64_t elements = 0, wrong = 0;                // y
  uint64_t input_elements = 0, input_wrong = 0;    // gradient of x; none for an embedding
  uint64_t weight_elements = 0, weight_wrong = 0;  // gradient of the weight, after its grad_reduce
  double seconds = 0;                              // in the three products alone
};

// y = x W, dx = dy W', dW = x' dy in float32, on whole numbers so small that every order of summation gives the same: x
// arrives as the boundary's `from` says and is redistributed, each rank multiplies what it holds, y leaves as `to`
// says; the gradients travel back the same way, and dW through grad_reduce. Each must end in the layout that is
// promised; a sum that a boundary promises to leave open is closed by a module around it, or is a fault. The axes of
// the batch (data, FSDP) cut the sequences even where the boundary does not say so; FSDP's cut of the weight is
// gathered before. All ranks call it with the same product. False after a fault in `comm`.
[[nodiscard]] bool run_product(Comm& comm, const Manifest& manifest, const ModuleProduct& product, int64_t tokens,
                               ProductResult& result);

}  // namespace tpplan
