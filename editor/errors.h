// Numbers of the protocol by which a request fails, and the document that a request is about.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "editor/json.h"

namespace tilec::editor {

// JSON-RPC 2.0 and LSP 3.17, "Base protocol", ErrorCodes.
constexpr int kParseError = -32700;
constexpr int kInvalidRequest = -32600;
constexpr int kMethodNotFound = -32601;
constexpr int kInvalidParams = -32602;
constexpr int kNotInitialized = -32002;
constexpr int kRequestFailed = -32803;

inline std::string UriIn(const Json& params) { return Text(At(params, "textDocument"), "uri"); }

}  // namespace tilec::editor
