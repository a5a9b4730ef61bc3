# Installs the build into a scratch prefix, builds examples/embed against it with find_package alone,
# runs its programs; the one without a compiler launches a bundle of the installed tilec.
file(REMOVE_RECURSE ${SCRATCH})
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "${command}\nfailed (${code}):\n${out}")
  endif()
endfunction()
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/prefix)
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${EXAMPLE} -B ${SCRATCH}/build -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix
  -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
run(${SCRATCH}/build/embed_cpp emulator)
run(${SCRATCH}/build/embed_c emulator)
run(${SCRATCH}/prefix/bin/tilec bundle --no-cache std/matmul.tile:gemm -o ${SCRATCH}/gemm.tilec)
run(${SCRATCH}/build/embed_bundle ${SCRATCH}/gemm.tilec emulator)

# Kernels that a build of another project makes and links in.
get_filename_component(examples ${EXAMPLE} DIRECTORY)
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${examples}/kernels -B ${SCRATCH}/kernels
  -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${SCRATCH}/kernels)
run(${SCRATCH}/kernels/scale emulator)

# A transformer block served with lengths that change, by graphs.
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${examples}/serve -B ${SCRATCH}/serve
  -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${SCRATCH}/serve)
run(${SCRATCH}/serve/serve emulator)
