/* A kernel called again with torch tensors: look up what the call resolved to, launch it.
 *
 * The package does without this file (python/tilec/_kernel.py has the same in Python); with it a call
 * costs a microsecond or two less the driver's. It decides nothing: what it has not seen it hands to
 * the slow way, which says what the call resolved to, and that is kept by all that tells one call from
 * another but addresses: types, shapes, strides, dtypes, devices, alignment, values, names.
 *
 * Tensors are read by the exchange table of DLPack 1.3 (`__dlpack_c_exchange_api__` of their class):
 * no call of Python is made for an argument. Arrays without it take the slow way.
 *
 * Built for the stable interface of CPython 3.8, so that one file serves all versions.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03080000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "dlpack.h"

enum { kCuda = 2, kManaged = 13 };

/* The library's, by address. */
typedef void* (*LaunchFn)(const void* bound, int32_t stream);
typedef void* (*LaunchAtFn)(const void* bound, const uint64_t* addresses, size_t count,
                            int32_t stream);

enum { kMostKey = 192, kMostValues = 48, kMostKept = 4096, kMostTypes = 16 };

/* What a call looks like: `key` tells calls apart, the rest is what the call itself needs. */
typedef struct {
  uint64_t key[kMostKey];
  size_t length;
  PyObject* values[kMostValues]; /* borrowed: positional ones, then by name */
  uint64_t addresses[kMostValues];
  size_t count;
  const Exchange* api;
  int device; /* of the first tensor; -1: there is none */
} Look;

typedef struct Entry {
  struct Entry* next;
  uint64_t hash;
  size_t length;
  uint64_t* key;
  PyObject* names;     /* that are in the key as pointers */
  PyObject* keep;      /* what `bound` belongs to */
  PyObject* stream_of; /* a stream's address to our number */
  const void* bound;
  void* stream;        /* the last one, and its number */
  int32_t stream_number;
  size_t tensors, outs, made;
  int* from;           /* tensors: in the signature's order; a value, or -1 - a result that is made */
  int* out;            /* results: the same */
  PyObject** make;     /* results: callable, arguments, keywords */
  uint64_t* last;      /* addresses that `bound` has */
} Entry;

typedef struct {
  PyObject_HEAD
  PyObject* slow;      /* (args, kwargs) to (result, None or what it resolved to) */
  PyObject* fail;      /* raises what a status says */
  LaunchFn launch;
  LaunchAtFn launch_at;
  Entry* table[1024];
  size_t kept, busy; /* busy: calls under way, whose entries stay */
  unsigned long long hits;
} Caller;

/* Classes that were asked for the table; a class lives as long as this module. */
static struct {
  PyTypeObject* type;
  const Exchange* api; /* NULL: it has none */
} g_types[kMostTypes];
static size_t g_type_count = 0;

static const Exchange* ExchangeOf(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  for (size_t i = 0; i < g_type_count; ++i)
    if (g_types[i].type == type) return g_types[i].api;
  if (g_type_count == kMostTypes) return NULL;
  const Exchange* api = NULL;
  PyObject* capsule = PyObject_GetAttrString((PyObject*)type, "__dlpack_c_exchange_api__");
  if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api")) {
    api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (api && (api->major != 1 || !api->tensor_of || !api->current_stream)) api = NULL;
  }
  Py_XDECREF(capsule); /* the class keeps it */
  PyErr_Clear();
  Py_INCREF(type);
  g_types[g_type_count].type = type;
  g_types[g_type_count++].api = api;
  return api;
}

/* Null, and aligned to 1, 2, 4, 8, 16 or more bytes: what a choice of a program looks at. */
static uint64_t KindOf(uint64_t address) {
  if (address == 0) return 0;
  uint64_t kind = 1;
  while (kind < 5 && !(address & 1)) address >>= 1, ++kind;
  return kind;
}

/* 0: this call is not for the short way. */
static int PutTensor(Look* look, PyObject* value, const Exchange* api) {
  DLTensor t;
  memset(&t, 0, sizeof t);
  if (api->tensor_of(value, &t) != 0) return PyErr_Clear(), 0;
  if (t.device_type != kCuda && t.device_type != kManaged) return 0;
  const size_t words = 4 + 2 * (size_t)t.ndim;
  if (t.ndim < 0 || look->length + words > kMostKey) return 0;
  if (look->device >= 0 && look->device != t.device_id) return 0;
  look->device = t.device_id;
  look->api = api;
  const uint64_t address = (uint64_t)(uintptr_t)t.data + t.byte_offset;
  uint64_t* at = look->key + look->length;
  *at++ = (uint64_t)(uintptr_t)Py_TYPE(value);
  *at++ = KindOf(address) << 48 | (uint64_t)(uint32_t)t.ndim << 32 | (uint64_t)t.lanes << 16 |
          (uint64_t)t.code << 8 | t.bits;
  *at++ = (uint64_t)(uint32_t)t.device_type << 32 | (uint32_t)t.device_id;
  *at++ = t.strides != NULL;
  for (int i = 0; i < t.ndim; ++i) *at++ = (uint64_t)t.shape[i];
  for (int i = 0; i < t.ndim; ++i) *at++ = t.strides ? (uint64_t)t.strides[i] : 0;
  look->length += words;
  look->addresses[look->count] = address;
  return 1;
}

