# cmake -DOUT=FILE -DSCRIPT=FILE -P embed_script.cmake: a script as C++ text.
file(READ ${SCRIPT} script)
set(text "// Made by tools/embed_script.cmake.\n#include \"tools/torch_script.h\"\n\n")
string(APPEND text "namespace tilec::tools {\n\nconst char* const kTorchScript = R\"script_text(")
string(APPEND text "${script}")
string(APPEND text ")script_text\";\n\n}  // namespace tilec::tools\n")
file(WRITE ${OUT} "${text}")
