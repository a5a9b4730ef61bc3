/* What a call asks of a torch tensor, answered in C as torch answers: a class with DLPack's exchange
 * table, so that calls are tested and timed where there is no torch. Memory is given by address.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <Python.h>
#include <stdint.h>
#include <structmember.h>

#include "python/native/dlpack.h"

typedef struct {
  PyObject_HEAD
  uint64_t address;
  int64_t shape[4], strides[4];
  int rank, code, bits, device;
} Tensor;

static int g_asked = 0;
static uint64_t g_stream = 0;

static int TensorOf(void* object, DLTensor* out) {
  Tensor* t = object;
  ++g_asked;
  *out = (DLTensor){(void*)(uintptr_t)t->address, 2, t->device, t->rank, (uint8_t)t->code,
                    (uint8_t)t->bits, 1, t->shape, t->strides, 0};
  return 0;
}
static int CurrentStream(int32_t type, int32_t device, void** out) {
  (void)type, (void)device;
  *out = (void*)(uintptr_t)g_stream;
  return 0;
}

static Exchange g_api = {1, 3, NULL, NULL, NULL, NULL, TensorOf, CurrentStream};

/* Tensor(address, shape, code, bits, device): dense */
static int Init(PyObject* self, PyObject* args, PyObject* kwargs) {
  Tensor* t = (Tensor*)self;
  PyObject* shape;
  unsigned long long address;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "KO!iii", &address, &PyTuple_Type, &shape, &t->code, &t->bits,
                        &t->device))
    return -1;
  t->address = address;
  t->rank = (int)PyTuple_GET_SIZE(shape);
  int64_t step = 1;
  for (int i = t->rank - 1; i >= 0; --i) {
    t->shape[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
    t->strides[i] = step;
    step *= t->shape[i];
  }
  return 0;
}
static PyObject* Tuple(const int64_t* values, int n) {
  PyObject* out = PyTuple_New(n);
  for (int i = 0; i < n; ++i) PyTuple_SET_ITEM(out, i, PyLong_FromLongLong(values[i]));
  return out;
}
static PyObject* Shape(PyObject* self, void* unused) {
  (void)unused;
  return Tuple(((Tensor*)self)->shape, ((Tensor*)self)->rank);
}
static PyObject* Stride(PyObject* self, PyObject* unused) {
  (void)unused;
  return Tuple(((Tensor*)self)->strides, ((Tensor*)self)->rank);
}
static PyObject* DataPtr(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(((Tensor*)self)->address);
}
static PyObject* True_(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  Py_RETURN_TRUE;
}
static PyMethodDef kMethods[] = {{"data_ptr", DataPtr, METH_NOARGS, NULL},
                                 {"stride", Stride, METH_NOARGS, NULL},
                                 {"is_contiguous", True_, METH_NOARGS, NULL},
                                 {NULL, NULL, 0, NULL}};
static PyGetSetDef kGets[] = {{"shape", Shape, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef kMembers[] = {{"index", T_INT, offsetof(Tensor, device), 0, NULL},
                                 {"bits", T_INT, offsetof(Tensor, bits), 0, NULL},
                                 {"code", T_INT, offsetof(Tensor, code), 0, NULL},
                                 {"address", T_ULONGLONG, offsetof(Tensor, address), 0, NULL},
                                 {NULL, 0, 0, 0, NULL}};
static PyTypeObject kType = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "stand_in.Tensor",
                             .tp_basicsize = sizeof(Tensor),
                             .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                             .tp_new = PyType_GenericNew,
                             .tp_init = Init,
                             .tp_methods = kMethods,
                             .tp_getset = kGets,
                             .tp_members = kMembers};

static PyObject* Asked(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return PyLong_FromLong(g_asked);
}
static PyObject* SetStream(PyObject* self, PyObject* address) {
  (void)self;
  g_stream = PyLong_AsUnsignedLongLong(address);
  Py_RETURN_NONE;
}
static PyMethodDef kFunctions[] = {{"asked", Asked, METH_NOARGS, NULL},
                                   {"set_stream", SetStream, METH_O, NULL},
                                   {NULL, NULL, 0, NULL}};
static struct PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "stand_in", NULL, -1, kFunctions,
                                     NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_stand_in(void) {
  PyObject* api = PyCapsule_New(&g_api, "dlpack_exchange_api", NULL);
  kType.tp_dict = PyDict_New();
  PyDict_SetItemString(kType.tp_dict, "__dlpack_c_exchange_api__", api);
  Py_DECREF(api);
  if (PyType_Ready(&kType) != 0) return NULL;
  PyObject* module = PyModule_Create(&kModule);
  Py_INCREF(&kType);
  PyModule_AddObject(module, "Tensor", (PyObject*)&kType);
  return module;
}
