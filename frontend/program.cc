// Loading: a file, the modules it imports, what is visible where, and near-miss names.
//
// A module sees its own items and those of the modules it imports directly; its own hide imported
// ones. Nothing is visible through two imports in a row, so a library can import others without
// spilling their names into its users.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <sstream>

#include "frontend/instantiate.h"
#include "frontend/internal.h"
#include "language/parse.h"
#include "support/nearest.h"

namespace tilec::frontend {

DiagBuilder Suggest(DiagBuilder report, std::string_view name,
                    const std::vector<std::string>& candidates) {
  const std::string near = NearestName(name, candidates);
  if (!near.empty()) report.Help(fmt::format("did you mean `{}`?", near));
  return report;
}

const ItemRef* ProgramData::Find(int module, std::string_view name) const {
  const auto& visible = modules[module].visible;
  const auto it = visible.find(name);
  return it == visible.end() ? nullptr : &it->second;
}

// The report of a name that is no kernel, with what to write instead.
DiagBuilder NoSuchKernel(const ProgramData& program, DiagBuilder report, const std::string& name) {
  const ItemRef* item = program.Find(0, name);
  if (!item || !IsPattern(program.item(*item)))
    return Suggest(std::move(report), name, program.kernels);
  std::string fns;
  for (const lang::TypeParam& t : program.item(*item).As<lang::KernelItem>()->types)
    if (t.is_fn) fns += (fns.empty() ? "" : ", ") + t.name.text + " = NAME";
  return report.Help(
      fmt::format("it is made from: write `kernel mine = {}<{}>`, and take `mine`", name, fns));
}

std::string ProgramData::TextOf(Span span) const {
  if (!span.known()) return "";
  std::string out;
  for (char c : sources->TextOf(span)) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (space && (out.empty() || out.back() == ' ')) continue;
    out += space ? ' ' : c;
  }
  if (out.size() > 60) out = out.substr(0, 57) + "...";
  return out;
}

namespace {

constexpr size_t kMaxSourceBytes = size_t{16} << 20;
constexpr int kMaxImportDepth = 64;

std::optional<std::string> ReadSourceFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::string text;
  char buffer[1 << 16];
  while (in.read(buffer, sizeof buffer) || in.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(in.gcount()));
    if (text.size() > kMaxSourceBytes) return std::nullopt;
  }
  if (in.bad()) return std::nullopt;
  return text;
}

// "a/b/../c" → "a/c"; keeps leading "..".
std::string Normalize(const std::string& path) {
  std::vector<std::string> parts;
  const bool absolute = !path.empty() && path[0] == '/';
  std::stringstream in(path);
  for (std::string part; std::getline(in, part, '/');) {
    if (part.empty() || part == ".") continue;
    if (part == ".." && !parts.empty() && parts.back() != "..")
      parts.pop_back();
    else
      parts.push_back(part);
  }
  std::string out = absolute ? "/" : "";
  for (size_t i = 0; i < parts.size(); ++i) out += (i ? "/" : "") + parts[i];
  return out;
}

std::string WithExtension(const std::string& path) {
  return path.ends_with(".tile") ? path : path + ".tile";
}

}  // namespace

// What `import` means in the file `from`.
std::string Beside(const std::string& from, const std::string& import) {
  const size_t slash = from.rfind('/');
  return WithExtension(
      Normalize((slash == std::string::npos ? "" : from.substr(0, slash + 1)) + import));
}

namespace {

const lang::Name* NameOf(const lang::Item& item) {
  if (const auto* k = item.As<lang::KernelItem>()) return &k->name;
  if (const auto* f = item.As<lang::FnItem>()) return &f->name;
  if (const auto* c = item.As<lang::ConstItem>()) return &c->name;
  if (const auto* i = item.As<lang::InstanceItem>()) return &i->name;
  return nullptr;
}

struct Loader {
  SourceMap& sources;
  const ImportResolver& resolver;
  DiagSink& diags;
  ProgramData& program;
  std::map<std::string, int> by_path;  // loaded modules
  std::vector<std::string> open;       // paths being loaded

  // `name`: Program::FileNames.
  Result<int> LoadModule(const std::string& path, const std::string& name, std::string text) {
    const int index = static_cast<int>(program.modules.size());
    program.modules.emplace_back();
    by_path[path] = index;
    open.push_back(path);
    const int32_t file = sources.Add(path, std::move(text));
    TRY(lang::Ast ast, lang::Parse(sources, file, diags));
    TRY_VOID(Instantiate(ast, diags));
    program.modules[index].file = file;
    program.modules[index].path = path;
    program.modules[index].name = name;
    program.modules[index].ast = std::move(ast);
    TRY_VOID(Collect(index));
    open.pop_back();
    return index;
  }