static int Put(Look* look, PyObject* value) {
  if (look->count == kMostValues || look->length + 2 > kMostKey) return 0;
  PyTypeObject* type = Py_TYPE(value);
  uint64_t word = 0;
  if (type == &PyBool_Type) {
    word = value == Py_True;
  } else if (type == &PyLong_Type) {
    int overflow = 0;
    word = (uint64_t)PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow) return 0;
  } else if (type == &PyFloat_Type) {
    const double d = PyFloat_AsDouble(value);
    memcpy(&word, &d, 8);
  } else {
    const Exchange* api = ExchangeOf(value);
    if (!api || !PutTensor(look, value, api)) return 0;
    look->values[look->count++] = value;
    return 1;
  }
  look->key[look->length++] = (uint64_t)(uintptr_t)type;
  look->key[look->length++] = word;
  look->values[look->count++] = value;
  return 1;
}

static int LookAt(Look* look, PyObject* args, PyObject* kwargs) {
  look->length = look->count = 0;
  look->device = -1;
  look->api = NULL;
  const Py_ssize_t n = PyTuple_Size(args);
  look->key[look->length++] = (uint64_t)n;
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!Put(look, PyTuple_GetItem(args, i))) return 0;
  if (kwargs) {
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(kwargs, &at, &name, &value)) {
      if (look->length == kMostKey) return 0;
      look->key[look->length++] = (uint64_t)(uintptr_t)name;
      if (!Put(look, value)) return 0;
    }
  }
  return look->device >= 0;
}

static uint64_t HashOf(const Look* look) {
  uint64_t h = look->length;
  for (size_t i = 0; i < look->length; ++i) {
    h = (h ^ look->key[i]) * 0xff51afd7ed558ccdULL;
    h ^= h >> 32;
  }
  return h;
}

static Entry** PlaceOf(Caller* self, uint64_t hash) {
  return &self->table[hash % (sizeof self->table / sizeof self->table[0])];
}

static Entry* Find(Caller* self, const Look* look, uint64_t hash) {
  for (Entry* e = *PlaceOf(self, hash); e; e = e->next)
    if (e->hash == hash && e->length == look->length &&
        memcmp(e->key, look->key, 8 * look->length) == 0)
      return e;
  return NULL;
}

static void FreeEntry(Entry* e) {
  for (size_t i = 0; i < 3 * e->made; ++i) Py_XDECREF(e->make[i]);
  Py_XDECREF(e->names);
  Py_XDECREF(e->keep);
  Py_XDECREF(e->stream_of);
  PyMem_Free(e->key);
  PyMem_Free(e->from);
  PyMem_Free(e->out);
  PyMem_Free(e->make);
  PyMem_Free(e->last);
  PyMem_Free(e);
}

static void Forget(Caller* self) {
  if (self->busy > 0) return;
  for (size_t i = 0; i < sizeof self->table / sizeof self->table[0]; ++i)
    while (self->table[i]) {
      Entry* e = self->table[i];
      self->table[i] = e->next;
      FreeEntry(e);
    }
  self->kept = 0;
}

/* A tuple of ints as an array, each a value's place or -1 - a result's. NULL with an exception. */
static int* Places(PyObject* tuple, size_t* count, size_t values, size_t made) {
  const Py_ssize_t n = PyTuple_Size(tuple);
  if (n < 0) return NULL;
  int* out = PyMem_Malloc(sizeof(int) * (size_t)(n + 1));
  if (!out) return (int*)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; ++i) {
    const long v = PyLong_AsLong(PyTuple_GetItem(tuple, i));
    if (PyErr_Occurred() || v >= (long)values || -1 - v >= (long)made) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a place outside of the call");
      PyMem_Free(out);
      return NULL;
    }
    out[i] = (int)v;
  }
  *count = (size_t)n;
  return out;
}

