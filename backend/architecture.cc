// SPDX-License-Identifier: Apache-2.0
#include "backend/architecture.h"

#include "support/check.h"

namespace tilec::backend {

namespace {

constexpr Architecture kArchitectures[] = {
#define ARCHITECTURE(name, cpu, version) {name, cpu, version},
#include "backend/architectures.def"
#undef ARCHITECTURE
};

// The rest of the line behind `directive`, which every module has.
void Replace(std::string* ptx, std::string_view directive, std::string_view with) {
  const size_t at = ptx->find(directive);
  CHECK(at != std::string::npos, "a module without " + std::string(directive));
  const size_t from = at + directive.size(), end = ptx->find('\n', from);
  ptx->replace(from, end - from, with);
}

}  // namespace

const Architecture* ArchitectureOf(std::string_view name) {
  for (const Architecture& architecture : kArchitectures)
    if (architecture.name == name) return &architecture;
  return nullptr;
}

std::string Labelled(const Architecture& architecture, std::string ptx) {
  Replace(&ptx, ".version ", architecture.version);
  Replace(&ptx, ".target ", architecture.name);
  return ptx;
}

}  // namespace tilec::backend
