// Arrays in NumPy's .npy files, format versions 1.0 to 3.0.
//
// NumPy has no bf16 and no fp8: those are kept as words of the same size (u2, V2, u1, V1), and the
// kernel says what they are.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/diag.h"
#include "support/result.h"

namespace tilec::runtime {

struct NpyArray {
  std::string dtype;  // as in a kernel's signature: "f32", "bf16", …
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;  // dense, row-major, little-endian
};

// `wanted` is the kernel's dtype, which decides what 16- and 8-bit words stand for; "" takes the
// file's word. The array's dtype may still differ from it: the launch says so.
Result<NpyArray> ReadNpy(const std::string& path, const std::string& wanted, DiagSink& diags);
// The same from memory; `path` is for messages.
Result<NpyArray> ParseNpy(const std::string& path, const std::string& file,
                          const std::string& wanted, DiagSink& diags);

std::string NpyBytes(const NpyArray& array);
Result<> WriteNpy(const std::string& path, const NpyArray& array, DiagSink& diags);

}  // namespace tilec::runtime
