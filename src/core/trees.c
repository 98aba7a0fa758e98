/* Symmetric trees: thresholds by histograms of derivatives, leaves of rows, and answers.

   All nodes of a level ask one column for one threshold. A number holds both derivatives of a row: h in the upper half,
   g, which has a sign, in the lower one. They are whole, so that no sum hangs on its order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trees.h"

/* Rows that are asked all trees together: a block of columns of so many stays in the cache. */
#define ASKED 64

int take_room(Room *room, int64_t n, int64_t width, int64_t cells, int64_t nodes) {
    const size_t sizes[] = {(size_t)(nodes * cells) * sizeof(int64_t),
                            (size_t)(n * width) * sizeof(uint16_t),
                            (size_t)n * sizeof(int64_t),
                            (size_t)n * sizeof(int32_t),
                            (size_t)n * sizeof(int32_t),
                            (size_t)cells * sizeof(float)};
    size_t total = 64, at[6];
    for (int k = 0; k < 6; k++) {
        at[k] = total;
        total += (sizes[k] + 63) & ~(size_t)63;
    }
    char *begin = malloc(total);
    if (begin == NULL) return -1;
    room->left = (int64_t *)begin; /* the block begins where the first array would */
    room->code = (uint16_t *)(begin + at[1] - at[0]);
    room->x = (int64_t *)(begin + at[2] - at[0]);
    room->order = (int32_t *)(begin + at[3] - at[0]);
    room->next = (int32_t *)(begin + at[4] - at[0]);
    room->gain = (float *)(begin + at[5] - at[0]);
    return 0;
}

FOR_EVERY_PROCESSOR
void pack(const double *g, const double *h, const int64_t *rows, int64_t n, double of_g, double of_h,
                 int64_t *x) {
    for (int64_t i = 0; i < n; i++) {
        const int32_t low = (int32_t)rint(of_g * g[rows[i]]), high = (int32_t)rint(of_h * h[rows[i]]);
        x[i] = (int64_t)high * ((int64_t)1 << 32) + low;
    }
}

/* The cells of rows in the columns that are asked, each after those of the columns before it. */
FOR_EVERY_PROCESSOR
static void encode(const Room *room, const Table *table, const int64_t *columns, int64_t width, const int64_t *rows,
                   int64_t n) {
    uint16_t first[256], last[256];
    int64_t cells = 0;
    int every = 1;
    for (int64_t c = 0; c < width; c++) {
        first[c] = (uint16_t)cells;
        last[c] = (uint16_t)(table->sizes[columns[c]] - 1); /* there is no other cell behind it */
        cells += table->sizes[columns[c]];
        every &= columns[c] == c;
    }
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *place = table->place + rows[i] * table->stride;
        uint16_t *code = room->code + i * width;
        if (every)
            for (int64_t c = 0; c < width; c++) code[c] = (uint16_t)(first[c] + (place[c] < last[c] ? place[c] : last[c]));
        else
            for (int64_t c = 0; c < width; c++) {
                const uint16_t cell = place[columns[c]];
                code[c] = (uint16_t)(first[c] + (cell < last[c] ? cell : last[c]));
            }
    }
}

/* Sums of x over those of some rows that are not above a cut, for every cell as a cut; nothing is above level 0. */
static void count(int64_t *sums, const Room *room, const int32_t *rows, int64_t n, const Table *table,
                  const int64_t *columns, int64_t width, int64_t cells) {
    memset(sums, 0, (size_t)cells * sizeof(int64_t));
    for (int64_t i = 0; i < n; i++) {
        const uint16_t *code = room->code + rows[i] * width;
        const int64_t x = room->x[rows[i]];
        for (int64_t c = 0; c < width; c++) sums[code[c]] += x;
    }
    for (int64_t c = 0; c < width; c++) {
        const int64_t size = table->sizes[columns[c]];
        int64_t running = 0;
        if (table->ordered[columns[c]]) {
            for (int64_t cell = 0; cell < size; cell++) sums[cell] = running += sums[cell];
        } else {
            for (int64_t cell = 0; cell < size; cell++) running += sums[cell];
            sums[0] = running;
            for (int64_t cell = 1; cell < size; cell++) sums[cell] = running - sums[cell];
        }
        sums += size;
    }
}

/* What the sibling has: the sums of the node, less those of its other child. */
FOR_EVERY_PROCESSOR
static void subtract(int64_t *out, const int64_t *node, const int64_t *child, int64_t cells) {
    for (int64_t cell = 0; cell < cells; cell++) out[cell] = node[cell] - child[cell];
}

/* gain += g_l² / (h_l + λ) + g_r² / (h_r + λ), by one division, in one node, whose sums are all. */
FOR_EVERY_PROCESSOR
static void add_gains(float *gain, const int64_t *left, int64_t all, float penalty, int64_t cells) {
    const int64_t half = (int64_t)1 << 31;
    const int32_t all_g = (int32_t)all, all_h = (int32_t)((uint64_t)(all + half) >> 32);
    for (int64_t cell = 0; cell < cells; cell++) {
        const int32_t own_g = (int32_t)left[cell], own_h = (int32_t)((uint64_t)(left[cell] + half) >> 32);
        const float g = (float)own_g, h = (float)own_h + penalty;
        const float rest = (float)(all_g - own_g), other = (float)(all_h - own_h) + penalty;
        const float own = g * g * other, beyond = rest * rest * h;
        gain[cell] += (own + beyond) / (h * other);
    }
}

