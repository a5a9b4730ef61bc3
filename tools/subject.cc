// SPDX-License-Identifier: Apache-2.0
#include "tools/subject.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/npy.h"
#include "tools/diagnostics.h"
#include "tools/runner.h"

namespace tilec::tools {

namespace {

class FromKernel : public Subject {
 public:
  FromKernel(Session& session, std::string kernel, const Assignments& given, Images* images)
      : session_(session) {
    request_.images = images ? images : &images_;
    name_ = kernel;
    reference_ = "the interpreter";
    request_.kernel = std::move(kernel);
    request_.values = given.values;
    request_.files = given.files;
    request_.seed = session.options().seed;
  }
  Result<> Interpret() {
    TRY(RunResult result, RunKernel(session_, request_));
    for (auto& [name, value] : result.outputs) expected_[name] = {std::move(value), -1};
    return Done();
  }
  // What the call gives its tensors, for this and every later run.
  void Take(const frontend::TestCallInfo& call) {
    for (const auto& [name, input] : call.inputs) {
      if (input.kind == frontend::TestInput::Kind::kFile)
        request_.files[name] = input.file;
      else
        request_.inputs[name] = input;
    }
  }
  Result<RunResult> Test(const frontend::TestCallInfo& call, runtime::Device& device) {
    Take(call);
    if (call.seed) request_.seed = static_cast<uint64_t>(*call.seed);
    RunRequest request = request_;
    request.device = &device;
    request.check = request.keep_reference = true;
    request.tolerance = call.tolerance.value_or(-1);
    request.expect = call.expect;
    TRY(RunResult result, RunKernel(session_, request));
    for (auto& [name, value] : result.reference) expected_[name] = {std::move(value), -1};
    return result;
  }
  Result<Outcome> Run(runtime::Device& device) override {
    RunRequest request = request_;
    request.device = &device;
    request.rewrite = rewrite_;
    TRY(RunResult result, RunKernel(session_, request));
    return Outcome{std::move(result.outputs), std::move(result.stats)};
  }

 private:
  Session& session_;
  RunRequest request_;
  Images images_;
};

class FromPtx : public Subject {
 public:
  FromPtx(Session& session, std::string name, std::string ptx, LaunchFile launch)
      : session_(session), ptx_(std::move(ptx)), launch_(std::move(launch)) {
    name_ = std::move(name);
  }

  Result<> Prepare() {
    for (const LaunchBuffer& b : launch_.buffers) {
      TRY(ir::TensorValue value, Fill(b));
      bytes_.push_back(value.ToBytes());
      values_.push_back(std::move(value));
    }
    for (const LaunchExpect& e : launch_.expects) {
      const LaunchBuffer& b = launch_.buffers[Index(e.buffer)];
      TRY(ir::TensorValue value, Load(b, e.file));
      expected_[e.buffer] = {std::move(value), e.tolerance};
      reference_ = e.file;
    }
    if (launch_.reference.empty()) return Done();
    return Reference();
  }

  Result<Outcome> Run(runtime::Device& device) override {
    DiagSink& diags = session_.diags();
    runtime::LoadOptions options;
    options.name = name_;
    TRY(const std::unique_ptr<runtime::Module> module,
        device.Load(rewrite_ ? rewrite_(ptx_) : ptx_, options, diags));
    TRY(const std::string entry, Entry(*module));
    std::vector<runtime::DeviceAddress> at;
    struct Freer {
      runtime::Device& device;
      std::vector<runtime::DeviceAddress>& all;
      ~Freer() {
        for (runtime::DeviceAddress a : all) device.Free(a);
      }
    } freer{device, at};
    for (const std::vector<std::byte>& bytes : bytes_) {
      TRY(const runtime::DeviceAddress a, device.Alloc(bytes.size(), diags));
      at.push_back(a);
      TRY_VOID(device.CopyIn(a, bytes.data(), bytes.size(), diags));
    }
    std::vector<runtime::KernelArg> arguments;
    for (const LaunchArgument& a : launch_.arguments) {
      runtime::KernelArg argument{a.bytes};
      if (a.kind == LaunchArgument::Kind::kBuffer)
        argument = runtime::KernelArg::Of(at[a.index] + static_cast<uint64_t>(a.offset));
      if (a.kind == LaunchArgument::Kind::kMap) {
        TRY(const runtime::TensorMap map, Encode(device, launch_.maps[a.index], at));
        argument = runtime::KernelArg::Of(map);
      }
      arguments.push_back(std::move(argument));
    }
    Outcome outcome;
    TRY_VOID(device.Launch(*module, entry, launch_.config, arguments, 0, &outcome.stats, diags));
    for (size_t k = 0; k < at.size(); ++k) {
      const LaunchBuffer& b = launch_.buffers[k];
      std::vector<std::byte> bytes(bytes_[k].size());
      TRY_VOID(device.CopyOut(bytes.data(), at[k], bytes.size(), diags));
      outcome.outputs[b.name] = ir::TensorValue::FromBytes(b.type, b.dims, bytes);
    }
    return outcome;
  }

