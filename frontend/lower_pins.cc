// Pins: decisions of the scheduler that the author takes. The frontend checks their values and
// leaves them on the ops; whether they can be kept is the scheduler's to say.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "frontend/lower.h"

namespace tilec::frontend {

using ir::OpKind;

namespace {
constexpr int64_t kMostPinned = 64;  // stages and slots of a ring
}

// The ops that a statement became carry its pins; pins of statements inside go before.
Result<> Lowerer::PinOps(const lang::Pin& pin, int32_t first) {
  const std::string& name = pin.name.text;
  std::string mark = "pin_" + name;
  ir::AttrValue value;
  if (name == "role") {
    const auto* word =
        pin.value.valid() ? std::get_if<lang::NameExpr>(&expr(pin.value).node) : nullptr;
    if (word == nullptr) return Report(kPinValue, pin.span, name, "a name: `role = softmax`");
    value = word->name;
  } else if (name == "depth" || name == "stage") {
    if (!pin.value.valid())
      return Report(kPinValue, pin.span, name, fmt::format("a number: `{} = 2`", name));
    TRY(const int64_t number, StaticInt(pin.value, fmt::format("the pin `{}`", name)));
    const int64_t least = name == "depth" ? 1 : 0;
    if (number < least || number > kMostPinned)
      return Report(kPinValue, pin.span, name,
                    fmt::format("a number in {}..{}, not {}", least, kMostPinned, number));
    value = number;
  } else {
    return Done();
  }
  for (int32_t i = first; i < fn_.ops.size(); ++i) {
    ir::Op& op = fn_.ops[ir::OpId(i)];
    const bool load = op.kind == OpKind::kLoad;
    const bool computes = load || op.kind == OpKind::kStore || op.kind == OpKind::kDot ||
                          op.kind == OpKind::kReduce || ir::Info(op.kind).elementwise();
    const bool tile = op.results.empty() || fn_.type(op.results[0]).rank() > 0;
    const bool constant = op.kind == OpKind::kConstant;
    if ((name == "depth" ? load : computes) && tile && !constant && op.attr(mark) == nullptr)
      op.set(mark, value);
  }
  return Done();
}

}  // namespace tilec::frontend
