// The members of a manifest: one function each.
#pragma once

#include "manifest/manifest_reader.h"

namespace tpplan {

// read_settings.cc: what a manifest repeats of its plan.
[[nodiscard]] bool read_mesh(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_uneven(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_rule(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_data(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_fsdp(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_remat(ManifestReader& reader, const JsonTree& tree);

// read_loss.cc.
[[nodiscard]] bool read_loss(ManifestReader& reader, const JsonTree& tree);

// read_params.cc. The mesh and the rules come before them, ties after.
[[nodiscard]] bool read_parameter(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_buffer(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_tie(ManifestReader& reader, const JsonTree& tree);

// read_modules.cc, read_init.cc.
[[nodiscard]] bool read_module(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_init(ManifestReader& reader, const JsonTree& tree);

// prove_sums.cc: when all is read. Every rule has one style and as many modules as it says, modules say of both their
// sides what they do there, what they send is sent in the types of their rule, and every gradient is summed over the
// axes over which the rest of the manifest leaves it open, and over no other.
[[nodiscard]] bool prove_rules(ManifestReader& reader);
[[nodiscard]] bool prove_sent_dtypes(ManifestReader& reader);
[[nodiscard]] bool prove_sides(ManifestReader& reader);
[[nodiscard]] bool prove_boundaries(ManifestReader& reader);
[[nodiscard]] bool prove_sums(ManifestReader& reader);

// prove_values.cc: when all is read. Modules do with their values what their rule says, over its axis alone; rules hold
// as many parameters of each kind as they say, and as many modules without.
[[nodiscard]] bool prove_values(ManifestReader& reader);
[[nodiscard]] bool prove_holds(ManifestReader& reader);

// read_collective.cc: one call of the forecast.
[[nodiscard]] bool read_collective(ManifestReader& reader, const JsonTree& tree);

// read_step.cc: of which step they are; prove_step looks at it when all is read.
[[nodiscard]] bool read_step(ManifestReader& reader, const JsonTree& tree);
[[nodiscard]] bool prove_step(ManifestReader& reader);

// read_costs.cc: what that step keeps in memory and computes.
[[nodiscard]] bool read_step_costs(ManifestReader& reader, const JsonTree& tree);

}  // namespace tpplan
