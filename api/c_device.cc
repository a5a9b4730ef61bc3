// The C interface: thin words around the C++ one. No exception leaves it: what can throw here is
// allocation only, which ends the process as everywhere else.
//
// This part needs no compiler: errors, devices, arguments.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/c_handles.h"
#include "api/diagnostics.h"
#include "api/status.h"

namespace {

static_assert(TILEC_E5M2 == static_cast<int>(tilec::DType::kE5M2));
static_assert(TILEC_BF16 == static_cast<int>(tilec::DType::kBF16));
static_assert(TILEC_NOTE == static_cast<int>(tilec::Problem::Kind::kNote));
static_assert(TILEC_ERROR == static_cast<int>(tilec::Problem::Kind::kError));

static_assert(TILEC_TENSOR == static_cast<int>(tilec::Parameter::Kind::kTensor));
static_assert(TILEC_TUNE == static_cast<int>(tilec::Parameter::Kind::kTune));

}  // namespace

namespace tilec::api {

ParameterTable::ParameterTable(std::vector<Parameter> of) : texts(std::move(of)) {
  for (const Parameter& p : texts) {
    dims.emplace_back();
    for (const std::string& d : p.dims) dims.back().push_back(d.c_str());
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const Parameter& p = texts[i];
    parameters.push_back({static_cast<tilec_parameter_kind>(p.kind), p.is_static ? 1 : 0,
                          p.name.c_str(), p.dtype.c_str(), p.direction.c_str(),
                          p.default_value.c_str(), dims[i].size(), dims[i].data()});
  }
}

tilec_status* Give(const Status& status) {
  if (status.ok()) return nullptr;
  return new tilec_status{status, status.text()};
}

tilec_status* Null(const char* what) {
  DiagSink diags;
  diags.Report(kNullArgument, Span{}, what);
  return Give(MakeStatus(diags, SourceMap()));
}

}  // namespace tilec::api

using tilec::api::Give;
using tilec::api::Null;