/* Keeps what the slow way resolved: (bound, keep, stream_of, tensors, outs, make). -1: exception. */
static int Keep(Caller* self, const Look* look, uint64_t hash, PyObject* kwargs, PyObject* info) {
  PyObject *bound, *keep, *stream_of, *tensors, *outs, *make;
  if (!PyArg_ParseTuple(info, "OOOO!O!O!", &bound, &keep, &stream_of, &PyTuple_Type, &tensors,
                        &PyTuple_Type, &outs, &PyTuple_Type, &make))
    return -1;
  Entry* e = PyMem_Calloc(1, sizeof *e);
  if (!e) return PyErr_NoMemory(), -1;
  e->hash = hash;
  e->length = look->length;
  e->bound = PyLong_AsVoidPtr(bound);
  const size_t made = (size_t)PyTuple_Size(make);
  e->key = PyMem_Malloc(8 * look->length);
  e->make = PyMem_Calloc(3 * made + 1, sizeof *e->make);
  e->from = Places(tensors, &e->tensors, look->count, made);
  e->out = e->from ? Places(outs, &e->outs, look->count, made) : NULL;
  e->last = PyMem_Calloc(e->tensors + 1, sizeof *e->last);
  e->names = kwargs ? PyDict_Keys(kwargs) : NULL;
  if (!e->key || !e->make || !e->from || !e->out || !e->last || PyErr_Occurred() ||
      e->tensors > kMostValues || made > kMostValues) {
    if (!PyErr_Occurred()) PyErr_NoMemory();
    return FreeEntry(e), -1;
  }
  memcpy(e->key, look->key, 8 * look->length);
  for (size_t i = 0; i < e->tensors; ++i)
    if (e->from[i] >= 0) e->last[i] = look->addresses[e->from[i]]; /* made ones lie elsewhere */
  for (size_t i = 0; i < made; ++i) {
    PyObject* three = PyTuple_GetItem(make, (Py_ssize_t)i);
    e->made = i + 1;
    if (!PyArg_ParseTuple(three, "OO!O!", &e->make[3 * i], &PyTuple_Type, &e->make[3 * i + 1],
                          &PyDict_Type, &e->make[3 * i + 2])) {
      e->made = i;
      return FreeEntry(e), -1;
    }
    for (int k = 0; k < 3; ++k) Py_INCREF(e->make[3 * i + (size_t)k]);
  }
  Py_INCREF(keep), Py_INCREF(stream_of);
  e->keep = keep, e->stream_of = stream_of;
  if (self->kept >= kMostKept) Forget(self);
  Entry** place = PlaceOf(self, hash);
  e->next = *place;
  *place = e;
  ++self->kept;
  return 0;
}

/* Our number of torch's current stream; -1: exception. */
static int32_t StreamOf(Entry* e, const Look* look) {
  void* stream = NULL;
  if (look->api->current_stream(kCuda, look->device, &stream) != 0) return -1;
  if (!stream) return 0;
  if (stream != e->stream) {
    PyObject* number = PyObject_CallFunction(e->stream_of, "K",
                                             (unsigned long long)(uintptr_t)stream);
    if (!number) return -1;
    e->stream_number = (int32_t)PyLong_AsLong(number);
    Py_DECREF(number);
    if (PyErr_Occurred()) return -1;
    e->stream = stream;
  }
  return e->stream_number;
}

/* The results: `made` ones are this call's, which owns them. */
static PyObject* Results(const Entry* e, const Look* look, PyObject* const* made) {
  if (e->outs == 0) Py_RETURN_NONE;
  PyObject* all = e->outs == 1 ? NULL : PyTuple_New((Py_ssize_t)e->outs);
  if (e->outs != 1 && !all) return NULL;
  for (size_t i = 0; i < e->outs; ++i) {
    PyObject* one = e->out[i] >= 0 ? look->values[e->out[i]] : made[-1 - e->out[i]];
    Py_INCREF(one);
    if (!all) return one;
    PyTuple_SetItem(all, (Py_ssize_t)i, one);
  }
  return all;
}

/* 1: launched; 0: not for this way; -1: exception. */
static int Launch(Caller* self, Entry* e, const Look* look, PyObject* const* made) {
  uint64_t addresses[kMostValues];
  for (size_t i = 0; i < e->tensors; ++i) {
    if (e->from[i] >= 0) {
      addresses[i] = look->addresses[e->from[i]];
      continue;
    }
    DLTensor t;
    memset(&t, 0, sizeof t);
    PyObject* tensor = made[-1 - e->from[i]];
    const Exchange* api = ExchangeOf(tensor);
    if (!api || api->tensor_of(tensor, &t) != 0) return PyErr_Clear(), 0;
    addresses[i] = (uint64_t)(uintptr_t)t.data + t.byte_offset;
  }
  const int32_t stream = StreamOf(e, look);
  if (stream < 0) return -1;
  void* status = memcmp(addresses, e->last, 8 * e->tensors) == 0
                     ? self->launch(e->bound, stream)
                     : self->launch_at(e->bound, addresses, e->tensors, stream);
  if (!status) return ++self->hits, 1;
  PyObject* none = PyObject_CallFunction(self->fail, "K", (unsigned long long)(uintptr_t)status);
  Py_XDECREF(none);
  if (none) PyErr_SetString(PyExc_RuntimeError, "a launch failed");
  return -1;
}

