// Interpretation with every element either judged by a bound that says something, or undecided.
//
// Why: worst-case bounds add up what cancels in practice. Through five dependent products, or
// sixteen projections in a row, they exceed the values by orders of magnitude, and a comparison
// against such a bound cannot fail. So an element is decided only by a bound of at most a quarter
// of |v| + rms v (the measure of a test's `~ t`), found in one of two ways:
//
//   1. The worst-case bound of the run itself, if it is that small.
//   2. Else, of floating-point elements that depend on no jump: the kernel runs `samples` times
//      more, every op's result moved at random within the op's own bound and then rounded
//      (Monte Carlo arithmetic: D. S. Parker, "Monte Carlo arithmetic: exploiting randomness in
//      floating-point arithmetic", UCLA CSD-970002, 1997). The bound is kSampleFactor times the
//      larger of the element's largest deviation and the rms of all such deviations of the tensor,
//      and an ulp of the element at least: near a tie an executor may round to the other side where
//      no sample did.
//
// What neither decides is undecided: no digit of it is determined by the program. A sampled bound
// is an estimate, not a proof, and is reported under its own name.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/interpret_sample.h"

#include <algorithm>
#include <cmath>

#include "ir/interpret_internal.h"

namespace tilec::ir {
namespace interpret_internal {
namespace {

// The largest of 4 deviations falls short of an executor's by more than this once in far more than
// 2^32 elements, for deviations that are normally distributed.
constexpr double kSampleFactor = 8;
constexpr double kVague = 0.25;

// The scale a bound is measured by: rms of the finite, decided elements.
double Rms(const TensorValue& t) {
  double sum = 0;
  int64_t n = 0;
  for (size_t i = 0; i < t.v.size(); ++i) {
    if (!std::isfinite(t.v[i])) continue;
    if (!t.undecided.empty() && (t.undecided[i] & kJump)) continue;
    sum += t.v[i] * t.v[i];
    ++n;
  }
  return n > 0 ? std::sqrt(sum / static_cast<double>(n)) : 0;
}

// One tensor that the kernel wrote, on its way from flags to decisions.
struct Output {
  std::string name;
  TensorValue* value = nullptr;
  std::vector<size_t> asked;      // elements that sampling is to decide
  std::vector<double> deviation;  // of them, the largest so far
  double rms = 0;

  uint8_t Flags(size_t i) const { return value->undecided.empty() ? 0 : value->undecided[i]; }
  // A tensor of zeros has no scale: every finite bound stands.
  bool Vague(size_t i, double e) const {
    return rms > 0 && !(e <= kVague * (std::fabs(value->v[i]) + rms));
  }
  void Ask() {
    rms = Rms(*value);
    for (size_t i = 0; i < value->v.size(); ++i) {
      const uint8_t flags = Flags(i);
      const double e = value->e.empty() ? 0 : value->e[i];
      if ((flags & kJump) || !std::isfinite(value->v[i])) continue;
      if (!(flags & kUnbounded) && !Vague(i, e)) continue;
      if (value->undecided.empty()) value->undecided.assign(value->v.size(), 0);
      value->undecided[i] |= kUnbounded;
      if (!(flags & kCovers)) asked.push_back(i);
    }
    deviation.assign(asked.size(), 0);
  }
  void Look(const TensorValue& sample) {
    for (size_t k = 0; k < asked.size(); ++k) {
      const double d = std::fabs(sample.v[asked[k]] - value->v[asked[k]]);
      deviation[k] = std::isfinite(d) ? std::max(deviation[k], d) : INFINITY;
    }
  }
  // Returns how many elements are decided now.
  int64_t Decide() {
    double sum = 0;
    int64_t n = 0, decided = 0;
    for (double d : deviation) {
      if (!std::isfinite(d)) continue;
      sum += d * d;
      ++n;
    }
    const double usual = n > 0 ? std::sqrt(sum / static_cast<double>(n)) : 0;
    for (size_t k = 0; k < asked.size(); ++k) {
      const size_t i = asked[k];
      const FloatFormat& format = FormatOf(value->dtype);
      const double deviates = kSampleFactor * std::max(deviation[k], usual);
      const double size = std::fabs(value->v[i]);
      const double e = std::max(deviates, 2 * HalfUlp(format, size + deviates));
      if (!std::isfinite(e) || Vague(i, e)) continue;
      if (size + e > format.max_finite) continue;  // or infinite
      if (value->e.empty()) value->e.assign(value->v.size(), 0.0f);
      if (value->sampled.empty()) value->sampled.assign(value->v.size(), 0);
      value->e[i] = Up(e);
      value->undecided[i] = 0;
      value->sampled[i] = 1;
      ++decided;
    }
    return decided;
  }
};

// Flags become 0 and 1.
void Settle(TensorValue& t) {
  for (uint8_t& flags : t.undecided) flags = (flags & kUndecided) != 0;
  if (std::find(t.undecided.begin(), t.undecided.end(), uint8_t{1}) == t.undecided.end())
    t.undecided.clear();
}

std::vector<const Param*> Written(const Function& fn) {
  std::vector<const Param*> out;
  for (const Param& p : fn.params)
    if (p.kind == ParamKind::kTensor && p.direction != Direction::kIn) out.push_back(&p);
  return out;
}

// The kernel once more, perturbed; tensors that are only read are lent and come back. A run that
// fails (an assert that hangs on a rounding) says nothing about any element.
void Sample(const Function& fn, InterpretInputs& inputs, const InterpretInputs& start,
            const InterpretOptions& options, uint64_t seed, std::vector<Output>& outputs) {
  InterpretInputs again = start;
  for (auto& [name, tensor] : inputs.tensors)
    if (!start.tensors.count(name)) again.tensors[name] = std::move(tensor);
  DiagSink quiet;
  const bool ok = RunOnce(fn, again, options, seed, quiet).ok();
  for (auto& [name, tensor] : inputs.tensors)
    if (!start.tensors.count(name)) tensor = std::move(again.tensors[name]);
  for (Output& o : outputs) {
    if (ok)
      o.Look(again.tensors[o.name]);
    else
      o.deviation.assign(o.asked.size(), INFINITY);
  }
}

}  // namespace
}  // namespace interpret_internal

Result<InterpretReport> Interpret(const Function& fn, InterpretInputs& inputs,
                                  const InterpretOptions& options, DiagSink& diags) {
  using namespace interpret_internal;
  InterpretInputs start{{}, inputs.scalars, inputs.dims};
  for (const Param* p : Written(fn)) {
    const auto at = inputs.tensors.find(p->name);
    if (at != inputs.tensors.end() && options.samples > 0) start.tensors[p->name] = at->second;
  }
  TRY(InterpretReport report, RunOnce(fn, inputs, options, 0, diags));
  std::vector<Output> outputs;
  bool asked = false;
  for (const Param* p : Written(fn)) {
    Output& o = outputs.emplace_back();
    o.name = p->name;
    o.value = &inputs.tensors[p->name];
    if (options.samples > 0) o.Ask();
    asked |= !o.asked.empty();
  }
  if (asked) {
    // An absent tensor of zeros was made by the first run.
    for (const Output& o : outputs)
      if (!start.tensors.count(o.name))
        start.tensors[o.name] = TensorValue::Zeros(o.value->dtype, o.value->dims);
    for (int s = 1; s <= options.samples; ++s)
      Sample(fn, inputs, start, options, static_cast<uint64_t>(s), outputs);
    for (Output& o : outputs) report.sampled += o.Decide();
  }
  for (auto& [name, tensor] : inputs.tensors) Settle(tensor);
  return report;
}

}  // namespace tilec::ir
