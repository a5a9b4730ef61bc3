// The library that stands for NVIDIA's driver, used as no program should: fatbins damaged anywhere,
// and calls in any order with handles that are live, gone or never were, sizes that are absurd, PTX
// that is not. Every call ends with a code; nothing is read behind an image, nothing is written
// behind an allocation. Pointers that a program must own (results, host memory of copies) are real
// ones.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>

#include "shim/copies.h"
#include "shim/nodes.h"
#include "shim/process.h"
#include "tests/fuzz/inputs.h"
#include "tests/fuzz/last_input.h"
#include "tests/unit/shim/make_fatbin.h"

namespace tilec::shim {
namespace {

using Rng = std::mt19937_64;

// Entries of every kind and packing, made once: compressing took most of the time of an image.
const std::vector<std::string>& AllEntries() {
  static const std::vector<std::string> all = [] {
    using test::Packing;
    std::vector<std::string> made;
    for (uint16_t kind = 0; kind < 4; ++kind)
      for (Packing packing : {Packing::kNone, Packing::kLz4, Packing::kZstd})
        made.push_back(test::Entry(kind, 80, test::kBump, packing));
    return made;
  }();
  return all;
}

std::string Good(Rng& rng) {
  std::string entries;
  for (uint64_t n = rng() % 3 + 1; n > 0; --n)
    entries += AllEntries()[(rng() % 3 + (rng() % 4 == 0)) * 3 + rng() % 3];
  return test::Container(entries);
}

void Damage(std::string* bytes, Rng& rng) {
  constexpr uint64_t kNumbers[] = {0,      1,          0x7f,       0xff,       0x7fff,
                                   0xffff, 0x7fffffff, 0xffffffff, 1ull << 62, ~0ull};
  for (uint64_t n = rng() % 4 + 1; n > 0 && !bytes->empty(); --n) {
    const size_t at =
        rng() % (rng() % 2 == 0 ? bytes->size() : std::min<size_t>(96, bytes->size()));
    switch (rng() % 4) {
      case 0: (*bytes)[at] = static_cast<char>(rng()); break;
      case 1: bytes->resize(at); break;
      case 2: bytes->insert(at, 1, static_cast<char>(rng())); break;
      default: {
        const uint64_t value = kNumbers[rng() % std::size(kNumbers)] + rng() % 3 - 1;
        const size_t width = size_t{1} << rng() % 4;
        if (at + width <= bytes->size()) memcpy(bytes->data() + at, &value, width);
      }
    }
  }
}

// One image, in memory that ends where it ends.
void Image(Rng& rng, uint64_t* read, uint64_t* refused) {
  std::string bytes = Good(rng);
  if (rng() % 16 != 0) Damage(&bytes, rng);
  const std::unique_ptr<char[]> copy(new char[bytes.size()]);
  memcpy(copy.get(), bytes.data(), bytes.size());
  const Fatbin fatbin = ReadFatbin({copy.get(), bytes.size()});
  fatbin.wrong.empty() ? ++*read : ++*refused;
}

// A process, and what has been handed out.
class Calls {
 public:
  explicit Calls(Rng& rng) : rng_(rng), p_(Limits(), "") {}

  Code One() {
    switch (rng_() % 24) {
      case 0: {
        uint64_t at = 0;
        const Code code = p_.Alloc(Size(), static_cast<Place>(rng_() % 3), &at);
        if (code == kOk) Keep(&addresses_, at);
        return code;
      }
      case 1: return p_.Free(Address());
      case 2:
      case 3: return p_.Run(Copy());
      case 4: return p_.Run(Fill());
      case 5: {
        if (images_.size() == 8) images_.erase(images_.begin());
        images_.push_back(Good(rng_));
        std::string& bytes = images_.back();
        if (rng_() % 2 == 0) {
          Damage(&bytes, rng_);
          // The length that it claims is all that there is to a program's image.
          if (bytes.size() < 16 || KindOfImage(bytes.data()) != ImageKind::kFatbin ||
              BytesOfFatbin(bytes.data()) > bytes.size())
            bytes = test::kBump;
        }
        Library* library = nullptr;
        const Code code = p_.NewLibrary(bytes.data(), &library);
        if (code == kOk) Keep(&libraries_, static_cast<const void*>(library));
        return code;
      }
      case 6: return p_.RemoveLibrary(Handle(libraries_));
      case 7: {
        Library* library = p_.FindLibrary(Handle(libraries_));
        Function* f = nullptr;
        if (library == nullptr) return kInvalidHandle;
        const Code code = p_.FindFunction(library, rng_() % 8 == 0 ? "none" : "bump", &f);
        if (code == kOk) Keep(&functions_, static_cast<const void*>(f));
        return code;
      }
      case 8:
      case 9: return p_.Submit(Handle(streams_), Kernel());
      case 10: return p_.Submit(Handle(streams_), rng_() % 2 == 0 ? Work(Copy()) : Work(Fill()));
      case 11:
        return Keep(&streams_,
                    static_cast<const void*>(p_.streams.Add(std::make_shared<Stream>())));
      case 12: return p_.streams.Remove(Handle(streams_)) ? kOk : kInvalidHandle;
      case 13:
        return Keep(&events_, static_cast<const void*>(p_.events.Add(std::make_shared<Event>())));
      case 14: return p_.events.Remove(Handle(events_)) ? kOk : kInvalidHandle;
      case 15: return p_.RecordEvent(Handle(events_), Handle(streams_));
      case 16: return p_.WaitEvent(Handle(streams_), Handle(events_));
      case 17: return p_.BeginCapture(Handle(streams_), nullptr, {});
      case 18: {
        Graph* graph = nullptr;
        const Code code = p_.EndCapture(Handle(streams_), &graph);
        if (code == kOk) Keep(&graphs_, static_cast<const void*>(graph));
        return code;
      }
      case 19: return Nodes();
      case 20: {
        Graph* graph = p_.graphs.Find(Handle(graphs_));
        GraphExec* exec = nullptr;
        if (graph == nullptr) return kInvalidHandle;
        const Code code = p_.Instantiate(graph, &exec);
        if (code == kOk) Keep(&execs_, static_cast<const void*>(exec));
        return code;
      }
      case 21: {
        const auto exec = p_.execs.Share(Handle(execs_));
        return exec == nullptr ? kInvalidHandle : p_.RunGraph(*exec);
      }
      case 22: return p_.graphs.Remove(Handle(graphs_)) ? kOk : kInvalidHandle;
      default: return Map();
    }
  }
  uint64_t launches() { return p_.counts().launches; }
  bool stuck() const { return p_.sticky() != kOk; }  // a fault stays