extern "C" {

const char* tilec_version(void) { return tilec::Version(); }

const char* tilec_status_text(const tilec_status* s) { return s ? s->text.c_str() : ""; }
size_t tilec_status_count(const tilec_status* s) { return s ? s->status.problems().size() : 0; }
const char* tilec_status_code(const tilec_status* s, size_t i) {
  return i < tilec_status_count(s) ? s->status.problems()[i].code.c_str() : "";
}
const char* tilec_status_message(const tilec_status* s, size_t i) {
  return i < tilec_status_count(s) ? s->status.problems()[i].message.c_str() : "";
}
tilec_problem_kind tilec_status_kind(const tilec_status* s, size_t i) {
  return i < tilec_status_count(s) ? static_cast<tilec_problem_kind>(s->status.problems()[i].kind)
                                   : TILEC_NOTE;
}
const char* tilec_status_file(const tilec_status* s, size_t i) {
  return i < tilec_status_count(s) ? s->status.problems()[i].file.c_str() : "";
}
int32_t tilec_status_line(const tilec_status* s, size_t i) {
  return i < tilec_status_count(s) ? s->status.problems()[i].line : 0;
}
int32_t tilec_status_column(const tilec_status* s, size_t i) {
  return i < tilec_status_count(s) ? s->status.problems()[i].column : 0;
}
const char* tilec_status_problem(const tilec_status* s, size_t i) {
  return i < tilec_status_count(s) ? s->status.problems()[i].text.c_str() : "";
}
void tilec_status_free(tilec_status* s) { delete s; }

tilec_status* tilec_device_open(const char* name, tilec_device** device) {
  if (!device) return Null("device");
  auto opened = tilec::Device::Open(name ? name : "auto");
  if (!opened.ok()) return Give(opened.status());
  const std::string description = opened->description();
  const std::string kind = opened->kind(), target = opened->target();
  *device = new tilec_device{*std::move(opened), description, kind, target};
  return nullptr;
}
void tilec_device_free(tilec_device* device) { delete device; }
const char* tilec_device_description(const tilec_device* device) {
  return device ? device->description.c_str() : "";
}
const char* tilec_device_kind(const tilec_device* device) {
  return device ? device->kind.c_str() : "";
}
const char* tilec_device_target(const tilec_device* device) {
  return device ? device->target.c_str() : "";
}
tilec_status* tilec_device_alloc(tilec_device* device, uint64_t bytes, uint64_t* address) {
  if (!device || !address) return Null(device ? "address" : "device");
  const auto allocated = device->device.Alloc(bytes);
  if (!allocated.ok()) return Give(allocated.status());
  *address = *allocated;
  return nullptr;
}
void tilec_device_release(tilec_device* device, uint64_t address) {
  if (device) device->device.Free(address);
}
tilec_status* tilec_device_copy_in(tilec_device* device, uint64_t to, const void* from,
                                   uint64_t bytes) {
  if (!device || (!from && bytes)) return Null(device ? "from" : "device");
  return Give(device->device.CopyIn(to, from, bytes));
}
tilec_status* tilec_device_copy_out(tilec_device* device, void* to, uint64_t from, uint64_t bytes) {
  if (!device || (!to && bytes)) return Null(device ? "to" : "device");
  return Give(device->device.CopyOut(to, from, bytes));
}
tilec_status* tilec_device_fill(tilec_device* device, uint64_t to, uint8_t byte, uint64_t bytes) {
  return device ? Give(device->device.Fill(to, byte, bytes)) : Null("device");
}
tilec_status* tilec_device_new_stream(tilec_device* device, int32_t* stream) {
  if (!device || !stream) return Null(device ? "stream" : "device");
  const auto made = device->device.NewStream();
  if (!made.ok()) return Give(made.status());
  *stream = *made;
  return nullptr;
}
tilec_status* tilec_device_adopt_stream(tilec_device* device, void* cuda_stream, int32_t* stream) {
  if (!device || !stream) return Null(device ? "stream" : "device");
  const auto adopted = device->device.AdoptStream(cuda_stream);
  if (!adopted.ok()) return Give(adopted.status());
  *stream = *adopted;
  return nullptr;
}
tilec_status* tilec_device_synchronize(tilec_device* device, int32_t stream) {
  return device ? Give(device->device.Synchronize(stream)) : Null("device");
}

tilec_status* tilec_bound_launch(const tilec_bound* bound, int32_t stream) {
  return bound ? Give(bound->bound.Launch(stream)) : Null("bound");
}
tilec_status* tilec_bound_launch_at(const tilec_bound* bound, const uint64_t* addresses,
                                    size_t count, int32_t stream) {
  if (!bound || (!addresses && count)) return Null(bound ? "addresses" : "bound");
  return Give(bound->bound.LaunchAt(addresses, count, stream));
}
size_t tilec_bound_count(const tilec_bound* bound) { return bound ? bound->tensors.size() : 0; }
const char* tilec_bound_tensor(const tilec_bound* bound, size_t i) {
  return i < tilec_bound_count(bound) ? bound->tensors[i].c_str() : "";
}
void tilec_bound_free(tilec_bound* bound) { delete bound; }

tilec_status* tilec_graph_create(tilec_device* device, tilec_graph** graph) {
  if (!device || !graph) return Null(device ? "graph" : "device");
  *graph = new tilec_graph{tilec::Graph::On(device->device)};
  return nullptr;
}
tilec_status* tilec_graph_add(tilec_graph* graph, const tilec_bound* bound, size_t* number) {
  if (!graph || !bound) return Null(graph ? "bound" : "graph");
  const auto added = graph->graph.Add(bound->bound);
  if (!added.ok()) return Give(added.status());
  if (number) *number = *added;
  return nullptr;
}
tilec_status* tilec_graph_move(tilec_graph* graph, size_t number, const uint64_t* addresses,
                               size_t count) {
  if (!graph || (!addresses && count)) return Null(graph ? "addresses" : "graph");
  return Give(graph->graph.MoveTo(number, addresses, count));
}
tilec_status* tilec_graph_launch(tilec_graph* graph, int32_t stream) {
  return graph ? Give(graph->graph.Launch(stream)) : Null("graph");
}
void tilec_graph_free(tilec_graph* graph) { delete graph; }

tilec_args* tilec_args_create(void) { return new tilec_args(); }
void tilec_args_free(tilec_args* args) { delete args; }
void tilec_args_tensor(tilec_args* args, const char* name, tilec_dtype dtype, uint64_t data,
                       int32_t rank, const int64_t* dims, const int64_t* strides) {
  if (!args || !name) return;
  tilec::Tensor t;
  t.dtype = static_cast<tilec::DType>(dtype);
  t.data = data;
  constexpr int32_t kMostDims = 64;  // beyond what any kernel has
  if (dims && rank > 0 && rank <= kMostDims) t.dims.assign(dims, dims + rank);
  if (strides && rank > 0 && rank <= kMostDims) t.strides.assign(strides, strides + rank);
  args->args.Set(name, std::move(t));
}
void tilec_args_int(tilec_args* args, const char* name, int64_t value) {
  if (args && name) args->args.Set(name, value);
}
void tilec_args_float(tilec_args* args, const char* name, double value) {
  if (args && name) args->args.Set(name, value);
}
void tilec_args_bool(tilec_args* args, const char* name, int value) {
  if (args && name) args->args.Set(name, value != 0);
}

}  // extern "C"
