// The kernels of caught.cu on a GPU, for tools that watch programs there (scripts/compute_sanitizer):
//
//   caught_host ENTRY             launches it once, as the emulator's test does
//   caught_host ENTRY LAUNCHES    launches it so often, and says how often its output was not that
//                                 of the mended kernel
//
// A wait is given up after a second, so that a mistake which is a hang ends, too: every `while` of
// caught.cu is one with a clock. The lines of caught.cu stay what they are.
//
// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>
#include <cuda_pipeline.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda/ptx>
#include <string>
#include <vector>

__device__ int gGivenUp;
__device__ inline bool InTime(unsigned long long* began) {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  if (*began == 0) *began = now;
  if (now - *began < 1000000000ull) return true;
  gGivenUp = 1;
  return false;
}
#define while(condition) for (unsigned long long began = 0; (condition) && InTime(&began);)
#include "../caught.cu"
#undef while

struct Entry {
  const char* name;
  void (*bad)(float*, float*, float*, int);
  void (*mended)(float*, float*, float*, int);
};
#define ENTRY(name) {#name, bad_##name, name}
static const Entry kEntries[] = {
    ENTRY(store_without_fence),       ENTRY(arrive_of_cta_scope),
    ENTRY(load_over_reads),           ENTRY(ring_waits_for_one_less),
    ENTRY(barrier_memory_reused),     ENTRY(two_inits),
    ENTRY(multicast_expected_by_one), ENTRY(exit_before_peer),
    ENTRY(multicast_over_peer_reads), ENTRY(partial_warp_barrier),
    ENTRY(loop_without_back_barrier), ENTRY(copies_synced_by_warp),
    ENTRY(barrier_without_wait),      ENTRY(epilogue_over_copies),
    ENTRY(turn_without_fence),        ENTRY(warp_reduce_without_sync),
    ENTRY(word_reused_in_loop),       ENTRY(barrier_in_branch),
    ENTRY(empty_counts_one_cta),      ENTRY(stage_released_before_products)};

#define CHECK(call)                                                                  \
  do {                                                                               \
    const cudaError_t e = call;                                                      \
    if (e != cudaSuccess) printf("%s: %s\n", #call, cudaGetErrorString(e)), exit(1); \
  } while (0)

constexpr int kN = 512;

// As tests/corpus/run.cc fills them.
static std::vector<float> Input(uint32_t seed) {
  std::vector<float> v(kN);
  for (float& x : v) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<float>(seed >> 8) * 0x1p-23f - 1;
  }
  return v;
}

struct Memory {
  float* at[3];
  Memory() {
    for (int k = 0; k < 3; ++k) {
      CHECK(cudaMalloc(&at[k], kN * sizeof(float)));
      const std::vector<float> v = k < 2 ? Input(k + 1) : std::vector<float>(kN);
      CHECK(cudaMemcpy(at[k], v.data(), kN * sizeof(float), cudaMemcpyHostToDevice));
    }
  }
  std::vector<float> Run(void (*kernel)(float*, float*, float*, int)) {
    std::vector<float> v(kN);
    CHECK(cudaMemcpy(at[2], v.data(), kN * sizeof(float), cudaMemcpyHostToDevice));
    kernel<<<4, 128>>>(at[0], at[1], at[2], kN);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(v.data(), at[2], kN * sizeof(float), cudaMemcpyDeviceToHost));
    return v;
  }
};

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const bool bad = name.substr(0, 4) == "bad_";
  const int launches = argc > 2 ? atoi(argv[2]) : 0;
  for (const Entry& e : kEntries) {
    if (name.substr(bad ? 4 : 0) != e.name) continue;
    Memory memory;
    if (launches == 0) {
      memory.Run(bad ? e.bad : e.mended);
    } else {
      const std::vector<float> want = memory.Run(e.mended);
      int differ = 0;
      for (int k = 0; k < launches; ++k)
        differ += memcmp(memory.Run(bad ? e.bad : e.mended).data(), want.data(), kN * 4) != 0;
      printf("%d of %d wrong\n", differ, launches);
    }
    int given_up = 0;
    CHECK(cudaMemcpyFromSymbol(&given_up, gGivenUp, sizeof given_up));
    if (given_up != 0) printf("hangs: a wait was given up after a second\n");
    return 0;
  }
  printf("caught_host ENTRY [LAUNCHES], an entry of caught.cu\n");
  return 2;
}
