// tilec for host programs in C, and for every language that can call C. The same model as
// tilec/tilec.h: errors are values, handles are thread-safe, nothing prints, throws or exits.
//
// Every call that can fail returns a tilec_status*: NULL is success, anything else is to be read
// with tilec_status_text and freed with tilec_status_free. Objects are made by tilec_..._open or
// _create or _compile and released with their _free, in any order.
//
// NULL where something is needed is an error like others (R582), and so are numbers, names and
// addresses that mean nothing. Not defined, as nothing can tell: a handle that was freed or is of
// another kind, memory of the host that is smaller than a call says, and memory of a GPU that is
// not of its device.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tilec_status tilec_status;
typedef struct tilec_device tilec_device;
typedef struct tilec_compiler tilec_compiler;
typedef struct tilec_kernel tilec_kernel;
typedef struct tilec_args tilec_args;

typedef enum tilec_dtype {
  TILEC_BOOL,
  TILEC_I8,
  TILEC_I16,
  TILEC_I32,
  TILEC_I64,
  TILEC_U8,
  TILEC_U16,
  TILEC_U32,
  TILEC_U64,
  TILEC_F16,
  TILEC_BF16,
  TILEC_TF32,
  TILEC_F32,
  TILEC_F64,
  TILEC_E4M3,
  TILEC_E5M2,
  TILEC_E2M1X2, /* two e2m1 in a byte */
  TILEC_UE8M0,
  TILEC_UE4M3
} tilec_dtype;

const char* tilec_version(void);

// Errors. The texts live as long as the status.
const char* tilec_status_text(const tilec_status* status);
size_t tilec_status_count(const tilec_status* status);
const char* tilec_status_code(const tilec_status* status, size_t i);  // "R514"
const char* tilec_status_message(const tilec_status* status, size_t i);
typedef enum tilec_problem_kind { TILEC_ERROR, TILEC_WARNING, TILEC_NOTE } tilec_problem_kind;
tilec_problem_kind tilec_status_kind(const tilec_status* status, size_t i);
const char* tilec_status_file(const tilec_status* status, size_t i);  // "": no place in a file
int32_t tilec_status_line(const tilec_status* status, size_t i);      // from 1; 0: no place
int32_t tilec_status_column(const tilec_status* status, size_t i);
// The whole diagnostic: message, source line with caret, notes, help.
const char* tilec_status_problem(const tilec_status* status, size_t i);
void tilec_status_free(tilec_status* status);

// Devices: "auto", "cuda", "cuda:1", "emulator". The description lives as long as the device.
tilec_status* tilec_device_open(const char* name, tilec_device** device);
void tilec_device_free(tilec_device* device);
const char* tilec_device_description(const tilec_device* device);
const char* tilec_device_kind(const tilec_device* device);    // "cuda", "emulator"
const char* tilec_device_target(const tilec_device* device);  // "sm_90a"
tilec_status* tilec_device_alloc(tilec_device* device, uint64_t bytes, uint64_t* address);
void tilec_device_release(tilec_device* device, uint64_t address);
tilec_status* tilec_device_copy_in(tilec_device* device, uint64_t to, const void* from,
                                   uint64_t bytes);
tilec_status* tilec_device_copy_out(tilec_device* device, void* to, uint64_t from, uint64_t bytes);
tilec_status* tilec_device_fill(tilec_device* device, uint64_t to, uint8_t byte, uint64_t bytes);
tilec_status* tilec_device_new_stream(tilec_device* device, int32_t* stream);
tilec_status* tilec_device_adopt_stream(tilec_device* device, void* cuda_stream, int32_t* stream);
tilec_status* tilec_device_synchronize(tilec_device* device, int32_t stream);

