#include "report/render_answer.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "base/text.h"

namespace tpplan {
namespace {

constexpr double kPercent = 100;

// Returns the fit to measured steps, and how far it is from each of them.
std::string residual_lines(const PrintedStepTime& answer) {
  if (answer.residuals.empty()) return {};
  std::string out = fmt::format(" fitted to {}: efficiency of matmuls x {:.3f}, of attention x {:.3f}\n",
                                counted(answer.residuals.size(), "measured step"), answer.scale[0], answer.scale[1]);
  for (const MeasuredResidual& entry : answer.residuals)
    out += fmt::format("  {}: measured {}, computed {}, {:+.1f} %\n", escape_for_terminal(entry.run),
                       human_seconds(entry.measured), human_seconds(entry.predicted),
                       (entry.predicted / entry.measured - 1) * kPercent);
  return out;
}

}  // namespace

std::string render_answer(const PrintedStepTime& answer, const Topology& topology, const TerminalStyle& look) {
  const std::string& machine = topology.name.empty() ? topology.device : topology.name;
  std::string out = paint(fmt::format("time of a {} step, rank 0{}{}", answer.kind, machine.empty() ? "" : " on ",
                                      escape_for_terminal(machine)),
                          kBold, look.color) +
                    '\n';
  for (const TimeTerm& term : answer.step.terms) {
    std::string line = fmt::format(" {:<26}{:>10}{:>6.1f} %  {}", term.name, human_seconds(term.seconds),
                                   term.seconds / answer.step.seconds * kPercent, term.formula);
    if (line.size() > look.width) line = line.substr(0, look.width - 3) + "...";
    out += line + '\n';
  }
  out += fmt::format(" {:<26}{:>10}\n", "together", human_seconds(answer.step.seconds));
  out += fmt::format(" four of five such steps take {} to {}\n", human_seconds(answer.interval.low),
                     human_seconds(answer.interval.high));
  out += fmt::format(" most uncertain: {}, {:.1f} % of the step\n", to_text(answer.interval.widest),
                     (std::exp(answer.interval.widest_change) - 1) * kPercent);
  return out + residual_lines(answer);
}

void write_answer(JsonWriter& json, const PrintedStepTime& answer) {
  next_line(json, 1);
  write_key(json, "step");
  begin_object(json);
  write_field(json, "kind", answer.kind);
  write_exact_field(json, "seconds", answer.step.seconds);
  write_key(json, "interval");
  write_array(json, std::array{answer.interval.low, answer.interval.high},
              [&](double bound) { write_exact(json, bound); });
  write_field(json, "widest_assumption", to_text(answer.interval.widest));
  write_exact_field(json, "matmul_scale", answer.scale[0]);
  write_exact_field(json, "attention_scale", answer.scale[1]);
  write_key(json, "measured");
  write_array(json, answer.residuals, [&](const MeasuredResidual& entry) {
    begin_object(json);
    write_field(json, "run", entry.run);
    write_exact_field(json, "seconds", entry.measured);
    write_exact_field(json, "predicted", entry.predicted);
    end_object(json);
  });
  end_object(json);
  next_line(json, 1);
  write_key(json, "terms");
  write_array(json, answer.step.terms, [&](const TimeTerm& term) {
    begin_object(json);
    write_field(json, "name", term.name);
    write_exact_field(json, "seconds", term.seconds);
    write_field(json, "formula", term.formula);
    end_object(json);
  });
}

}  // namespace tpplan
