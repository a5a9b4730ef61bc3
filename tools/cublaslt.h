// cuBLASLt as a peer of `tilec bench`: found at run time, no header and no library needed to build.
// Its launches go to the default stream of the device's primary context.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/launch.h"
#include "support/diag.h"
#include "tools/product.h"

namespace tilec::tools {

class CublasLt {
 public:
  virtual ~CublasLt() = default;
  virtual std::string version() const = 0;
  // Enqueues C = A · B of `product` on these tensors. Algorithm choice is made by the library once
  // per shape, with a workspace of 64 MiB.
  virtual Result<> Launch(const Product& product, const runtime::LaunchArgs& args,
                          DiagSink& diags) = 0;
};

// C723 if the library is not found or refuses.
Result<std::unique_ptr<CublasLt>> LoadCublasLt(runtime::Device& device, DiagSink& diags);

}  // namespace tilec::tools
