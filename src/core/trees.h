/* Steps of growing one tree, for whoever boosts. */
#ifndef ULMUS_TREES_H
#define ULMUS_TREES_H

#include "core.h"

/* Sums of derivatives, in their units, stay below sqrt(2) of the power of two with so many bits. */
#define BITS 25

/* What a tree needs while it grows. Rows of a node follow each other; a cell is an interval of a column. */
typedef struct {
    int64_t *left;  /* [node, cell]: sums up to every cell of its column */
    uint16_t *code; /* [row, column]: the cell of a drawn row */
    int64_t *x;     /* [row] */
    int32_t *order; /* drawn rows, node by node, and room for those of the next level */
    int32_t *next;
    float *gain;    /* [cell] */
} Room;

/* Room for trees of n rows at most, that ask `width` columns of so many cells together, and have so many nodes before
   their leaves; its owner frees `left`. -1 where there is no memory. */
int take_room(Room *room, int64_t n, int64_t width, int64_t cells, int64_t nodes);

/* x = h 2^32 + g of n rows, in units. */
void pack(const double *g, const double *h, const int64_t *rows, int64_t n, double of_g, double of_h, int64_t *x);

/* Column and cut of every level, from n of the rows, whose derivatives the room has. */
void grow_tree(Room room, Table table, const int64_t *columns, int64_t width, const int64_t *rows, int64_t n,
               float penalty, int depth, int64_t *column, int64_t *cut);

/* The leaf of every row, from the answers to all questions: the first is its first digit. */
void reach_leaves(Table table, int64_t n, const int64_t *column, const int64_t *cut, int depth, uint8_t *leaf);

#endif