  Result<> Collect(int index) {
    Module& module = program.modules[index];
    const int before = diags.errors();
    for (lang::ItemId id : module.ast.items) {
      const lang::Name* name = NameOf(module.ast.item(id));
      if (!name) continue;
      if (name->text == "inf" || name->text == "nan") {
        diags.Report(kReservedName, name->span, name->text);
        continue;
      }
      const auto [it, fresh] = module.own.emplace(name->text, ItemRef{index, id});
      if (!fresh)
        diags.Report(kDuplicateItem, name->span, name->text)
            .Label(NameOf(program.item(it->second))->span, "first defined here");
    }
    module.visible = module.own;
    std::map<std::string, Span> imported_at, twice;
    for (lang::ItemId id : module.ast.items) {
      const auto* import = module.ast.item(id).As<lang::ImportItem>();
      if (!import) continue;
      Result<int> loaded = Import(index, *import);
      if (!loaded.ok()) continue;
      for (const auto& [name, ref] : program.modules[*loaded].own) {
        if (module.own.count(name)) continue;
        const auto [it, fresh] = module.visible.emplace(name, ref);
        if (fresh)
          imported_at[name] = import->path_span;
        else if (it->second != ref)
          twice.emplace(name, import->path_span);
      }
    }
    // A name of two imports means neither; that matters only where it is used.
    if (!twice.empty()) {
      VisitItems(module.ast, [&](const std::string& name, Span at) {
        const auto it = twice.find(name);
        if (it == twice.end()) return;
        diags.Report(kAmbiguousImport, at, name)
            .Label(imported_at[name], "defined by this module")
            .Label(it->second, "and by this one")
            .Help(fmt::format("define `{}` in this file, or import only one of them", name));
      });
      for (const auto& [name, at] : twice) module.visible.erase(name);
    }
    if (diags.errors() > before) return DiagSink::Propagate();
    return CollectInstances(index);
  }

  // Kernels made from patterns, which may be imported ones: they take the place of their line.
  Result<> CollectInstances(int index) {
    const int before = diags.errors();
    const std::vector<lang::ItemId> items = program.modules[index].ast.items;
    for (lang::ItemId id : items) {
      const auto* instance = program.modules[index].ast.item(id).As<lang::InstanceItem>();
      if (!instance) continue;
      const std::string name = instance->name.text;
      const Result<std::vector<ItemRef>> all = BindFns(program, index, id, diags);
      if (!all.ok()) continue;
      Module& module = program.modules[index];
      module.own.erase(name);
      module.visible.erase(name);
      for (ItemRef ref : *all) {
        const lang::Name& made = *NameOf(program.item(ref));
        const auto [it, fresh] = module.own.emplace(made.text, ref);
        if (!fresh)
          diags.Report(kDuplicateItem, made.span, made.text)
              .Label(NameOf(program.item(it->second))->span, "first defined here");
        module.visible[made.text] = ref;
        module.instances[id].push_back(ref);
      }
    }
    if (diags.errors() > before) return DiagSink::Propagate();
    return Done();
  }

  Result<int> Import(int from, const lang::ImportItem& import) {
    std::string path, name;
    std::optional<std::string> text;
    const bool library = import.path.starts_with("std/");
    const bool relative =
        !library && (import.path.starts_with("./") || import.path.starts_with("../") ||
                     import.path.ends_with(".tile"));
    if (relative) {
      path = Beside(program.modules[from].path, import.path);
      name = Beside(program.modules[from].name, import.path);
    } else {
      std::optional<ImportedText> found = resolver(import.path);
      if (!found) {
        DiagBuilder report = diags.Report(kImportNotFound, import.path_span, import.path);
        std::string name = import.path;
        if (name.ends_with(".tile")) name.resize(name.size() - 5);
        const std::string near = NearestName(name, resolver.modules);
        if (!near.empty()) return report.Help(fmt::format("did you mean `\"{}\"`?", near));
        return report.Help(
            "library modules are spelt `\"std/name\"`, files of your own "
            "`\"./name\"`");
      }
      path = found->path;
      name = WithExtension(import.path);
      text = std::move(found->text);
    }
    const auto on_way = std::find(open.begin(), open.end(), path);
    if (on_way != open.end()) {
      std::string through;
      for (auto it = on_way + 1; it != open.end(); ++it)
        through += (through.empty() ? " through `" : "`, `") + *it;
      return diags.Report(kImportCycle, import.path_span, path,
                          through.empty() ? "" : through + "`");
    }
    if (const auto it = by_path.find(path); it != by_path.end()) return it->second;
    if (static_cast<int>(open.size()) >= kMaxImportDepth)
      return diags.Report(kImportCycle, import.path_span, path, " or nests 64 deep");
    if (!text) text = ReadSourceFile(path);
    if (!text) return diags.Report(kFileUnreadable, import.path_span, path);
    return LoadModule(path, name, std::move(*text));
  }
};

Result<> Finish(ProgramData& program, DiagSink& diags) {
  const int before = diags.errors();
  (void)EvalConstants(program, diags);
  const Module& root = program.modules[0];
  std::vector<std::pair<std::string, ItemRef>> kernels;
  for (lang::ItemId id : root.ast.items) {
    const auto* k = root.ast.item(id).As<lang::KernelItem>();
    if (k && !IsPattern(root.ast.item(id))) kernels.emplace_back(k->name.text, ItemRef{0, id});
    if (const auto made = root.instances.find(id); made != root.instances.end())
      for (ItemRef ref : made->second) kernels.emplace_back(NameOf(program.item(ref))->text, ref);
  }
  program.own_kernels = kernels.size();
  for (const auto& [name, ref] : root.visible)
    if (root.own.count(name) == 0 && program.item(ref).As<lang::KernelItem>() &&
        !IsPattern(program.item(ref)))
      kernels.emplace_back(name, ref);
  for (const auto& [name, ref] : kernels) {
    Result<Signature> sig = BuildSignature(program, ref, diags);
    if (!sig.ok()) continue;
    program.kernels.push_back(name);
    program.signatures[name] = std::move(*sig);
  }
  if (diags.errors() > before) return DiagSink::Propagate();
  for (lang::ItemId id : root.ast.items) {
    const auto* test = root.ast.item(id).As<lang::TestItem>();
    if (!test) continue;
    TestInfo info;
    info.name = test->name;
    info.at = test->name_span;
    if (!ReadTestWords(*test, info, diags).ok()) continue;
    for (const lang::TestCase& c : test->cases) {
      Result<TestCallInfo> call = ReadTestCall(program, c, diags);
      if (call.ok()) info.calls.push_back(std::move(*call));
    }
    program.tests.push_back(std::move(info));
  }
  if (diags.errors() > before) return DiagSink::Propagate();
  return Done();
}

}  // namespace

