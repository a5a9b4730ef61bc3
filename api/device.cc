// The public Device: a handle on a runtime device.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/device_state.h"
#include "api/diagnostics.h"
#include "api/open_device.h"
#include "api/status.h"

namespace tilec {

namespace {

constexpr int kDTypes = 19;
constexpr struct {
  const char* name;
  int bytes;
} kDTypeRows[kDTypes] = {{"bool", 1}, {"i8", 1},     {"i16", 2},   {"i32", 4},  {"i64", 8},
                         {"u8", 1},   {"u16", 2},    {"u32", 4},   {"u64", 8},  {"f16", 2},
                         {"bf16", 2}, {"tf32", 4},   {"f32", 4},   {"f64", 8},  {"e4m3", 1},
                         {"e5m2", 1}, {"e2m1x2", 1}, {"ue8m0", 1}, {"ue4m3", 1}};

}  // namespace

const char* Name(DType dtype) {
  const int i = static_cast<int>(dtype);
  return i < kDTypes ? kDTypeRows[i].name : "?";
}
int Bytes(DType dtype) {
  const int i = static_cast<int>(dtype);
  return i < kDTypes ? kDTypeRows[i].bytes : 0;
}

const char* Version() { return TILEC_VERSION; }

namespace api {

Status MakeStatus(const DiagSink& diags, const SourceMap& sources) {
  std::vector<Problem> problems;
  for (const Diagnostic& d : diags.all()) {
    Problem p;
    switch (d.def->severity) {
      case Severity::kError: p.kind = Problem::Kind::kError; break;
      case Severity::kWarning: p.kind = Problem::Kind::kWarning; break;
      case Severity::kNote: p.kind = Problem::Kind::kNote; break;
    }
    p.code = d.def->code;
    p.message = d.message;
    if (d.span.known()) {
      const LineCol at = sources.Locate(d.span.file, d.span.begin);
      p.file = sources.path(d.span.file);
      p.line = at.line;
      p.column = at.column;
    }
    p.text = Render(d, sources);
    problems.push_back(std::move(p));
  }
  return Status(!diags.has_errors(), std::move(problems));
}

}  // namespace api

Expected<Device> Device::Open(const std::string& name) {
  DiagSink diags;
  auto opened = api::OpenDevice(name, {}, "", nullptr, diags);
  if (!opened.ok()) return api::MakeStatus(diags);
  auto state = std::make_shared<DeviceState>();
  state->device = std::move(*opened);
  return Device(std::move(state));
}

std::string Device::kind() const { return state_->device->kind(); }
std::string Device::description() const { return state_->device->description(); }
std::string Device::target() const { return state_->device->isa(); }

Expected<uint64_t> Device::Alloc(uint64_t bytes) {
  DiagSink diags;
  const auto address = state_->device->Alloc(bytes, diags);
  if (!address.ok()) return api::MakeStatus(diags);
  return *address;
}
void Device::Free(uint64_t address) { state_->device->Free(address); }
Status Device::CopyIn(uint64_t to, const void* from, uint64_t bytes) {
  DiagSink diags;
  (void)state_->device->CopyIn(to, from, bytes, diags).ok();
  return api::MakeStatus(diags);
}
Status Device::CopyOut(void* to, uint64_t from, uint64_t bytes) {
  DiagSink diags;
  (void)state_->device->CopyOut(to, from, bytes, diags).ok();
  return api::MakeStatus(diags);
}
Status Device::Fill(uint64_t to, uint8_t byte, uint64_t bytes) {
  DiagSink diags;
  (void)state_->device->Fill(to, byte, bytes, diags).ok();
  return api::MakeStatus(diags);
}
Expected<Stream> Device::NewStream() {
  DiagSink diags;
  const auto stream = state_->device->NewStream(diags);
  if (!stream.ok()) return api::MakeStatus(diags);
  return *stream;
}
Expected<Stream> Device::AdoptStream(void* cuda_stream) {
  if (const auto stream = state_->device->AdoptStream(cuda_stream)) return *stream;
  DiagSink diags;
  diags.Report(api::kNoAdoption, Span{}, kind());
  return api::MakeStatus(diags);
}
Status Device::Synchronize(Stream stream) {
  DiagSink diags;
  (void)state_->device->Synchronize(stream, diags).ok();
  return api::MakeStatus(diags);
}

}  // namespace tilec
