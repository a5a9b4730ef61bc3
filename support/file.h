// Whole files in and out, with the reason in words when it does not work. Directories, pipes and
// files beyond a size limit are refused instead of read.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tilec {

inline constexpr uint64_t kMaxFileBytes = uint64_t{64} << 30;

bool ReadFile(const std::string& path, std::string* bytes, std::string* why,
              uint64_t max_bytes = kMaxFileBytes);
// Readers of `path` see the old file or the whole new one, never a part: written beside it and
// renamed.
bool WriteFileAtomically(const std::string& path, std::string_view bytes, std::string* why);

}  // namespace tilec
