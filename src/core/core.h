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

/* Rows in cells, place[row * stride + column] and turned[column * rows + row], and how many cells each column has. Those
   of an ordered column are intervals, and rows in cells behind a cut are above it; those of others are levels, and rows at
   the cut are, if it is not 0. */
typedef struct {
    const uint8_t *place;
    const uint8_t *turned;
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

/* What trees choose their questions by: draws of the rows that they learn from, the columns that they ask, and, where
   there are several outputs, the direction in which derivatives are taken. */
typedef struct {
    const int64_t *learned;
    const uint16_t *digits; /* [tree, learned row]: the row is drawn where they are below the bound */
    const int64_t *columns; /* [tree, column] */
    const double *direction; /* [tree, output] */
    int64_t rows, bound, width;
} Drawn;

/* What is boosted: target[output * n + row] of rows that weigh so much, and how. */
typedef struct {
    const double *target;
    const double *weight;
    int64_t n, outputs;
    int by_log;
    double rate, penalty;
} Boosted;

/* solvers/tree_steps.py, boosted: column and cut of every level of each tree, and value[(t << depth) + leaf, output], and
   fitted[output * n + row] moved by them. 0, or NO_MEMORY, or NOT_FINITE where derivatives do not add up. */
enum { NO_MEMORY = -1, NOT_FINITE = -2 };
int boost_trees(Table table, Drawn drawn, Boosted boosted, int64_t count, int depth, double *fitted,
                int64_t *column, int64_t *cut, double *value);

/* solvers/tree_steps.py, answered */
int answer_rows(const Trees *trees, const double *U, int64_t n, int64_t width, double *out);

/* features/distances.py, cityblock: between n rows of X and m of Z, out[row * m + other] */
int sum_differences(const double *X, int64_t n, const double *Z, int64_t m, int64_t d, double *out);

#endif