// Compiling. Options are NAME, VALUE pairs: "target" (a machine or its file), "schedule" (a word or
// a .sched file), "tune" ("model", "classes", "default", "measure", "measure=SECONDS", a file of
// `tilec tune`, "model:improve" or "classes:improve"), "cache" ("on", "off"), "cache_dir",
// "stdlib_dir", "ptxas" ("auto", "off" or a file).
// `kernel` may be NULL if the file has one kernel.
tilec_status* tilec_compiler_create(const char* const* names, const char* const* values,
                                    size_t count, tilec_compiler** compiler);
void tilec_compiler_free(tilec_compiler* compiler);
tilec_status* tilec_compile(tilec_compiler* compiler, const char* path, const char* kernel,
                            tilec_kernel** out);
tilec_status* tilec_compile_text(tilec_compiler* compiler, const char* text, const char* name,
                                 const char* kernel, tilec_kernel** out);
void tilec_kernel_free(tilec_kernel* kernel);
// What was found odd while compiling, as text; "" if nothing was. Lives as long as the kernel.
const char* tilec_kernel_warnings(const tilec_kernel* kernel);
// What calls of this kernel that succeeded have warned of since this was asked last, or NULL:
// nothing. The text is the caller's, who frees it with tilec_text_free.
char* tilec_kernel_said(tilec_kernel* kernel);

// A kernel's signature, for programs that look before they launch. All of it lives as long as the
// kernel. Later versions may add fields at the end.
typedef enum tilec_parameter_kind {
  TILEC_TENSOR,
  TILEC_SCALAR,
  TILEC_CONST,
  TILEC_DIM,
  TILEC_TUNE
} tilec_parameter_kind;
typedef struct tilec_parameter {
  tilec_parameter_kind kind;
  int is_static;  // its value is compiled in
  const char* name;
  const char* dtype;          // "" of dims and tunes
  const char* direction;      // tensors: "in", "out", "inout"
  const char* default_value;  // "" if it has none
  size_t rank;                // tensors: number of dims
  const char* const* dims;    // expressions, outermost first: "M", "2 * N"
} tilec_parameter;
const char* tilec_kernel_name(const tilec_kernel* kernel);
size_t tilec_kernel_parameter_count(const tilec_kernel* kernel);
const tilec_parameter* tilec_kernel_parameter(const tilec_kernel* kernel, size_t i);  // or NULL

// Arguments by name. `strides` may be NULL: dense, row-major. A rank that is none (below 0, above
// 64) counts as 0; what is wrong with an argument is said by the call that takes it.
tilec_args* tilec_args_create(void);
void tilec_args_free(tilec_args* args);
void tilec_args_tensor(tilec_args* args, const char* name, tilec_dtype dtype, uint64_t data,
                       int32_t rank, const int64_t* dims, const int64_t* strides);
void tilec_args_int(tilec_args* args, const char* name, int64_t value);
void tilec_args_float(tilec_args* args, const char* name, double value);
void tilec_args_bool(tilec_args* args, const char* name, int value);

tilec_status* tilec_launch(tilec_kernel* kernel, tilec_device* device, const tilec_args* args,
                           int32_t stream);
// Everything but the launch: tensors may have any address of the alignment they will have.
tilec_status* tilec_prepare(tilec_kernel* kernel, tilec_device* device, const tilec_args* args);
// The same for all sizes in the ranges together: dims of one range have one size in a launch. Needs
// "tune" = "classes" or "default" (docs/embedding.md).
typedef struct tilec_size_range {
  const char* const* dims;
  size_t count;  // of them
  int64_t first, last;
} tilec_size_range;
tilec_status* tilec_prepare_ranges(tilec_kernel* kernel, tilec_device* device,
                                   const tilec_args* args, const tilec_size_range* ranges,
                                   size_t count);
// Waits for the end; milliseconds on the device (on the emulator, of the host).
tilec_status* tilec_launch_timed(tilec_kernel* kernel, tilec_device* device, const tilec_args* args,
                                 int32_t stream, double* milliseconds);
// What a launch with these arguments runs: "tile-ir", "plan", "warp-ir", "llvm", "ptx", "json".
// The text is the caller's, who frees it with tilec_text_free.
tilec_status* tilec_emit(tilec_kernel* kernel, const char* what, const tilec_args* args,
                         char** text);
