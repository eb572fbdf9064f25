#include "walk/backward/check_grad.h"

#include <spdlog/fmt/fmt.h>

#include "walk/backward/redistribute_grad.h"
#include "walk/report/list_operations.h"
#include "walk/report/report_cause.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

bool is_declared_partial(const Grad& grad) { return grad.has_declared && partial_mask(grad.declared) != 0; }

enum class Verdict : uint8_t { Complete, Partial, KnownPartial, Mixed, Wrong };

Verdict verdict_of(const Grad& grad) {
  GradState state{};
  const bool one = has_uniform_state(grad, state);
  if (grad.state == kWrongGrad) return Verdict::Wrong;
  if (!one) return Verdict::Mixed;
  if (!is_partial(state)) return Verdict::Complete;
  return is_declared_partial(grad) ? Verdict::KnownPartial : Verdict::Partial;
}

// By Verdict.
constexpr std::string_view kVerdicts[] = {"full", "partial", "partial, declared Partial",
                                          "full in one part, partial in another", "wrong"};
static_assert(std::size(kVerdicts) == static_cast<size_t>(Verdict::Wrong) + 1);

// Sets why the gradient is wrong. Returns false if it is right.
bool find_cause(const Backward& b, const Grad& grad, Verdict verdict, const std::string& name, Cause& cause) {
  const Walk& walk = b.walk;
  switch (verdict) {
    case Verdict::Wrong:
      if (grad.cause == kNoId) return true;
      cause = walk.out.causes[grad.cause];
      cause.layouts = fmt::format("first seen in the gradient of `{}`", name);
      return true;
    case Verdict::Mixed:
      cause.reason = fmt::format(
          "the gradient of `{}` is full in one part and partial in another: no reduction is right for both", name);
      return true;
    case Verdict::Complete: {
      GradState state{};
      if (!is_declared_partial(grad) || !has_uniform_state(grad, state) || state != kComplete) return false;
      cause.code = Code::ReplicatedGradientReduced;
      cause.reason = fmt::format("the gradient of `{}` is full on every rank, but is declared Partial over {} ranks",
                                 name, walk.in.ranks);
      return true;
    }
    case Verdict::Partial:
      cause.reason = fmt::format("each of {} ranks has only a partial gradient of `{}`, and it is never all-reduced",
                                 walk.in.ranks, name);
      return true;
    case Verdict::KnownPartial:
      return false;
  }
  return false;
}

}  // namespace

void check_grad(Backward& b, ParamId id, SlotId slot, bool is_reporting) {
  Walk& walk = b.walk;
  Grad grad = b.grads[slot];
  if (has_no_grad(grad)) return;
  const Param& param = walk.in.model.params[id];
  TapeEntry entry{.kind = TapeKind::SumGradient, .module = param.module, .rule = walk.in.matches.params[id].rule};
  if (const RuleId sums = walk.memory.sum_rule[walk.memory.value_of_param[id]]; sums != kNoRule) {
    entry.rule = sums;
    append_grad_call(b, entry, {.kind = CollectiveKind::AllReduce, .axis = 0}, layout_of(walk, slot), slot);
    if (!is_declared_partial(grad)) grad = reduce_partial(b, entry, std::move(grad), 0);
  }
  const Verdict verdict = verdict_of(grad);
  list_gradient(walk, id, kVerdicts[static_cast<size_t>(verdict)]);
  if (!is_reporting) return;
  Cause cause{.code = Code::GradientNotReduced,
              .reason = {},
              .op = {},
              .module = param.module,
              .rule = entry.rule,
              .partner = grad.rule,
              .layouts = {}};
  const std::string path = path_of(walk.in.model, param);
  if (!find_cause(b, grad, verdict, path, cause)) return;
  cause.parameter = path;
  report_cause(walk, cause, FirstFailure::Gradient);
}

}  // namespace tpplan
