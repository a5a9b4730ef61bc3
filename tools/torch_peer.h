// PyTorch as a peer of `tilec bench`: a python3 beside us runs bench/torch_peer.py, which is built
// in, and times its launches when asked to, in its turns. Nothing of PyTorch is linked.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "runtime/launch.h"
#include "support/diag.h"
#include "tools/product.h"

namespace tilec::tools {

class TorchPeer {
 public:
  virtual ~TorchPeer() = default;
  virtual std::string version() const = 0;
  // Milliseconds per launch of so many back to back.
  virtual Result<double> Time(int launches, DiagSink& diags) = 0;
};

struct TorchRequest {
  std::string python = "python3";
  int device = 0;
  size_t sets = 1;  // of buffers
};

// C727 if there is no python3, no PyTorch or no GPU for it.
Result<std::unique_ptr<TorchPeer>> StartTorch(const Product& product,
                                              const runtime::LaunchArgs& args,
                                              const TorchRequest& request, DiagSink& diags);

}  // namespace tilec::tools
