// Two kernels, the second of which may start while the first ends (programmatic dependent launch), in
// a graph that two streams were captured into and that is run again with other parameters. With RACE
// threads read what others of their block put into shared memory without waiting for them.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <vector>

extern "C" __global__ void reverse(const int* in, int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
#ifndef RACE
  __syncthreads();
#endif
  out[blockIdx.x * 128 + threadIdx.x] = tile[127 - threadIdx.x];
  asm volatile("griddepcontrol.launch_dependents;");
}

extern "C" __global__ void add(const int* in, int* out, int what) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int i = blockIdx.x * 128 + threadIdx.x;
  out[i] = in[i] + what;
}

#ifndef KERNELS_ONLY
#define CHECK(call)                                                                  \
  do {                                                                               \
    const cudaError_t e = call;                                                      \
    if (e != cudaSuccess) return printf("%s: %s\n", #call, cudaGetErrorString(e)), 1; \
  } while (0)

int main() {
  const int n = 512;
  std::vector<int> in(n), out(n);
  for (int i = 0; i < n; ++i) in[i] = i * 3;
  int *a, *b, *c, *d;
  for (int** p : {&a, &b, &c, &d}) CHECK(cudaMalloc(p, n * sizeof(int)));
  CHECK(cudaMemcpy(a, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  cudaStream_t first, second;
  cudaEvent_t fork, join;
  CHECK(cudaStreamCreate(&first));
  CHECK(cudaStreamCreate(&second));
  CHECK(cudaEventCreate(&fork));
  CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  CHECK(cudaEventRecord(fork, first));
  CHECK(cudaStreamWaitEvent(second, fork, 0));
  CHECK(cudaMemsetAsync(d, 0, n * sizeof(int), second));
  CHECK(cudaEventRecord(join, second));
  reverse<<<n / 128, 128, 0, first>>>(a, b);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(n / 128);
  config.blockDim = dim3(128);
  config.stream = first;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int what = 7;
  CHECK(cudaLaunchKernelEx(&config, add, static_cast<const int*>(b), c, what));
  CHECK(cudaStreamWaitEvent(first, join, 0));
  CHECK(cudaMemcpyAsync(d, c, n * sizeof(int), cudaMemcpyDeviceToDevice, first));
  CHECK(cudaStreamEndCapture(first, &graph));
  size_t count = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  if (count != 4) return printf("%zu nodes\n", count), 1;
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 0; round < 3; ++round) {
    CHECK(cudaGraphLaunch(exec, first));
    CHECK(cudaStreamSynchronize(first));
    CHECK(cudaMemcpy(out.data(), d, n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i)
      if (out[i] != in[i / 128 * 128 + 127 - i % 128] + what)
        return printf("wrong at %d of round %d\n", i, round), 1;
    // Another number from now on.
    std::vector<cudaGraphNode_t> nodes(count);
    CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
    for (cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type;
      CHECK(cudaGraphNodeGetType(node, &type));
      if (type != cudaGraphNodeTypeKernel) continue;
      cudaKernelNodeParams p;
      CHECK(cudaGraphKernelNodeGetParams(node, &p));
      if (p.kernelParams == nullptr || p.func == nullptr) return printf("no parameters\n"), 1;
      cudaFunction_t function;
      CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(add)));
      if (p.func != reinterpret_cast<void*>(add) && p.func != reinterpret_cast<void*>(function))
        continue;
      what = 100 + round;
      void* arguments[] = {p.kernelParams[0], p.kernelParams[1], &what};
      p.kernelParams = arguments;
      CHECK(cudaGraphExecKernelNodeSetParams(exec, node, &p));
    }
  }
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  printf("right\n");
  return 0;
}
#endif
