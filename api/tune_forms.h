// Points of a kernel's tunes that its author tried.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "api/descent.h"
#include "api/pipeline.h"

namespace tilec::api {

// The default, and of a tune of two values, which says how the kernel is written, the defaults of
// the others beside the other value.
std::set<Point> FormPoints(const Loaded& loaded, const std::string& kernel, const Call& call,
                           const std::vector<Axis>& axes);

}  // namespace tilec::api
