// One kernel out of a kernel that stands for several: a copy of its syntax tree with what a choice
// says put in. The copy may go into another tree than the one it is read from.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "language/ast.h"

namespace tilec::frontend {

namespace lang = ::tilec::language;

// What one instance says about the names of its kernel.
struct KernelChoice {
  struct Fn {
    std::string callee;             // what a call of the parameter calls instead
    std::vector<std::string> more;  // parameters of the kernel that a call passes besides
  };
  std::map<std::string, std::string> dtypes;  // of type parameters
  std::map<std::string, bool> given;          // of optional tensors
  std::map<std::string, Fn> fns;              // of function parameters
  std::string suffix;                         // of the kernel's name
};

// The kernel with dtypes, functions and `given(…)` put in. Type parameters that the choice does not
// name stay, and optional tensors that it does not name stay optional.
lang::KernelItem CopyKernel(const lang::Ast& from, lang::Ast& to, const KernelChoice& choice,
                            lang::KernelItem kernel);

// A type written in one tree, in another.
void CopyType(const lang::Ast& from, lang::Ast& to, lang::TypeRef& type);

}  // namespace tilec::frontend
