// Libraries, modules, functions and variables. An image is taken apart when it is registered and
// loaded when something of it is asked for, as the driver does it lazily.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "runtime/ptx_text.h"
#include "shim/process.h"
#include "shim/readable.h"
#include "support/source.h"

namespace tilec::shim {
namespace {

std::string ProgramName() { return program_invocation_short_name; }

std::string Joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

// One line of a diagnostic.
std::string OneLine(const DiagSink& diags) {
  for (const Diagnostic& d : diags.all()) {
    if (d.def->severity != Severity::kError) continue;
    std::string line =
        fmt::format("{}[{}]: {}", d.place.empty() ? "" : d.place + ": ", d.def->code, d.message);
    for (const std::string& note : d.notes) line += "; " + note;
    return line;
  }
  return "nobody said why";
}

}  // namespace

Code Process::NewLibrary(const void* image, Library** out) {
  *out = nullptr;
  if (image == nullptr) return kInvalidValue;
  auto library = std::make_shared<Library>();
  library->name = fmt::format("{}.{}.ptx", ProgramName(), ++library_number_);
  const auto unreadable = [&](const void* at) {
    Note(fmt::format("an image at {} goes on where no memory is", at));
    return kInvalidImage;
  };
  // The wrapper of the runtime's registration, or what it wraps: none of their magic words has a
  // zero byte, a text that is shorter has.
  uint64_t length = 0;
  if (!TextLength(static_cast<const char*>(image), 4, &length)) return unreadable(image);
  uint32_t magic = 0;
  if (length == sizeof magic) memcpy(&magic, image, sizeof magic);
  if (magic == FatbinWrapper::kMagic) {
    if (!Readable(image, sizeof(FatbinWrapper))) return unreadable(image);
    FatbinWrapper wrapper;
    memcpy(&wrapper, image, sizeof wrapper);
    image = wrapper.data;
    if (image == nullptr) return kInvalidImage;
    if (!TextLength(static_cast<const char*>(image), 4, &length)) return unreadable(image);
    magic = 0;
    if (length == sizeof magic) memcpy(&magic, image, sizeof magic);
  }
  // As long as a fatbin says; a text as far as its zero byte.
  const bool fatbin_begins = magic == kFatbinMagic;
  if (fatbin_begins ? !Readable(image, 16) || !Readable(image, BytesOfFatbin(image))
                    : !TextLength(static_cast<const char*>(image), kMostPtxBytes, &length))
    return unreadable(image);
  switch (KindOfImage(image)) {
    case ImageKind::kUnknown: return kInvalidImage;
    case ImageKind::kElf: library->machine_code.push_back(0); break;
    case ImageKind::kPtx: {
      library->texts.emplace_back(static_cast<const char*>(image), length);
      break;
    }
    case ImageKind::kFatbin: {
      const uint64_t bytes = BytesOfFatbin(image);
      if (bytes == 0) return kInvalidImage;
      Fatbin fatbin = ReadFatbin({static_cast<const char*>(image), bytes});
      library->wrong = std::move(fatbin.wrong);
      for (FatbinEntry& e : fatbin.entries) {
        if (e.kind == FatbinEntry::Kind::kPtx) library->texts.push_back(std::move(e.ptx));
        if (e.kind == FatbinEntry::Kind::kMachineCode) library->machine_code.push_back(e.arch);
      }
      break;
    }
  }
  for (const std::string& text : library->texts)
    library->targets.push_back(runtime::PtxTarget(text));
  *out = libraries_.Add(std::move(library));
  return kOk;
}

Code Process::Load(Library* library) {
  if (library->tried) return library->failed;
  library->tried = true;
  auto fail = [&](Code code, const std::string& why) {
    ++counts_->refused;
    Note(fmt::format("{}: {}", library->name, why));
    return library->failed = code;
  };
  if (!library->wrong.empty()) return fail(kInvalidImage, "damaged fatbin: " + library->wrong);
  if (library->texts.empty() && library->machine_code.empty())
    return fail(kInvalidImage, "there is no code in it");
  const std::string arch = device_->isa();
  if (library->texts.empty()) {
    std::vector<std::string> has;
    for (uint32_t a : library->machine_code)
      if (a != 0) has.push_back(fmt::format("sm_{}", a));
    return fail(kNoBinary,
                fmt::format("there is machine code{}{} and no PTX in it: build with `-gencode "
                            "arch=compute_{},code=compute_{}` besides",
                            has.empty() ? "" : " for ", Joined(has),
                            arch.substr(arch.find('_') + 1), arch.substr(arch.find('_') + 1)));
  }
  const int chosen = Choose(library->targets, arch);
  if (chosen < 0)
    return fail(kNoBinary,
                fmt::format("its PTX is for {}, and {} runs none of that: build with "
                            "`-gencode arch=compute_{},code=compute_{}`, or choose a "
                            "machine by `--gpu`",
                            Joined(library->targets), arch, arch.substr(arch.find('_') + 1),
                            arch.substr(arch.find('_') + 1)));
  DiagSink diags;
  runtime::LoadOptions options;
  options.name = library->name;
  auto module = device_->Load(library->texts[static_cast<size_t>(chosen)], options, diags);
  if (!module.ok()) return fail(kInvalidPtx, OneLine(diags));
  ++counts_->modules;
  library->module = std::move(*module);
  library->variables = runtime::VariablesOf(*library->module);
  for (const runtime::VariableFacts& v : library->variables)
    if (v.bytes > 0) blocks_[v.address] = {v.bytes, Place::kVariable};
  for (const std::string& name : library->module->entries()) {
    auto f = std::make_unique<Function>();
    f->library = library;
    f->name = name;
    f->facts = *runtime::FactsOf(*library->module, name);
    // What needs no permission: 48 KiB with the static ones, on every architecture.
    constexpr uint64_t kUsual = 48 << 10;
    f->most_dynamic = kUsual - std::min(kUsual, f->facts.shared_bytes);
    functions_[f.get()] = f.get();
    library->functions[name] = std::move(f);
  }
  return kOk;
}

Code Process::RemoveLibrary(const void* handle) {
  Library* library = libraries_.Find(handle);
  if (library == nullptr) return kInvalidHandle;
  for (const runtime::VariableFacts& v : library->variables) blocks_.erase(v.address);
  // Handles of its functions may live in graphs: they are told from live ones by the table.
  for (const auto& [name, f] : library->functions) functions_.erase(f.get());
  libraries_.Remove(handle);
  return kOk;
}

Code Process::FindFunction(Library* library, const std::string& name, Function** out) {
  if (const Code code = Load(library); code != kOk) return code;
  const auto it = library->functions.find(name);
  if (it == library->functions.end()) return kNotFound;
  *out = it->second.get();
  return kOk;
}

Function* Process::FunctionOf(const void* handle) const {
  const auto it = functions_.find(handle);
  return it == functions_.end() ? nullptr : it->second;
}

Code Process::FindVariable(Library* library, const std::string& name, uint64_t* address,
                           uint64_t* bytes) {
  if (const Code code = Load(library); code != kOk) return code;
  for (const runtime::VariableFacts& v : library->variables) {
    if (v.name != name) continue;
    *address = v.address;
    *bytes = v.bytes;
    return kOk;
  }
  return kNotFound;
}

Code Process::SetAttribute(Function* f, int attribute, int value) {
  switch (attribute) {
    case 8: {  // dynamic shared memory
      const uint64_t most =
          machine().smem_bytes - std::min(machine().smem_bytes, f->facts.shared_bytes);
      if (value < 0 || static_cast<uint64_t>(value) > most) {
        Note(fmt::format("`{}` asks for {} bytes of dynamic shared memory, {} are left on {}",
                         f->name, value, most, machine().name));
        return kInvalidValue;
      }
      f->most_dynamic = std::max(f->most_dynamic, static_cast<uint64_t>(value));
      return kOk;
    }
    case 9: f->carveout = value; return kOk;
    case 14: f->non_portable = value != 0; return kOk;
    case 10:
    case 11:
    case 12:
    case 13:
    case 15: return kOk;
    default: return kInvalidValue;
  }
}

Code Process::GetAttribute(Function* f, int attribute, int* value) {
  const runtime::EntryFacts& facts = f->facts;
  const uint64_t most = uint64_t{facts.most_block[0]} * facts.most_block[1] * facts.most_block[2];
  switch (attribute) {
    case 0: *value = most == 0 ? 1024 : static_cast<int>(std::min<uint64_t>(most, 1024)); break;
    case 1: *value = static_cast<int>(facts.shared_bytes); break;
    case 2: *value = 0; break;
    case 3: *value = static_cast<int>(facts.local_bytes); break;
    case 4: *value = facts.registers != 0 ? static_cast<int>(facts.registers) : 32; break;
    case 5:
    case 6: *value = capability_; break;
    case 7: *value = 0; break;
    case 8: *value = static_cast<int>(f->most_dynamic); break;
    case 9: *value = f->carveout; break;
    case 10: *value = facts.required_cluster[0] != 0; break;
    case 11:
    case 12:
    case 13: *value = static_cast<int>(facts.required_cluster[attribute - 11]); break;
    case 14: *value = f->non_portable; break;
    case 15: *value = 0; break;
    default: return kInvalidValue;
  }
  return kOk;
}

int Process::BlocksPerSm(const Function* f, int threads, uint64_t dynamic) const {
  if (threads <= 0 || threads > 1024) return 0;
  const runtime::MachineLimits& m = machine();
  const uint64_t warps = (static_cast<uint64_t>(threads) + 31) / 32;
  const uint64_t smem = f->facts.shared_bytes + dynamic;
  if (smem > m.smem_bytes) return 0;
  // Without an assembler registers are known where the program says a bound.
  const uint64_t registers = f->facts.registers != 0 ? f->facts.registers : 32;
  uint64_t blocks = std::min<uint64_t>(m.ctas_per_sm, m.threads_per_sm / (warps * 32));
  blocks = std::min(blocks, m.smem_bytes_per_sm / (smem + m.smem_reserved_bytes));
  blocks = std::min(blocks, m.registers / (registers * warps * 32));
  return static_cast<int>(blocks);
}

}  // namespace tilec::shim
