#include "walk/forecast.h"

#include <spdlog/fmt/fmt.h>

#include <iterator>

namespace tpplan {
namespace {

struct LimitRow {
  std::string_view text, fix, unchecked;
};

// By ForecastLimit.
constexpr LimitRow kLimits[] = {
    {"", "", ""},
    {"an error was found before the operations were walked", "fix the errors, then run again", ""},
    {"the model file has no operations",
     "export the model with its operations: python -m tpplan.export --transformers NAME --batch B --sequence S -o "
     "model.json",
     "operations, gradients and collectives"},
    {"a step of this plan fails", "fix the errors, then run again", ""},
    {"the model has an operation without a sharding rule", "add a rule, as `tpplan explain TP5114` shows",
     "operations that use its result, gradients and collectives"},
    {"JAX and Keras compute on global arrays, so a sharding changes no value, and their compiler (GSPMD) chooses the "
     "collectives",
     "export the model with its program: python -m tpplan.export --jax NAME (or --keras NAME) --batch B --sequence S "
     "-o model.json",
     "operations, gradients and collectives"},
    {"they were traced for another runtime", "leave out `--runtime`, or trace them with this runtime",
     "operations, gradients and collectives"},
    {"the operations are those of a forward pass under jax.shard_map",
     "pass `--mode infer` to check the forward pass only", "gradients and collectives of the backward pass"},
    {"the collectives are those that XLA inserts into the recorded program, not calls of the ranks", "", ""},
};

static_assert(std::size(kLimits) == static_cast<size_t>(ForecastLimit::Compiled) + 1);

}  // namespace

std::string_view to_text(ForecastLimit limit) { return kLimits[static_cast<size_t>(limit)].text; }
std::string_view fix_of(ForecastLimit limit) { return kLimits[static_cast<size_t>(limit)].fix; }
std::string_view unchecked_by(ForecastLimit limit) { return kLimits[static_cast<size_t>(limit)].unchecked; }

std::string unchecked_text(ForecastLimit limit) {
  if (unchecked_by(limit).empty()) return {};
  return fmt::format("{} were not checked: {}; {}", unchecked_by(limit), to_text(limit), fix_of(limit));
}

}  // namespace tpplan
