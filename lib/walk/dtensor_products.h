// Products of DTensors, and tables that are looked up: which layouts torch chooses for them.
#pragma once

#include "walk/dtensor_run.h"

namespace tpplan {

// Sets the run's result and claim.

// Operands of more than two dims are viewed as matrices first, and cuts go along (at::linear, at::matmul; torch 2.13,
// _ops/_matrix_ops.py, mm and addmm). A bias is added once to a sum that stays open: each rank divides it.
void run_linear(DtensorRun& run);
void run_matmul(DtensorRun& run);

// A table whose rows are cut is looked up by whole ids, each rank for those that it has, and gives an open sum (torch
// 2.13, _ops/_embedding_ops.py, MaskPartial); one whose columns are cut gives columns.
void run_embedding(DtensorRun& run);

}  // namespace tpplan
