// Warnings about declared layouts that DTensors override.
#pragma once

namespace tpplan {

struct Walk;

// Reports TP5126 for each rule that declares another layout than the DTensor has that comes in, and lists these values
// if they are requested. DTensor.from_local is called for plain tensors only (torch 2.13, style.py, _prepare_input_fn).
void report_overridden_layouts(Walk& walk);

}  // namespace tpplan
