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

struct Needed {
  std::string_view instruction, version;
};
constexpr Needed kNeeded[] = {
#define ARCHITECTURE(name, cpu, version)
#define NEEDS_VERSION(instruction, version) {instruction, version},
#include "backend/architectures.def"
#undef ARCHITECTURE
};

// Versions have one digit before and one behind the point.
std::string_view VersionOf(const Architecture& architecture, std::string_view ptx) {
  std::string_view version = architecture.version;
  for (const Needed& needed : kNeeded)
    if (version < needed.version && ptx.find(needed.instruction) != std::string_view::npos)
      version = needed.version;
  return version;
}

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
  Replace(&ptx, ".version ", VersionOf(architecture, ptx));
  Replace(&ptx, ".target ", architecture.name);
  return ptx;
}

}  // namespace tilec::backend
