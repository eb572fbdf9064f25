// Readers and checks of the manifest's fields, one function per field.
#pragma once

#include "manifest/manifest_reader.h"

namespace tpplan {

// read_settings.cc: settings copied from the plan.
[[nodiscard]] bool read_mesh(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_uneven(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_rule(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_data(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_fsdp(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_remat(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_local_attributes(ManifestReader& reader, const JsonTree& tree);

// read_loss.cc.
[[nodiscard]] bool read_loss(ManifestReader& reader, const JsonTree& tree);

// read_params.cc: parameters follow the mesh and the rules in the file, and ties follow the parameters.
[[nodiscard]] bool read_parameter(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_buffer(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_tie(ManifestReader& reader, const JsonTree& tree);

// read_modules.cc, read_init.cc.
[[nodiscard]] bool read_module(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_init(ManifestReader& reader, const JsonTree& tree);

// prove_reductions.cc: checks after the whole file is read.
// - prove_rules: all parameters and modules of a rule have one style, and `reason` agrees with `rule`.
// - prove_boundaries: every rule has the number of modules that it specifies.
// - prove_sent_dtypes: modules send values in the dtypes of their rule.
// - prove_both_boundaries: modules that shard their weight list both inputs and outputs.
// - prove_reductions: every gradient is reduced over exactly the axes over which it is partial.
[[nodiscard]] bool prove_rules(ManifestReader& reader);
[[nodiscard]] bool prove_sent_dtypes(ManifestReader& reader);
[[nodiscard]] bool prove_both_boundaries(ManifestReader& reader);
[[nodiscard]] bool prove_boundaries(ManifestReader& reader);
[[nodiscard]] bool prove_reductions(ManifestReader& reader);

// prove_values.cc: checks after the whole file is read.
// - prove_values: modules convert the values that their rule lists, only over the rule's axis.
// - prove_rule_counts: the numbers of parameters by kind, and of modules without parameters, match each rule's summary.
[[nodiscard]] bool prove_values(ManifestReader& reader);
[[nodiscard]] bool prove_rule_counts(ManifestReader& reader);

// read_collective.cc: one collective call of the step.
[[nodiscard]] bool read_collective(ManifestReader& reader, const JsonTree& tree);

// read_step.cc: the step to which the collective calls belong; prove_step checks it after the whole file is read.
[[nodiscard]] bool read_step(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool prove_step(ManifestReader& reader);

// read_costs.cc: memory and compute of that step.
[[nodiscard]] bool read_step_costs(ManifestReader& reader, const JsonTree& tree);

}  // namespace tpplan
