// bench/torch_peer.py as text, made at build time by embed_script.cmake.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tilec::tools {

extern const char* const kTorchScript;

}  // namespace tilec::tools