 private:
  static Settings Limits() {
    Settings s;
    s.emulator.memory_limit_bytes = 64 << 20;
    s.emulator.instruction_limit = 10000;
    return s;
  }
  template <typename T>
  Code Keep(std::vector<T>* in, T what) {
    if (in->size() < 12)
      in->push_back(what);
    else
      (*in)[rng_() % 12] = what;
    return kOk;
  }
  const void* Handle(const std::vector<const void*>& from) {
    const uint64_t n = rng_() % (from.size() + 2);
    if (n < from.size()) return from[n];
    return n == from.size() ? nullptr : static_cast<const void*>(this);
  }
  uint64_t Address() {
    const uint64_t n = rng_() % (addresses_.size() + 1);
    const uint64_t at = n < addresses_.size() ? addresses_[n] : 0;
    return rng_() % 8 == 0 ? at + rng_() % 4096 : at;
  }
  uint64_t Size() {
    constexpr uint64_t kSizes[] = {0, 1, 4, 255, 256, 4096, 100000, 1ull << 40, ~0ull, ~0ull - 511};
    return rng_() % 4 == 0 ? rng_() % 5000 : kSizes[rng_() % std::size(kSizes)];
  }
  // One side is the host's buffer; what it holds bounds the copy, as a program has to see to it.
  CopyWork Copy() {
    CopyWork c;
    c.width = Size();
    c.height = rng_() % 3 == 0 ? rng_() % 5 : 1;
    c.depth = rng_() % 5 == 0 ? rng_() % 3 : 1;
    c.to = Address();
    c.from = Address();
    c.to_pitch = Size();
    c.from_pitch = Size();
    c.to_slice = Size();
    c.from_slice = Size();
    // A stray address of the device would be one of the host: those are a program's to answer for.
    if (p_.FindBlock(c.to) == nullptr || p_.FindBlock(c.from) == nullptr || rng_() % 3 == 0) {
      c.width = std::min<uint64_t>(c.width, sizeof host_);
      c.height = c.depth = 1;
      if (p_.FindBlock(c.to) == nullptr || rng_() % 2 == 0)
        c.to = reinterpret_cast<uint64_t>(host_);
      if (p_.FindBlock(c.from) == nullptr) c.from = reinterpret_cast<uint64_t>(host_);
    }
    return c;
  }
  FillWork Fill() {
    return {Address(),
            Size(),
            Size(),
            rng_() % 4 == 0 ? Size() : 1,
            static_cast<uint32_t>(rng_()),
            static_cast<uint32_t>(rng_() % 6)};
  }
  KernelWork Kernel() {
    KernelWork work;
    Function* f = p_.FunctionOf(Handle(functions_));
    uint64_t at = Address();
    uint32_t by = static_cast<uint32_t>(rng_());
    void* arguments[] = {&at, &by};
    uint8_t packed[16];
    memcpy(packed, &at, 8);
    memcpy(packed + 8, &by, 4);
    size_t bytes = rng_() % 2 == 0 ? 12 : Size() % 13;
    void* extra[] = {reinterpret_cast<void*>(rng_() % 2 + 1), packed, reinterpret_cast<void*>(2),
                     &bytes, nullptr};
    if (f != nullptr) {
      const bool by_extra = rng_() % 3 == 0 && extra[0] != reinterpret_cast<void*>(2);
      p_.Arguments(f, by_extra ? nullptr : arguments, by_extra ? extra : nullptr, &work);
    }
    if (rng_() % 8 == 0) work.function = reinterpret_cast<Function*>(this);
    for (int k = 0; k < 3; ++k) {
      work.config.grid[k] = rng_() % 16 == 0 ? static_cast<uint32_t>(rng_()) % 70000 : 1;
      work.config.block[k] = rng_() % 16 == 0 ? static_cast<uint32_t>(rng_()) % 2000 : 1;
    }
    if (uint64_t{work.config.grid[0]} * work.config.grid[1] * work.config.grid[2] > 64)
      work.config.grid[0] = work.config.grid[1] = 1, work.config.grid[2] %= 64;
    work.config.smem_bytes = rng_() % 8 == 0 ? Size() : 0;
    work.cooperative = rng_() % 8 == 0;
    LaunchAttribute a = {};
    a.id = static_cast<int>(rng_() % 16);
    for (char& c : a.value.bytes) c = static_cast<char>(rng_() % 3);
    if (rng_() % 4 == 0) p_.Attributes(&a, 1, &work);
    return work;
  }
  Code Nodes() {
    void* graph = const_cast<void*>(Handle(graphs_));
    if (rng_() % 4 == 0)
      return Keep(&graphs_, static_cast<const void*>(p_.graphs.Add(std::make_shared<Graph>())));
    const void* after[] = {Handle(nodes_), Handle(nodes_)};
    const void* before[] = {Handle(nodes_), Handle(nodes_)};
    void* node = nullptr;
    switch (rng_() % 6) {
      case 0: return AddEdges(p_, graph, after, before, rng_() % 3);
      case 1: {
        Node* n = p_.FindNode(Handle(nodes_));
        return n == nullptr ? kInvalidHandle : RemoveNode(n);
      }
      case 2: return SetWork(p_, p_.FindNode(Handle(nodes_)), Kernel());
      case 3: return SetStep(p_, p_.execs.Find(Handle(execs_)), Handle(nodes_), Kernel());
      default: {
        const Code code = AddTo(p_, &node, graph, after, rng_() % 3,
                                rng_() % 2 == 0 ? Work(Kernel()) : Work(Fill()));
        if (code == kOk) Keep(&nodes_, static_cast<const void*>(node));
        return code;
      }
    }
  }
  Code Map() {
    uint64_t dims[5], strides[4];
    uint32_t box[5], steps[5];
    for (uint64_t& d : dims) d = Size();
    for (uint64_t& s : strides) s = Size();
    for (uint32_t& b : box) b = static_cast<uint32_t>(Size());
    for (uint32_t& s : steps) s = rng_() % 4 == 0 ? static_cast<uint32_t>(rng_()) : 1;
    const auto small = [&](uint64_t n) { return static_cast<int>(rng_() % n) - 1; };
    return EncodeMap(
        p_, host_,
        {small(17), static_cast<uint32_t>(rng_() % 7), reinterpret_cast<void*>(Address()), dims,
         strides, box, steps, small(3), small(6), small(5), small(3)});
  }

