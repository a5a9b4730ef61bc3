// How to launch a PTX entry, as a file: `tilec check kernel.ptx --launch=FILE` (docs/checking.md).
// TOML: extents, buffers, tensor maps, the arguments in order, and what must come out.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/call.h"
#include "ir/type.h"
#include "runtime/device.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::tools {

struct LaunchBuffer {
  std::string name;
  ir::DType type = ir::DType::kF32;
  std::vector<int64_t> dims;    // outermost first, dense
  std::string fill = "random";  // random, zero, nan
  std::string file;             // .npy in its place
  uint64_t seed = 0;
};

struct LaunchMap {
  std::string name;
  size_t buffer = 0;
  std::vector<int64_t> dims, box;  // outermost first; dims default to the buffer's
  int swizzle = 0;
  bool fill_nan = false;
};

struct LaunchArgument {
  enum class Kind { kBuffer, kMap, kBytes };
  Kind kind = Kind::kBytes;
  size_t index = 0;
  int64_t offset = 0;  // bytes into the buffer
  std::vector<uint8_t> bytes;
};

struct LaunchExpect {
  std::string buffer, file;  // an array that must come out
  double tolerance = 0;      // relative to value and root mean square
};

struct LaunchFile {
  std::string path;
  std::string entry;  // "": the only one
  runtime::LaunchConfig config;
  std::vector<LaunchBuffer> buffers;
  std::vector<LaunchMap> maps;
  std::vector<LaunchArgument> arguments;
  std::vector<LaunchExpect> expects;
  // A kernel of the language that says what must come out.
  std::string reference;                       // "FILE:KERNEL"
  std::map<std::string, std::string> tensors;  // its tensor → buffer
  api::Given values;

  int FindBuffer(std::string_view name) const;
};

Result<LaunchFile> ReadLaunchFile(const std::string& path, DiagSink& diags);
Result<LaunchFile> ParseLaunchFile(const std::string& path, const std::string& text,
                                   DiagSink& diags);

}  // namespace tilec::tools
