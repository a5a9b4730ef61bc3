// What a C program includes and compiles beside a bundle: a header with a function for each kernel,
// whose parameters are the kernel's, and a source that links the bundle's bytes into the program.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "frontend/frontend.h"
#include "runtime/bundle.h"

namespace tilec::tools {

// `name` as an identifier of C: other characters become `_`.
std::string IdentifierOf(const std::string& name);

// A function KERNEL_launch for each signature. Dims, scalars and constants are parameters, but not
// what has one value in all builds of the kernel. With `embedded`, NAME_open gives the bundle that
// EmbeddedSource links in.
std::string BundleHeader(const std::string& name, bool embedded,
                         const std::vector<frontend::Signature>& kernels,
                         const runtime::Bundle& bundle);

// A C source that holds the bytes of the file `path` and defines NAME_open.
std::string EmbeddedSource(const std::string& name, const std::string& path);

}  // namespace tilec::tools
