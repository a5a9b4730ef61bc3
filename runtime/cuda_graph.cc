// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda_graph.h"

#include <algorithm>
#include <mutex>

#include "runtime/diagnostics.h"

namespace tilec::runtime::cuda {

namespace {

class Current {
 public:
  explicit Current(const GraphOwner& o) : api_(*o.api) { api_.cuCtxPushCurrent(o.context); }
  ~Current() {
    CUcontext popped = nullptr;
    api_.cuCtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Api& api_;
};

class CudaGraph final : public LaunchGraph {
 public:
  explicit CudaGraph(GraphOwner owner) : owner_(std::move(owner)) {}
  ~CudaGraph() override {
    const Current current(owner_);
    if (exec_) owner_.api->cuGraphExecDestroy(exec_);
    if (graph_) owner_.api->cuGraphDestroy(graph_);
  }

  Result<> Add(const Module& module, const std::string& entry, const LaunchConfig& config,
               const std::vector<KernelArg>& args, DiagSink& diags) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const Current current(owner_);
    if (!graph_) TRY_VOID(Ok(owner_.api->cuGraphCreate(&graph_, 0), "cuGraphCreate", diags));
    Node node;
    node.config = config;
    TRY(node.function, owner_.function(module, entry, config, diags));
    node.args = args;
    Packed packed(node);
    const CUgraphNode* after = nodes_.empty() ? nullptr : &nodes_.back().handle;
    TRY_VOID(Ok(owner_.api->cuGraphAddKernelNode(&node.handle, graph_, after, nodes_.size() ? 1 : 0,
                                                 &packed.params),
                "cuGraphAddKernelNode", diags));
    if (config.cluster[0] * config.cluster[1] * config.cluster[2] > 1) {
      CUlaunchAttribute a = {};
      a.value.cluster = {config.cluster[0], config.cluster[1], config.cluster[2]};
      TRY_VOID(
          Ok(owner_.api->cuGraphKernelNodeSetAttribute(node.handle, kClusterDimension, &a.value),
             "cuGraphKernelNodeSetAttribute(CLUSTER_DIMENSION)", diags));
    }
    nodes_.push_back(std::move(node));
    if (exec_) owner_.api->cuGraphExecDestroy(exec_);  // it is of the shorter graph
    exec_ = nullptr;
    return Done();
  }

  Result<> Replace(size_t number, const std::vector<KernelArg>& args, DiagSink& diags) override {
    std::lock_guard<std::mutex> lock(mutex_);
    Node& node = nodes_[number];
    node.args = args;
    if (!exec_) return Done();
    return SetParams(node, diags);
  }

  Result<> Run(StreamId id, DiagSink& diags) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (nodes_.empty()) return Done();
    TRY(const CUstream stream, owner_.stream(id, diags));
    const Current current(owner_);
    if (!exec_) {
      TRY_VOID(Ok(owner_.api->cuGraphInstantiate(&exec_, graph_, 0), "cuGraphInstantiate", diags));
      for (Node& node : nodes_) TRY_VOID(SetParams(node, diags));  // replaced before it was made
    }
    return Ok(owner_.api->cuGraphLaunch(exec_, stream), "cuGraphLaunch", diags);
  }

 private:
  struct Node {
    CUgraphNode handle = nullptr;
    CUfunction function = nullptr;
    LaunchConfig config;
    std::vector<KernelArg> args;
  };
  // A node's parameters as the driver takes them; it copies what they point to.
  struct Packed {
    explicit Packed(Node& node) : storage(node.args.size()) {
      for (size_t i = 0; i < node.args.size(); ++i) {
        const std::vector<uint8_t>& bytes = node.args[i].bytes;
        std::copy_n(bytes.begin(), std::min(bytes.size(), sizeof(TensorMap)), storage[i].bytes);
        pointers.push_back(storage[i].bytes);
      }
      const LaunchConfig& c = node.config;
      params = {node.function,   c.grid[0],  c.grid[1],  c.grid[2],
                c.block[0],      c.block[1], c.block[2], static_cast<uint32_t>(c.smem_bytes),
                pointers.data(), nullptr,    nullptr,    nullptr};
    }
    std::vector<TensorMap> storage;  // of the largest argument
    std::vector<void*> pointers;
    CUkernelNodeParams params;
  };

  Result<> SetParams(Node& node, DiagSink& diags) {
    const Current current(owner_);
    Packed packed(node);
    return Ok(owner_.api->cuGraphExecKernelNodeSetParams(exec_, node.handle, &packed.params),
              "cuGraphExecKernelNodeSetParams", diags);
  }

  Result<> Ok(CUresult r, const char* call, DiagSink& diags) const {
    if (r == kSuccess) return Done();
    return diags.Report(kDriverCall, Span{}, call, owner_.api->ErrorText(r),
                        owner_.api->ErrorName(r));
  }

  GraphOwner owner_;
  std::mutex mutex_;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
  std::vector<Node> nodes_;
};

}  // namespace

std::unique_ptr<LaunchGraph> NewCudaGraph(GraphOwner owner) {
  return std::make_unique<CudaGraph>(std::move(owner));
}

}  // namespace tilec::runtime::cuda
