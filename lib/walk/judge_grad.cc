#include "walk/judge_grad.h"

#include <spdlog/fmt/fmt.h>

#include "walk/list_operations.h"
#include "walk/redistribute_grad.h"
#include "walk/report_cause.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

bool claims_open(const Grad& grad) { return grad.has_claim && open_mask(grad.claim) != 0; }

enum class Verdict : uint8_t { Complete, Open, KnownOpen, Mixed, Wrong };

Verdict verdict_of(const Grad& grad) {
  GradState state{};
  const bool one = uniform(grad, state);
  if (grad.state == kWrongGrad) return Verdict::Wrong;
  if (!one) return Verdict::Mixed;
  if (!is_open(state)) return Verdict::Complete;
  return claims_open(grad) ? Verdict::KnownOpen : Verdict::Open;
}

// By Verdict.
constexpr std::string_view kVerdicts[] = {"complete", "a term of an open sum", "a term of an open sum, and known to be",
                                          "complete in one part, a term of an open sum in another", "wrong"};
static_assert(std::size(kVerdicts) == static_cast<size_t>(Verdict::Wrong) + 1);

// Sets why the gradient is wrong. False where it is right.
bool find_cause(const Backward& b, const Grad& grad, Verdict verdict, const std::string& name, Cause& cause) {
  const Walk& walk = b.walk;
  switch (verdict) {
    case Verdict::Wrong:
      if (grad.cause == kNoId) return true;
      cause = walk.causes[grad.cause];
      cause.layouts = fmt::format("first seen in the gradient of `{}`", name);
      return true;
    case Verdict::Mixed:
      cause.reason =
          fmt::format("the gradient of `{}` is complete in one part and a term of an open sum in another", name);
      return true;
    case Verdict::Complete: {
      GradState state{};
      if (!claims_open(grad) || !uniform(grad, state) || state != kComplete) return false;
      cause.code = Code::TP5112;
      cause.reason =
          fmt::format("the gradient of `{}` is complete on every rank, and is taken for a term of a sum over {} ranks",
                      name, walk.ranks);
      return true;
    }
    case Verdict::Open:
      cause.reason = fmt::format("each of {} ranks has only its part of the gradient of `{}`, and nobody sums it",
                                 walk.ranks, name);
      return true;
    case Verdict::KnownOpen:
      return false;
  }
  return false;
}

}  // namespace

void judge_grad(Backward& b, ParamId id, SlotId slot, bool report_findings) {
  Walk& walk = b.walk;
  Grad grad = b.grads[slot];
  if (is_none(grad)) return;
  const Param& param = walk.model.params[id];
  TapeEntry entry{.kind = TapeKind::SumGradient, .module = param.module, .rule = walk.matches.params[id].rule};
  if (const RuleId sums = walk.sum_rule[walk.value_of_param[id]]; sums != kNoRule) {
    entry.rule = sums;
    record_grad_call(b, entry, {.kind = CollectiveKind::AllReduce, .axis = 0}, layout_of(walk, slot), slot);
    if (!claims_open(grad)) grad = close_sum(b, entry, std::move(grad), 0);
  }
  const Verdict verdict = verdict_of(grad);
  list_gradient(walk, id, kVerdicts[static_cast<size_t>(verdict)]);
  if (!report_findings) return;
  Cause cause{.code = Code::TP5111,
              .reason = {},
              .op = {},
              .module = param.module,
              .rule = entry.rule,
              .partner = grad.rule,
              .layouts = {}};
  if (find_cause(b, grad, verdict, path_of(walk.model, param), cause)) report_cause(walk, cause, "gradient");
}

}  // namespace tpplan
