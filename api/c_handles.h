// What the handles of the C interface stand for, and how a Status becomes one of its own. Shared by
// the parts of that interface: devices and arguments, the compiler, bundles. Private to api/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "include/tilec/tilec.h"
#include "include/tilec/tilec_c.h"

struct tilec_status {
  tilec::Status status;
  std::string text;
};
struct tilec_device {
  tilec::Device device;
  std::string description, kind, target;
};
struct tilec_args {
  tilec::Args args;
};
struct tilec_bound {
  tilec::Bound bound;
  std::vector<std::string> tensors = bound.tensors();
};
struct tilec_graph {
  tilec::Graph graph;
};

namespace tilec::api {

// The texts of a signature as C reads them: `parameters` points into what stands before it, so that
// it is never copied.
struct ParameterTable {
  explicit ParameterTable(std::vector<Parameter> of);
  ParameterTable(const ParameterTable&) = delete;
  ParameterTable& operator=(const ParameterTable&) = delete;
  const tilec_parameter* At(size_t i) const {
    return i < parameters.size() ? &parameters[i] : nullptr;
  }
  std::vector<Parameter> texts;
  std::vector<std::vector<const char*>> dims;
  std::vector<tilec_parameter> parameters;
};

// NULL for success.
tilec_status* Give(const Status& status);
// `what` must not be NULL.
tilec_status* Null(const char* what);

template <typename T, typename Handle>
tilec_status* Hand(Expected<T> value, Handle** out) {
  if (!value.ok()) return Give(value.status());
  *out = new Handle{*std::move(value)};
  return nullptr;
}

}  // namespace tilec::api

// The functions of the C interface stand in no namespace.
using tilec::api::Give;
using tilec::api::Hand;
using tilec::api::Null;
