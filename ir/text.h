// Textual IR: any function at either level prints, and what was printed parses back to a function
// that prints the same. Crash bundles, golden tests and --print-after rest on this.
//
//   func @scale tile {
//     param tensor %A: tensor<f32, 1> in [N] align=16 stride_align=1 contiguous=1
//     param tensor %C: tensor<f32, 1> out [N] align=16 stride_align=1 contiguous=1
//     param dim %N: i64
//     static B = 64
//     body {
//       %0 = constant {value = 0} : i64
//       parallel %0, %N {steps = [64]} do (%i: i64) {
//         %1 = load %A, %i {modes = "r", sizes = [64]} : f32[64]
//         %2 = constant {value = 64} : i64
//         …
//       }
//     }
//   }
//
// Ids are not part of the text: the parser numbers ops and values in the order it meets them.
// `//` starts a comment; with PrintOptions::sources each op carries its .tile place in one.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/function.h"
#include "support/diag.h"
#include "support/source.h"

namespace tilec::ir {

struct PrintOptions {
  const SourceMap* sources = nullptr;  // given: a comment with the .tile place after each op
};

std::string Print(const Function& fn, const PrintOptions& options = {});
std::string Print(const Module& module, const PrintOptions& options = {});
// The op alone, without its regions, named as Print names its values. Never fails, even on an op
// the verifier rejects.
std::string PrintOp(const Function& fn, OpId op);

// Names of values as printed, without the %. Reachable values are numbered in print order unless
// they carry a hint; hints that repeat get a suffix.
class ValueNames {
 public:
  explicit ValueNames(const Function& fn);
  std::string operator[](ValueId v) const;

 private:
  void Visit(const Function& fn, BlockId block, int depth);
  void Assign(ValueId v, const std::string& hint);
  std::vector<std::string> names_;
  std::set<std::string> taken_;
  int next_number_ = 0;
};

// `file`: the id of `text` in the caller's SourceMap, so that diagnostics show a caret and ops
// carry spans into the IR text; −1: places are given in words.
Result<Module> ParseModule(std::string_view text, DiagSink& diags, int32_t file = -1);
// Exactly one function.
Result<Function> ParseFunction(std::string_view text, DiagSink& diags, int32_t file = -1);

}  // namespace tilec::ir