/* NULL without an exception: not for this way. */
static PyObject* Again(Caller* self, Entry* e, const Look* look) {
  PyObject* made[kMostValues];
  size_t n = 0;
  int done = 1;
  ++self->busy; /* making results may run Python, which may call this again */
  for (; n < e->made; ++n) {
    made[n] = PyObject_Call(e->make[3 * n], e->make[3 * n + 1], e->make[3 * n + 2]);
    if (!made[n]) {
      done = -1;
      break;
    }
  }
  if (done == 1) done = Launch(self, e, look, made);
  PyObject* result = done == 1 ? Results(e, look, made) : NULL;
  while (n > 0) Py_DECREF(made[--n]);
  --self->busy;
  return result;
}

static PyObject* CallSlow(Caller* self, PyObject* args, PyObject* kwargs, const Look* look,
                          uint64_t hash) {
  PyObject* both = PyObject_CallFunctionObjArgs(self->slow, args, kwargs ? kwargs : Py_None, NULL);
  if (!both) return NULL;
  PyObject *result, *info;
  if (!PyArg_ParseTuple(both, "OO", &result, &info) ||
      (look && info != Py_None && Keep(self, look, hash, kwargs, info) != 0)) {
    Py_DECREF(both);
    return NULL;
  }
  Py_INCREF(result);
  Py_DECREF(both);
  return result;
}

static PyObject* Call(PyObject* object, PyObject* args, PyObject* kwargs) {
  Caller* self = (Caller*)object;
  Look look;
  if (!LookAt(&look, args, kwargs)) return CallSlow(self, args, kwargs, NULL, 0);
  const uint64_t hash = HashOf(&look);
  Entry* e = Find(self, &look, hash);
  if (!e) return CallSlow(self, args, kwargs, &look, hash);
  PyObject* result = Again(self, e, &look);
  if (result || PyErr_Occurred()) return result;
  return CallSlow(self, args, kwargs, NULL, 0);
}

static int Init(PyObject* object, PyObject* args, PyObject* kwargs) {
  Caller* self = (Caller*)object;
  PyObject *slow, *fail;
  unsigned long long launch, launch_at;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "OOKK", &slow, &fail, &launch, &launch_at)) return -1;
  if (self->slow) return PyErr_SetString(PyExc_TypeError, "made once"), -1;
  Py_INCREF(slow), Py_INCREF(fail);
  self->slow = slow, self->fail = fail;
  self->launch = (LaunchFn)(uintptr_t)launch;
  self->launch_at = (LaunchAtFn)(uintptr_t)launch_at;
  return 0;
}

static int Traverse(PyObject* object, visitproc visit, void* arg) {
  Caller* self = (Caller*)object;
  Py_VISIT(self->slow);
  Py_VISIT(self->fail);
  for (size_t i = 0; i < sizeof self->table / sizeof self->table[0]; ++i)
    for (Entry* e = self->table[i]; e; e = e->next) {
      Py_VISIT(e->keep);
      Py_VISIT(e->stream_of);
    }
  return 0;
}

static int Clear(PyObject* object) {
  Caller* self = (Caller*)object;
  Forget(self);
  Py_CLEAR(self->slow);
  Py_CLEAR(self->fail);
  return 0;
}

static void Dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  Clear(object);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

static PyObject* Forgotten(PyObject* object, PyObject* unused) {
  (void)unused;
  Forget((Caller*)object);
  Py_RETURN_NONE;
}
static PyObject* Hits(PyObject* object, PyObject* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(((Caller*)object)->hits);
}

static PyMethodDef kMethods[] = {
    {"forget", Forgotten, METH_NOARGS, "Forgets all calls."},
    {"hits", Hits, METH_NOARGS, "How many calls took the short way."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot kSlots[] = {{Py_tp_init, Init},         {Py_tp_call, Call},
                               {Py_tp_traverse, Traverse}, {Py_tp_clear, Clear},
                               {Py_tp_dealloc, Dealloc},   {Py_tp_methods, kMethods},
                               {Py_tp_new, PyType_GenericNew}, {0, NULL}};
static PyType_Spec kSpec = {"tilec._fast.Caller", sizeof(Caller), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, kSlots};
static struct PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "_fast", NULL, -1, NULL,
                                     NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__fast(void) {
  PyObject* module = PyModule_Create(&kModule);
  PyObject* type = module ? PyType_FromSpec(&kSpec) : NULL;
  if (!type || PyModule_AddObject(module, "Caller", type) != 0) {
    Py_XDECREF(type);
    Py_XDECREF(module);
    return NULL;
  }
  return module;
}
