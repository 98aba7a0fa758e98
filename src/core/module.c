/* ulmus._core: the compiled core as functions of arrays, whose types and sizes are checked before anything is read.

   The interpreter's lock is let go of while they work. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#include "core.h"

#define MOST_ARRAYS 14

/* The arrays of one call. */
typedef struct {
    Py_buffer views[MOST_ARRAYS];
    int taken;
} Arrays;

static void give_back(Arrays *arrays) {
    while (arrays->taken > 0) PyBuffer_Release(&arrays->views[--arrays->taken]);
}

/* The next argument as a contiguous array of one kind (B: bytes, H: of two, q: whole numbers, d: numbers) and so many axes. */
static Py_buffer *next_array(Arrays *arrays, PyObject *const *given, const char *name, char kind, int axes,
                             int written) {
    Py_buffer *view = &arrays->views[arrays->taken];
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (written ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(given[arrays->taken], view, flags)) return NULL;
    arrays->taken++;
    const char *format = view->format;
    const int fits = kind == 'q' ? view->itemsize == 8 && (*format == 'q' || *format == 'l') : *format == kind;
    if (!fits || format[1] != 0 || view->ndim != axes) {
        PyErr_Format(PyExc_TypeError, "%s has to be an array of %d axes and kind %c; it has %d of kind %s", name, axes,
                     kind, view->ndim, format);
        return NULL;
    }
    return view;
}

static int is(const char *name, int64_t size, int64_t expected) {
    if (size != expected)
        PyErr_Format(PyExc_ValueError, "%s should have %lld, got %lld", name, (long long)expected, (long long)size);
    return size == expected;
}

static int within(const char *name, const Py_buffer *view, int64_t first, int64_t last) {
    const int64_t *value = view->buf;
    for (int64_t i = 0; i < view->len / 8; i++) {
        if (value[i] < first || value[i] > last) {
            PyErr_Format(PyExc_IndexError, "%s has %lld, beyond %lld to %lld", name, (long long)value[i],
                         (long long)first, (long long)last);
            return 0;
        }
    }
    return 1;
}

static int many(Py_ssize_t given, Py_ssize_t expected) {
    if (given != expected) PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd", expected, given);
    return given == expected;
}

#define TAKE(view, name, kind, axes, written) \
    Py_buffer *view = next_array(&arrays, given, name, kind, axes, written); \
    if (view == NULL) goto end
#define NEED(condition) \
    if (!(condition)) goto end

