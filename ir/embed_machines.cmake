# cmake -DOUT=FILE -DFILES=a;b -P embed_machines.cmake: machine files as C++ text.
set(text "// Made by ir/embed_machines.cmake.\n#include \"ir/target.h\"\n\nnamespace tilec::ir {\n\n")
string(APPEND text "namespace {\nstruct Embedded {\n  const char* name;\n  std::string_view text;\n};\n")
string(APPEND text "constexpr Embedded kMachines[] = {\n")
list(SORT FILES)
foreach(file IN LISTS FILES)
  file(READ ${file} content)
  get_filename_component(name ${file} NAME_WE)
  # Brackets and semicolons survive: the content is only ever appended, never listed.
  string(APPEND text "{\"${name}\", R\"toml_text(")
  string(APPEND text "${content}")
  string(APPEND text ")toml_text\"},\n")
endforeach()
string(APPEND text "};\n}  // namespace\n\n"
  "std::vector<std::string> BuiltinMachines() {\n  std::vector<std::string> names;\n"
  "  for (const Embedded& m : kMachines) names.emplace_back(m.name);\n  return names;\n}\n\n"
  "std::string_view BuiltinMachineText(std::string_view name) {\n"
  "  for (const Embedded& m : kMachines)\n    if (name == m.name) return m.text;\n"
  "  return {};\n}\n\n}  // namespace tilec::ir\n")
file(WRITE ${OUT} "${text}")
