// What LLVM is asked for, and how the text is labelled, for an architecture: rows of
// backend/architectures.def.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace tilec::backend {

struct Architecture {
  std::string_view name, cpu, version;
};

// nullptr: no code is made for it.
const Architecture* ArchitectureOf(std::string_view name);

// The text with `.version` and `.target` of the architecture in place of LLVM's.
std::string Labelled(const Architecture& architecture, std::string ptx);

}  // namespace tilec::backend