void grow_tree(Room room, Table table, const int64_t *columns, int64_t width, const int64_t *rows, int64_t n,
                      float penalty, int depth, int64_t *column, int64_t *cut) {
    int64_t cells = 0;
    for (int64_t c = 0; c < width; c++) cells += table.sizes[columns[c]];
    encode(&room, &table, columns, width, rows, n);
    for (int64_t i = 0; i < n; i++) room.order[i] = (int32_t)i;
    int64_t begin[(1 << DEEPEST) + 1] = {0, n};
    count(room.left, &room, room.order, n, &table, columns, width, cells);
    for (int level = 0;; level++) {
        const int nodes = 1 << level;
        const int64_t last = table.ordered[columns[0]] ? table.sizes[columns[0]] - 1 : 0;
        for (int64_t cell = 0; cell < cells; cell++) room.gain[cell] = 0.0f;
        for (int node = 0; node < nodes; node++) {
            const int64_t *left = room.left + node * cells;
            add_gains(room.gain, left, left[last], penalty, cells);
        }
        int64_t best = 0, asked = 0;
        for (int64_t cell = 1; cell < cells; cell++)
            if (room.gain[cell] > room.gain[best]) best = cell;
        const int64_t code = best;
        while (best >= table.sizes[columns[asked]]) best -= table.sizes[columns[asked++]];
        column[level] = columns[asked];
        cut[level] = best;
        if (level + 1 == depth) break;
        const int64_t ordered = table.ordered[columns[asked]];
        const uint16_t *own_code = room.code + asked; /* above it, or at it unless it is level 0 */
        const int64_t least = ordered || best > 0 ? code + ordered : INT32_MAX, most = ordered ? INT32_MAX : code;
        for (int node = nodes - 1; node >= 0; node--) { /* from the last one, whose children lie behind all others */
            const int64_t from = begin[node], to = begin[node + 1];
            int64_t below = from, above = 0;
            for (int64_t i = from; i < to; i++) {
                const int32_t row = room.order[i];
                const int64_t cell = own_code[row * width];
                const int over = cell >= least && cell <= most;
                room.order[below] = row; /* at i or before it */
                room.next[above] = row;
                below += !over;
                above += over;
            }
            memcpy(room.order + below, room.next, (size_t)above * sizeof(int32_t));
            begin[2 * node + 2] = to;
            begin[2 * node + 1] = below;
            begin[2 * node] = from;
            int64_t *own = room.left + node * cells, *first = room.left + 2 * node * cells, *second = first + cells;
            if (above < below - from) {
                count(second, &room, room.order + below, above, &table, columns, width, cells);
                subtract(first, own, second, cells);
            } else if (node > 0) {
                count(first, &room, room.order + from, below - from, &table, columns, width, cells);
                subtract(second, own, first, cells);
            } else { /* the first child of the first node takes its place */
                int64_t *spare = second;
                count(spare, &room, room.order + from, below - from, &table, columns, width, cells);
                for (int64_t cell = 0; cell < cells; cell++) {
                    const int64_t all = own[cell];
                    own[cell] = spare[cell];
                    spare[cell] = all - own[cell];
                }
            }
        }
    }
}

FOR_EVERY_PROCESSOR
void reach_leaves(Table table, int64_t n, const int64_t *column, const int64_t *cut, int depth, uint8_t *leaf) {
    memset(leaf, 0, (size_t)n);
    for (int level = 0; level < depth; level++) {
        const uint8_t *place = table.turned + column[level] * n, at = (uint8_t)cut[level];
        if (table.ordered[column[level]])
            for (int64_t i = 0; i < n; i++) leaf[i] = (uint8_t)(2 * leaf[i] + (place[i] > at));
        else if (at > 0)
            for (int64_t i = 0; i < n; i++) leaf[i] = (uint8_t)(2 * leaf[i] + (place[i] == at));
        else
            for (int64_t i = 0; i < n; i++) leaf[i] = (uint8_t)(2 * leaf[i]);
    }
}

/* Answers of all trees to a block of rows, of columns[feature * ASKED + row]; answers[output * ASKED + row]. */
FOR_EVERY_PROCESSOR
static void ask(const Trees *trees, const double *columns, double *answers) {
    const int64_t depth = trees->depth, outputs = trees->outputs;
    for (int64_t t = 0; t < trees->count; t++) {
        int64_t leaf[ASKED] = {0};
        for (int64_t level = 0; level < depth; level++) {
            const double *column = columns + trees->feature[t * depth + level] * ASKED;
            const double cut = trees->threshold[t * depth + level];
            for (int i = 0; i < ASKED; i++) leaf[i] = 2 * leaf[i] + (column[i] > cut);
        }
        const double *value = trees->value + (t << depth) * outputs;
        if (outputs > 1)
            for (int i = 0; i < ASKED; i++) leaf[i] *= outputs;
        for (int64_t k = 0; k < outputs; k++, value++)
            for (int i = 0; i < ASKED; i++) answers[k * ASKED + i] += value[leaf[i]];
    }
}

int answer_rows(const Trees *trees, const double *U, int64_t n, int64_t width, double *out) {
    const int64_t outputs = trees->outputs;
    double *columns = calloc((size_t)((width + outputs) * ASKED) + 1, sizeof(double));
    if (columns == NULL) return -1;
    double *answers = columns + width * ASKED;
    for (int64_t start = 0; start < n; start += ASKED) {
        const int64_t many = n - start < ASKED ? n - start : ASKED;
        double *own = out + start * outputs;
        for (int64_t i = 0; i < many; i++) {
            for (int64_t j = 0; j < width; j++) columns[j * ASKED + i] = U[(start + i) * width + j];
            for (int64_t k = 0; k < outputs; k++) answers[k * ASKED + i] = own[i * outputs + k];
        }
        ask(trees, columns, answers);
        for (int64_t i = 0; i < many; i++)
            for (int64_t k = 0; k < outputs; k++) own[i * outputs + k] = answers[k * ASKED + i];
    }
    free(columns);
    return 0;
}
