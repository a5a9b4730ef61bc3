// Which CTAs copy for each other: neighbours along either range of the grid, two or four of them,
// of whole tiles or of the same part of a tile's loop. Where rows begin amid lines it is lines that
// SMs wait for, and what neighbours have in common is asked for once.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "scheduler/form_times.h"
#include "scheduler/split_forms.h"

namespace tilec::scheduler {

struct SharingTime {
  SharedCopies how;
  KernelTime time;
};

// The best that takes less than `ms`, by split_margin; pairs along the first range are left
// out: they are known to whoever asks.
std::optional<SharingTime> MoreNeighbours(KeptForms& forms, FormTimes& model, double ms);
// Parts of a tile's loop, and a second launch.
std::optional<SharingTime> PartsOfNeighbours(KeptForms& forms, FormTimes& model, double ms);

}  // namespace tilec::scheduler
