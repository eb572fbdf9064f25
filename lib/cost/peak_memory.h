// The peak memory of rank 0 in a training step, and what it consists of at that moment.
#pragma once

#include <span>

#include "cost/measure_training.h"
#include "cost/memory_pool.h"
#include "manifest/manifest.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "topology/run.h"
#include "walk/state/step_trace.h"

namespace tpplan {

// Replays one step as torch runs it: FSDP2 with its default prefetch, DDP over other data axes, checkpointing of
// layers, and an optimizer whose states exist. Returns the tensors that are alive at the peak; they are counted as
// torch's MemTracker counts them, without memory inside of kernels. `units` are the modules that FSDP gathers, `remat`
// those that the plan recomputes. Without a trace the result has no `peak`.
// `log` receives the memory over the step: its first span ends where the forward pass begins.
[[nodiscard]] TrainingMemory measure_peak(const StepTrace& trace, const ModelGraph& model, const TpPlan& plan,
                                          const Manifest& manifest, const Run& run, std::span<const ModuleId> units,
                                          std::span<const ModuleId> remat, MemoryLog* log = nullptr);

// Returns what the caching allocator holds if `active` bytes are alive at the peak. It grows with them.
[[nodiscard]] uint64_t reserved_bytes_for(uint64_t active);
// Returns the most bytes that can be alive if the allocator holds at most `reserved` bytes.
[[nodiscard]] uint64_t active_bytes_within(uint64_t reserved);

}  // namespace tpplan