 private:
  size_t Index(const std::string& buffer) const {
    return static_cast<size_t>(launch_.FindBuffer(buffer));
  }

  Result<ir::TensorValue> Load(const LaunchBuffer& b, const std::string& file) {
    // Names in a launch file are relative to it.
    std::string path = file;
    const size_t slash = launch_.path.rfind('/');
    if (!file.empty() && file[0] != '/' && slash != std::string::npos)
      path = launch_.path.substr(0, slash + 1) + file;
    TRY(const runtime::NpyArray array,
        runtime::ReadNpy(path, ir::Spelling(b.type), session_.diags()));
    if (array.dtype != ir::Spelling(b.type) || array.dims != b.dims)
      return session_.diags()
          .Report(kLaunchFile, Span{},
                  fmt::format("`{}` holds {}[{}], buffer `{}` is {}[{}]", path, array.dtype,
                              fmt::join(array.dims, ", "), b.name, ir::Spelling(b.type),
                              fmt::join(b.dims, ", ")))
          .Place(launch_.path);
    return ir::TensorValue::FromBytes(b.type, b.dims, std::as_bytes(std::span(array.bytes)));
  }

  Result<ir::TensorValue> Fill(const LaunchBuffer& b) {
    if (!b.file.empty()) return Load(b, b.file);
    if (b.fill == "random") return ir::TensorValue::Random(b.type, b.dims, b.seed);
    ir::TensorValue value = ir::TensorValue::Zeros(b.type, b.dims);
    if (b.fill == "nan")
      std::fill(value.v.begin(), value.v.end(), std::numeric_limits<double>::quiet_NaN());
    return value;
  }

  Result<> Reference() {
    TRY(const std::string kernel, session_.LoadKernel(launch_.reference));
    RunRequest request;
    request.kernel = kernel;
    request.values = launch_.values;
    for (const auto& [tensor, buffer] : launch_.tensors)
      request.tensors[tensor] = values_[Index(buffer)];
    TRY(RunResult result, RunKernel(session_, request));
    for (auto& [name, value] : result.outputs) {
      const auto at = launch_.tensors.find(name);
      if (at != launch_.tensors.end()) expected_[at->second] = {std::move(value), -1};
    }
    reference_ = launch_.reference;
    return Done();
  }

  Result<std::string> Entry(const runtime::Module& module) {
    const std::vector<std::string> all = module.entries();
    if (!launch_.entry.empty()) return launch_.entry;
    if (all.size() == 1) return all[0];
    return session_.diags()
        .Report(kLaunchFile, Span{},
                fmt::format("`{}` has {} entries: {}", name_, all.size(), fmt::join(all, ", ")))
        .Place(launch_.path)
        .Help("name one: entry = \"…\"");
  }

  Result<runtime::TensorMap> Encode(runtime::Device& device, const LaunchMap& m,
                                    const std::vector<runtime::DeviceAddress>& at) {
    const LaunchBuffer& b = launch_.buffers[m.buffer];
    runtime::TensorMapDesc desc;
    desc.dtype = ir::Spelling(b.type);
    desc.base = at[m.buffer];
    desc.swizzle_bytes = m.swizzle;
    desc.fill_nan = m.fill_nan;
    uint64_t stride = static_cast<uint64_t>(ir::ByteSize(b.type));
    for (size_t k = m.dims.size(); k-- > 0;) {
      desc.dims.push_back(static_cast<uint64_t>(m.dims[k]));
      desc.box.push_back(static_cast<uint32_t>(m.box[k]));
      stride *= static_cast<uint64_t>(m.dims[k]);
      if (k > 0) desc.strides_bytes.push_back(stride);
    }
    return device.EncodeTensorMap(desc, session_.diags());
  }

  Session& session_;
  std::string ptx_;
  LaunchFile launch_;
  std::vector<ir::TensorValue> values_;
  std::vector<std::vector<std::byte>> bytes_;
};

}  // namespace

Result<std::unique_ptr<Subject>> KernelSubject(Session& session, const std::string& kernel,
                                               const Assignments& given, Images* images) {
  auto subject = std::make_unique<FromKernel>(session, kernel, given, images);
  TRY_VOID(subject->Interpret());
  return std::unique_ptr<Subject>(std::move(subject));
}

Result<std::unique_ptr<Subject>> TestSubject(Session& session, const frontend::TestCallInfo& call,
                                             runtime::Device& device, Images* images,
                                             RunResult* tested) {
  Assignments given;
  given.values = call.args;
  auto subject = std::make_unique<FromKernel>(session, call.kernel, given, images);
  TRY(*tested, subject->Test(call, device));
  return std::unique_ptr<Subject>(std::move(subject));
}

Result<std::unique_ptr<Subject>> PtxSubject(Session& session, const std::string& name,
                                            const std::string& ptx, const LaunchFile& launch) {
  auto subject = std::make_unique<FromPtx>(session, name, ptx, launch);
  TRY_VOID(subject->Prepare());
  return std::unique_ptr<Subject>(std::move(subject));
}

}  // namespace tilec::tools
