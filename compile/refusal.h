// Why a step of the compiler gives no product: which resource the strategy asked for, how much of
// it, how much there is. The search over strategies decides by these values alone; what a
// diagnostic says is for people.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "support/source.h"

namespace tilec::compile {

// The steps of the line, in order.
enum class Stage : uint8_t { kShape, kSchedule, kLower, kWorth, kProve };

enum class Resource : uint8_t {
  kForm,                 // the program has not the form that the step needs
  kSchedule,             // a schedule from a file is at fault itself
  kPlan,                 // a plan from a file is at fault itself
  kRegisters,            // of a thread, for tiles
  kRegistersOfProducts,  // of a thread, beside tiles, for many products
  kSharedMemory,         // of a CTA
  kRoles,                // compute roles
  kSlots,                // of rings that run ahead
  kProof,                // states or steps of the proof
};

struct Refusal {
  Stage stage = Stage::kLower;
  Resource resource = Resource::kForm;
  int64_t needed = 0, available = 0;  // in the resource's unit; both 0: it has no amount
  Span op;                            // what asks for it, where that is known
  std::string why;                    // for people
};

const char* NameOf(Stage stage);
const char* NameOf(Resource resource);
// "lowering: registers of products: 264 needed, 240 available: role `compute` of …"
std::string ToText(const Refusal& refusal);

}  // namespace tilec::compile
