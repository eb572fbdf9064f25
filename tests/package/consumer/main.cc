// A user's program: consumer MODEL PLAN reads both files, checks and compiles them, and prints the result.
#include <tpplan/base/read_file.h>
#include <tpplan/compile.h>
#include <tpplan/judge.h>
#include <tpplan/model/read_model.h>

#include <iostream>
#include <tuple>

int main(int count, char** words) {
  if (count != 3) return 2;
  const tpplan::SourceFile model = tpplan::read_file(words[1], 1 << 30).file;
  const tpplan::SourceFile plan_file = tpplan::read_file(words[2], 1 << 30).file;
  tpplan::Diagnostics findings;
  const tpplan::ModelGraph graph = tpplan::read_model(model, findings);
  const tpplan::TpPlan plan = tpplan::read_plan(plan_file, {}, findings);
  tpplan::Checker checker = tpplan::make_checker(graph);
  if (!tpplan::has_errors(findings)) std::ignore = tpplan::check_plan(checker, plan, findings);
  for (const tpplan::Diagnostic& finding : findings.list)
    std::cout << "judged: " << tpplan::kind_of(finding.code).id << "\n";

  tpplan::Diagnostics compiled;
  const tpplan::CompileInputs inputs{
      .model = model, .plan = plan_file, .mesh_sizes = {}, .last = tpplan::Phase::Manifest, .walk = {}};
  const tpplan::Compilation compilation = tpplan::compile(inputs, compiled);
  std::cout << "compiled: " << compilation.manifest.parameters.size() << " parameters\n";
  return tpplan::exit_status(compiled);
}
