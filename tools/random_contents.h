// What tensors of integers and bools hold while kernels are timed: random numbers that their use
// allows.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/measure.h"

namespace tilec::tools {

class Session;

// All three outlive it.
api::ContentsOf RandomContents(Session& session, const frontend::Signature& signature,
                               const api::Call& call);

}  // namespace tilec::tools
