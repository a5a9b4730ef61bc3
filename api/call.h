// One call of a kernel, as the compiler and the launcher want to see it: what a caller gave by
// name, sorted by what the signature calls each name, converted to its type, with dims worked out.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontend/frontend.h"
#include "runtime/launch.h"
#include "scheduler/copy_lines.h"
#include "support/diag.h"

namespace tilec::api {

// Values by name, not yet sorted: bool, integer or floating point.
using Given = frontend::Values;
using Tensors = std::map<std::string, runtime::TensorView>;

// A signature as the runtime wants it.
struct RuntimeSignature {
  std::string kernel;
  std::vector<backend::TensorArg> tensors;
  std::vector<backend::ScalarArg> scalars;
  runtime::SignatureView View(const Bindings* statics) const {
    return {kernel, &tensors, &scalars, statics};
  }
};
RuntimeSignature ForRuntime(const frontend::Signature& signature);

struct Call {
  runtime::LaunchArgs launch;  // tensors and runtime scalars
  frontend::Values statics;    // static dims, given consts and tunes: what Specialize needs
  frontend::Values all;        // dims and scalars too: what facts range over
  std::map<std::string, ir::TensorFacts> facts;
  // Where rows of the tensors begin.
  scheduler::RowStarts row_starts;
  // Chosen for the sizes of this call (api/split.h): CTAs that share the iterations of a tile and
  // whether neighbours copy for each other.
  int64_t split = 1;
  int64_t pack = 1;  // instances whose rows are one tile
  bool share_copies = false;
  bool stays = false;  // CTAs walk over tiles of unequal length, however long that takes to prove
  std::string schedule =
      {};  // that was measured to be best (api/measure.h); "": as the options say
};

// Sorts and converts the values; every name must be one of the signature's. Defaults of scalars are
// filled in, defaults of consts and tunes are left to the front end.
Result<frontend::Values> CheckValues(const frontend::Signature& signature, const Given& given,
                                     DiagSink& diags);

// `v` as a value of `dtype`; nullopt if it is none.
std::optional<frontend::ConstValue> Convert(ir::DType dtype, const frontend::ConstValue& v);
// What values of a name are converted to: dims and tunes are integers, a tune may also be what its
// default is.
ir::DType TypeOf(const frontend::Signature& signature, const std::string& name);
// As a launch takes it; nullopt: it is no number.
std::optional<runtime::ScalarValue> ForLaunch(const frontend::ConstValue& v);

// A power of two of bytes, up to a line, at whose multiples rows begin.
int64_t RowStart(const runtime::TensorView& view, ir::DType dtype);
int64_t RowStart(std::span<const int64_t> dims, std::span<const int64_t> steps, ir::DType dtype);

// Where rows of the tensors that are read begin, if these are contiguous. Of dims that are not
// given nothing is known: at whole lines.
scheduler::RowStarts RowStartsOf(const frontend::Signature& signature,
                                 const frontend::Values& values);

// Dims and scalars of `values`, which a launch takes; the others are compiled in.
void PutInLaunch(const frontend::Signature& signature, const frontend::Values& values,
                 runtime::LaunchArgs* launch);

// Binds dims, checks tensors and facts. `values` come from CheckValues.
Result<Call> BindCall(const frontend::Program& program, const frontend::Signature& signature,
                      const RuntimeSignature& runtime_signature, const frontend::Values& values,
                      Tensors tensors, DiagSink& diags);

// The shape of every tensor from given dims and the shapes of the tensors that exist already.
Result<std::map<std::string, std::vector<int64_t>>> InferShapes(
    const frontend::Signature& signature, const frontend::Values& values, const Tensors& existing,
    DiagSink& diags);

}  // namespace tilec::api