  Rng& rng_;
  Process p_;
  char host_[4096] = {};
  std::vector<std::string> images_;
  std::vector<uint64_t> addresses_;
  std::vector<const void*> libraries_, functions_, streams_, events_, graphs_, execs_, nodes_;
};

struct Counts {
  uint64_t read = 0, refused = 0, calls = 0, failed = 0, launches = 0;
  std::map<int, uint64_t> codes;
};

// A process: 500 calls, fewer once it is stuck, since every call then says the same.
void OneProcess(Rng& rng, Counts* n) {
  Calls process(rng);
  for (int k = 0; k < 500; ++k) {
    if (process.stuck()) k += 20;
    const Code code = process.One();
    ++n->calls, ++n->codes[code];
    n->failed += code != kOk;
  }
  n->launches += process.launches();
}

int Main(int argc, char** argv) {
  CLI::App app("shim_fuzz: an input is 500 damaged fatbins, or a process of 500 calls, in turn");
  fuzz::Inputs inputs(app, "--inputs");
  CLI11_PARSE(app, argc, argv);
  fuzz::ShowLastInputOnDeath();
  fuzz::Last().seed = inputs.seed;
  Counts n;
  uint64_t done = 0;
  for (uint64_t k; inputs.Next(done, &k); ++done) {
    fuzz::Last().index = k;
    Rng rng(fuzz::InputSeed(inputs.seed, k));
    if (k % 2 == 0)
      OneProcess(rng, &n);
    else
      for (int image = 0; image < 500; ++image) Image(rng, &n.read, &n.refused);
  }
  fmt::print("seed {}: {} fatbins read, {} refused, {} calls, {} of which failed, {} launches\n",
             inputs.seed, n.read, n.refused, n.calls, n.failed, n.launches);
  for (const auto& [code, count] : n.codes) fmt::print("  {}: {}\n", code, count);
  inputs.PrintSlowest();
  // A fuzzer that never gets anywhere tests nothing.
  return inputs.only > 0 || (n.read > 0 && n.refused > 0 && n.launches > 0) ? 0 : 1;
}

}  // namespace
}  // namespace tilec::shim

int main(int argc, char** argv) { return tilec::shim::Main(argc, argv); }
