/* What the compiled core computes. Every function has a twin in Python, named beside it, that gives the same bits. */
#ifndef ULMUS_CORE_H
#define ULMUS_CORE_H

#include <stddef.h>
#include <stdint.h>

/* A loop is compiled for several processors, and the machine takes the best that it has. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && __GNUC__ >= 12
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif

/* Rows in cells, place[row * stride + column], and how many cells each column has. Those of an ordered column are
   intervals, and rows in cells behind a cut are above it; those of others are levels, and rows at the cut are, if it is
   not 0. */
typedef struct {
    const uint8_t *place;
    int64_t stride;
    const int64_t *sizes;
    const int64_t *ordered;
} Table;

/* Trees: threshold[t * depth + level] of the column feature[t * depth + level], value[(t << depth) + leaf, output]. */
typedef struct {
    const int64_t *feature;
    const double *threshold;
    const double *value;
    int64_t count, depth, outputs;
} Trees;

/* The most levels that a tree has. */
#define DEEPEST 8

/* solvers/tree_steps.py, grown, from derivatives of all rows, by n of them: 0, or -1 where there is no memory */
int grow_tree(Table table, const int64_t *columns, int64_t width, const int64_t *rows, const double *g,
              const double *h, int64_t n, double of_g, double of_h, float penalty, int depth, int64_t *column,
              int64_t *cut);

/* solvers/tree_steps.py, reached */
void reach_leaves(Table table, int64_t n, const int64_t *column, const int64_t *cut, int depth, uint8_t *leaf);

/* solvers/tree_steps.py, summed and added */
void sum_leaves(const uint8_t *leaf, const double *x, int64_t n, double *sums);
void add_leaves(const uint8_t *leaf, const double *value, int64_t n, double *fitted);

/* solvers/tree_steps.py, answered */
int answer_rows(const Trees *trees, const double *U, int64_t n, int64_t width, double *out);

/* features/distances.py, cityblock: between n rows of X and m of Z, out[row * m + other] */
int sum_differences(const double *X, int64_t n, const double *Z, int64_t m, int64_t d, double *out);

#endif