Program::Program(std::unique_ptr<ProgramData> data) : data_(std::move(data)) {}
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

Result<Program> Program::LoadText(SourceMap& sources, const std::string& path, std::string text,
                                  const ImportResolver& resolver, DiagSink& diags) {
  auto data = std::make_unique<ProgramData>();
  data->sources = &sources;
  data->resolver = resolver;
  Loader loader{sources, resolver, diags, *data, {}, {}};
  const std::string main = Normalize(path);
  TRY_VOID(loader.LoadModule(main, main.substr(main.rfind('/') + 1), std::move(text)));
  TRY_VOID(Finish(*data, diags));
  return Program(std::move(data));
}

Result<Program> Program::Load(SourceMap& sources, const std::string& path,
                              const ImportResolver& resolver, DiagSink& diags) {
  std::optional<std::string> text = ReadSourceFile(path);
  if (!text) return diags.Report(kFileUnreadable, Span{}, path).Place(path);
  return LoadText(sources, path, std::move(*text), resolver, diags);
}

const std::string& Program::path() const { return data_->modules[0].path; }
std::vector<std::string> Program::kernels() const { return data_->kernels; }
std::vector<std::string> Program::own_kernels() const {
  return {data_->kernels.begin(), data_->kernels.begin() + static_cast<int>(data_->own_kernels)};
}
const std::vector<TestInfo>& Program::tests() const { return data_->tests; }
std::vector<int32_t> Program::files() const {
  std::vector<int32_t> out;
  for (const Module& m : data_->modules) out.push_back(m.file);
  return out;
}
std::map<int32_t, std::string> Program::FileNames() const {
  std::map<int32_t, std::string> out;
  for (const Module& m : data_->modules) out.emplace(m.file, m.name);
  return out;
}
const Signature* Program::FindSignature(std::string_view kernel) const {
  const auto it = data_->signatures.find(kernel);
  return it == data_->signatures.end() ? nullptr : &it->second;
}

Result<Signature> SignatureOf(const Program& program, const std::string& kernel, DiagSink& diags) {
  const ProgramData& data = program.data();
  if (kernel.empty() && data.own_kernels == 1) return *program.FindSignature(data.kernels[0]);
  if (const Signature* found = program.FindSignature(kernel)) return *found;
  std::string all;
  for (const std::string& k : data.kernels) all += (all.empty() ? "`" : ", `") + k + "`";
  DiagBuilder report = diags.Report(kUnknownKernel, Span{}, kernel, program.path());
  report.Place(program.path());
  report.Note(all.empty() ? "the file has no kernels" : "kernels: " + all);
  return NoSuchKernel(data, std::move(report), kernel);
}

ItemPlace FindItem(const Program& program, std::string_view name) {
  const ProgramData& data = program.data();
  const ItemRef* ref = data.Find(0, name);
  if (!ref) return {};
  const lang::Item& item = data.item(*ref);
  return {NameOf(item)->span, item.span};
}

}  // namespace tilec::frontend
