# cmake -DOUT=FILE -DROOT=FOLDER -DFILES=a;b -P embed.cmake: text files as a C++ table, one raw string
# each, named by their paths from ROOT.
set(text "// Made by api/embed.cmake.\n#include \"api/stdlib.h\"\n\nnamespace tilec::api {\n\n")
string(APPEND text "const EmbeddedFile kEmbeddedStdlib[] = {\n")
list(SORT FILES)
list(LENGTH FILES count)
foreach(file IN LISTS FILES)
  file(READ ${file} content)
  file(RELATIVE_PATH name ${ROOT} ${file})
  string(APPEND text "{\"${name}\", R\"tile_text(")
  # Brackets and semicolons survive: the content is only ever appended, never listed.
  string(APPEND text "${content}")
  string(APPEND text ")tile_text\"},\n")
endforeach()
string(APPEND text "};\nconst int kEmbeddedStdlibCount = ${count};\n\n}  // namespace tilec::api\n")
file(WRITE ${OUT} "${text}")
