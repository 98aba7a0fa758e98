/* ulmus._core: the compiled core as functions of arrays, whose types and sizes are checked before anything is read.

   The interpreter's lock is let go of while they work. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#include "core.h"

#define MOST_ARRAYS 9

/* The arrays of one call. */
typedef struct {
    Py_buffer views[MOST_ARRAYS];
    int taken;
} Arrays;

static void give_back(Arrays *arrays) {
    while (arrays->taken > 0) PyBuffer_Release(&arrays->views[--arrays->taken]);
}

/* The next argument as a contiguous array of one kind (B: bytes, q: whole numbers, d: numbers) and so many axes. */
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

/* Whether numbers, in some unit, add up to so little that sums of 32 bits hold them; not where one is not a number. */
static int is_small(const char *name, const Py_buffer *view, double unit) {
    const double *value = view->buf;
    double total = 0.0;
    for (int64_t i = 0; i < view->len / 8; i++) total += value[i] < 0 ? -value[i] : value[i];
    if (total * unit <= (double)(1 << 27)) return 1;
    PyErr_Format(PyExc_ValueError, "%s adds up to more than sums of it can hold, or is not finite", name);
    return 0;
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

/* grow(place, sizes, ordered, columns, rows, g, h, column, cut, of_g, of_h, penalty) */
static PyObject *grow(PyObject *Py_UNUSED(self), PyObject *const *given, Py_ssize_t count) {
    Arrays arrays = {.taken = 0};
    if (!many(count, 12)) return NULL;
    TAKE(place, "place", 'B', 2, 0);
    TAKE(sizes, "sizes", 'q', 1, 0);
    TAKE(ordered, "ordered", 'q', 1, 0);
    TAKE(columns, "columns", 'q', 1, 0);
    TAKE(rows, "rows", 'q', 1, 0);
    TAKE(g, "g", 'd', 1, 0);
    TAKE(h, "h", 'd', 1, 0);
    TAKE(column, "column", 'q', 1, 1);
    TAKE(cut, "cut", 'q', 1, 1);
    const double of_g = PyFloat_AsDouble(given[9]), of_h = PyFloat_AsDouble(given[10]);
    const double penalty = PyFloat_AsDouble(given[11]);
    NEED(!PyErr_Occurred());
    const int64_t stride = place->shape[1], n = rows->shape[0], depth = column->shape[0];
    NEED(is("sizes", sizes->shape[0], stride) && is("g", g->shape[0], place->shape[0]));
    NEED(is("h", h->shape[0], place->shape[0]));
    NEED(is("cut", cut->shape[0], depth) && within("columns", columns, 0, stride - 1));
    NEED(is("ordered", ordered->shape[0], stride));
    NEED(within("sizes", sizes, 1, 256) && within("rows", rows, 0, place->shape[0] - 1));
    NEED(is_small("g", g, of_g) && is_small("h", h, of_h));
    if (depth < 1 || depth > DEEPEST || columns->shape[0] < 1 || columns->shape[0] > 255 || n > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "trees have 1 to 8 levels, and ask 1 to 255 columns");
        goto end;
    }
    const Table table = {place->buf, stride, sizes->buf, ordered->buf};
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = grow_tree(table, columns->buf, columns->shape[0], rows->buf, g->buf, h->buf, n, of_g, of_h, (float)penalty,
                       (int)depth, column->buf, cut->buf);
    Py_END_ALLOW_THREADS
    if (failed) PyErr_NoMemory();
end:
    return finished(&arrays);
}

/* reach(place, ordered, column, cut, leaf) */
static PyObject *reach(PyObject *Py_UNUSED(self), PyObject *const *given, Py_ssize_t count) {
    Arrays arrays = {.taken = 0};
    if (!many(count, 5)) return NULL;
    TAKE(place, "place", 'B', 2, 0);
    TAKE(ordered, "ordered", 'q', 1, 0);
    TAKE(column, "column", 'q', 1, 0);
    TAKE(cut, "cut", 'q', 1, 0);
    TAKE(leaf, "leaf", 'B', 1, 1);
    const int64_t depth = column->shape[0], n = place->shape[0];
    NEED(is("cut", cut->shape[0], depth) && is("leaf", leaf->shape[0], n));
    NEED(is("ordered", ordered->shape[0], place->shape[1]) && within("column", column, 0, place->shape[1] - 1));
    if (depth > DEEPEST) {
        PyErr_SetString(PyExc_ValueError, "trees have 8 levels at most");
        goto end;
    }
    const Table table = {place->buf, place->shape[1], NULL, ordered->buf};
    Py_BEGIN_ALLOW_THREADS
    reach_leaves(table, n, column->buf, cut->buf, (int)depth, leaf->buf);
    Py_END_ALLOW_THREADS
end:
    return finished(&arrays);
}

/* tally(leaf, x, sums), or spread(leaf, value, fitted): one table of 256 numbers at most, and one number a row */
static PyObject *with_leaves(PyObject *const *given, Py_ssize_t count, int spreading) {
    Arrays arrays = {.taken = 0};
    if (!many(count, 3)) return NULL;
    TAKE(leaf, "leaf", 'B', 1, 0);
    TAKE(first, "the second", 'd', 1, 0);
    TAKE(out, "the third", 'd', 1, 1);
    const int64_t n = leaf->shape[0];
    const Py_buffer *table = spreading ? first : out, *each = spreading ? out : first;
    NEED(is("numbers", each->shape[0], n) && is("leaves", table->shape[0], 256));
    Py_BEGIN_ALLOW_THREADS
    if (spreading)
        add_leaves(leaf->buf, first->buf, n, out->buf);
    else
        sum_leaves(leaf->buf, first->buf, n, out->buf);
    Py_END_ALLOW_THREADS
end:
    return finished(&arrays);
}

static PyObject *tally(PyObject *Py_UNUSED(self), PyObject *const *given, Py_ssize_t count) {
    return with_leaves(given, count, 0);
}

static PyObject *spread(PyObject *Py_UNUSED(self), PyObject *const *given, Py_ssize_t count) {
    return with_leaves(given, count, 1);
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
static PyMethodDef functions[] = {FUNCTION(grow), FUNCTION(reach), FUNCTION(tally), FUNCTION(spread), FUNCTION(answer),
                                  FUNCTION(cityblock), {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_core", "The compiled core.", 0, functions, slots,
                                        NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