static PyObject *finished(Arrays *arrays) {
    give_back(arrays);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* boost(place, turned, sizes, ordered, learned, digits, columns, direction, target, weight, fitted, column, cut, value,
   bound, by_log, rate, penalty) */
static PyObject *boost(PyObject *Py_UNUSED(self), PyObject *const *given, Py_ssize_t count) {
    Arrays arrays = {.taken = 0};
    if (!many(count, 18)) return NULL;
    TAKE(place, "place", 'B', 2, 0);
    TAKE(turned, "turned", 'B', 2, 0);
    TAKE(sizes, "sizes", 'q', 1, 0);
    TAKE(ordered, "ordered", 'q', 1, 0);
    TAKE(learned, "learned", 'q', 1, 0);
    TAKE(digits, "digits", 'H', 2, 0);
    TAKE(columns, "columns", 'q', 2, 0);
    TAKE(direction, "direction", 'd', 2, 0);
    TAKE(target, "target", 'd', 2, 0);
    TAKE(weight, "weight", 'd', 1, 0);
    TAKE(fitted, "fitted", 'd', 2, 1);
    TAKE(column, "column", 'q', 2, 1);
    TAKE(cut, "cut", 'q', 2, 1);
    TAKE(value, "value", 'd', 3, 1);
    const int64_t bound = PyLong_AsLongLong(given[14]);
    const int by_log = PyObject_IsTrue(given[15]);
    const double rate = PyFloat_AsDouble(given[16]), penalty = PyFloat_AsDouble(given[17]);
    NEED(!PyErr_Occurred());
    const int64_t n = place->shape[0], stride = place->shape[1], outputs = target->shape[0];
    const int64_t trees = column->shape[0], depth = column->shape[1], width = columns->shape[1];
    NEED(is("turned", turned->shape[0], stride) && is("turned", turned->shape[1], n));
    NEED(is("sizes", sizes->shape[0], stride) && is("ordered", ordered->shape[0], stride));
    NEED(is("target", target->shape[1], n) && is("weight", weight->shape[0], n));
    NEED(is("fitted", fitted->shape[0], outputs) && is("fitted", fitted->shape[1], n));
    NEED(is("digits", digits->shape[0], trees) && is("digits", digits->shape[1], learned->shape[0]));
    NEED(is("columns", columns->shape[0], trees) && is("direction", direction->shape[0], trees));
    NEED(is("direction", direction->shape[1], outputs) && is("value", value->shape[0], trees));
    NEED(is("cut", cut->shape[0], trees) && is("cut", cut->shape[1], depth));
    if (depth < 1 || depth > DEEPEST || width < 1 || width > 255 || n > INT32_MAX || learned->shape[0] > n ||
        outputs < 1) {
        PyErr_SetString(PyExc_ValueError, "trees have 1 to 8 levels, ask 1 to 255 columns, and learn from each row once");
        goto end;
    }
    NEED(is("leaves", value->shape[1], (int64_t)1 << depth) && is("value", value->shape[2], outputs));
    NEED(within("sizes", sizes, 1, 256) && within("columns", columns, 0, stride - 1));
    NEED(within("learned", learned, 0, n - 1));
    const Table table = {place->buf, turned->buf, stride, sizes->buf, ordered->buf};
    const Drawn drawn = {learned->buf, digits->buf, columns->buf, direction->buf, learned->shape[0], bound, width};
    const Boosted boosted = {target->buf, weight->buf, n, outputs, by_log, rate, penalty};
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = boost_trees(table, drawn, boosted, trees, (int)depth, fitted->buf, column->buf, cut->buf, value->buf);
    Py_END_ALLOW_THREADS
    if (failed == NO_MEMORY) PyErr_NoMemory();
    if (failed == NOT_FINITE) PyErr_SetString(PyExc_ValueError, "derivatives do not add up to a finite number");
end:
    return finished(&arrays);
}

/* answer(feature, threshold, value, U, out) */
static PyObject *answer(PyObject *Py_UNUSED(self), PyObject *const *given, Py_ssize_t count) {
    Arrays arrays = {.taken = 0};
    if (!many(count, 5)) return NULL;
    TAKE(feature, "feature", 'q', 2, 0);
    TAKE(threshold, "threshold", 'd', 2, 0);
    TAKE(value, "value", 'd', 3, 0);
    TAKE(U, "U", 'd', 2, 0);
    TAKE(out, "out", 'd', 2, 1);
    const int64_t trees = feature->shape[0], depth = feature->shape[1], n = U->shape[0];
    NEED(is("threshold", threshold->shape[0], trees) && is("threshold", threshold->shape[1], depth));
    NEED(is("value", value->shape[0], trees) && is("out", out->shape[0], n));
    NEED(is("out", out->shape[1], value->shape[2]) && within("feature", feature, 0, U->shape[1] - 1));
    NEED(is("leaves", value->shape[1], depth < 62 ? (int64_t)1 << depth : -1));
    const Trees every = {feature->buf, threshold->buf, value->buf, trees, depth, value->shape[2]};
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = answer_rows(&every, U->buf, n, U->shape[1], out->buf);
    Py_END_ALLOW_THREADS
    if (failed) PyErr_NoMemory();
end:
    return finished(&arrays);
}

/* cityblock(X, Z, out) */
static PyObject *cityblock(PyObject *Py_UNUSED(self), PyObject *const *given, Py_ssize_t count) {
    Arrays arrays = {.taken = 0};
    if (!many(count, 3)) return NULL;
    TAKE(X, "X", 'd', 2, 0);
    TAKE(Z, "Z", 'd', 2, 0);
    TAKE(out, "out", 'd', 2, 1);
    const int64_t n = X->shape[0], m = Z->shape[0], d = X->shape[1];
    NEED(is("Z", Z->shape[1], d) && is("out", out->shape[0], n) && is("out", out->shape[1], m));
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = sum_differences(X->buf, n, Z->buf, m, d, out->buf);
    Py_END_ALLOW_THREADS
    if (failed) PyErr_NoMemory();
end:
    return finished(&arrays);
}

#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
static PyMethodDef functions[] = {FUNCTION(boost), FUNCTION(answer), FUNCTION(cityblock), {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_core", "The compiled core.", 0, functions, slots,
                                        NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