void tilec_text_free(char* text);

// A launch that was chosen, checked and packed: what remains is the driver's call. It keeps alive
// all it needs but the memory of the tensors; `args` may be freed.
typedef struct tilec_bound tilec_bound;
tilec_status* tilec_kernel_bind(tilec_kernel* kernel, tilec_device* device, const tilec_args* args,
                                tilec_bound** bound);
tilec_status* tilec_bound_launch(const tilec_bound* bound, int32_t stream);
// The same launch on tensors that lie elsewhere: one address for each tensor, in the signature's
// order. Storage and alignment are checked, all else is as it was bound.
tilec_status* tilec_bound_launch_at(const tilec_bound* bound, const uint64_t* addresses,
                                    size_t count, int32_t stream);
size_t tilec_bound_count(const tilec_bound* bound);                  // of tensors
const char* tilec_bound_tensor(const tilec_bound* bound, size_t i);  // its name; "": there is none
void tilec_bound_free(tilec_bound* bound);

// Bound launches that run one after the other, handed to a GPU as one CUDA graph; the emulator runs
// each. A bound that was added may be freed.
typedef struct tilec_graph tilec_graph;
tilec_status* tilec_graph_create(tilec_device* device, tilec_graph** graph);
// `number` (may be NULL) gets the launch's place, from 0.
tilec_status* tilec_graph_add(tilec_graph* graph, const tilec_bound* bound, size_t* number);
// Other addresses for a launch, from the next tilec_graph_launch on.
tilec_status* tilec_graph_move(tilec_graph* graph, size_t number, const uint64_t* addresses,
                               size_t count);
tilec_status* tilec_graph_launch(tilec_graph* graph, int32_t stream);
void tilec_graph_free(tilec_graph* graph);

// Bundles: kernels built ahead of time by `tilec bundle`. With errors, devices and arguments they
// are all that libtilec_rt has, which needs no compiler on the machine. `bytes` may be released
// when the call returns; a file is kept open. Opening reads the index; a launch takes the build
// that fits the device and the arguments, and reads it if it is new.
typedef struct tilec_bundle tilec_bundle;
tilec_status* tilec_bundle_open(const char* path, tilec_bundle** bundle);
tilec_status* tilec_bundle_open_bytes(const void* bytes, size_t size, const char* name,
                                      tilec_bundle** bundle);
// The same without a copy: the bytes stay as they are while the bundle or a bound launch lives.
tilec_status* tilec_bundle_open_static(const void* bytes, size_t size, const char* name,
                                       tilec_bundle** bundle);
// Reads and checks every build, which launches do one by one. Says of each what is wrong.
tilec_status* tilec_bundle_verify(const tilec_bundle* bundle);
void tilec_bundle_free(tilec_bundle* bundle);
size_t tilec_bundle_count(const tilec_bundle* bundle);  // of kernels
const char* tilec_bundle_kernel(const tilec_bundle* bundle, size_t i);
// The signature of a kernel: tensors, scalars, then what is compiled in (is_static) and dims. Lives
// as long as the bundle; NULL behind the last. None if the kernel's first build is damaged.
size_t tilec_bundle_parameter_count(const tilec_bundle* bundle, const char* kernel);
const tilec_parameter* tilec_bundle_parameter(const tilec_bundle* bundle, const char* kernel,
                                              size_t i);
tilec_status* tilec_bundle_prepare(tilec_bundle* bundle, const char* kernel, tilec_device* device,
                                   const tilec_args* args);
tilec_status* tilec_bundle_launch(tilec_bundle* bundle, const char* kernel, tilec_device* device,
                                  const tilec_args* args, int32_t stream);
tilec_status* tilec_bundle_bind(tilec_bundle* bundle, const char* kernel, tilec_device* device,
                                const tilec_args* args, tilec_bound** bound);

#ifdef __cplusplus
}
#endif
