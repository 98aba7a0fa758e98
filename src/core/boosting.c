/* Boosting: trees one after the other, each by the derivatives that those before it leave. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trees.h"

/* e^x, off by less than 1e-14 of it, by operations that every processor rounds alike. */
static inline double exponential(double x) {
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: behind it there are no fractions */
    x = x < -700.0 ? -700.0 : x;
    x = x > 700.0 ? 700.0 : x;
    const double shifted = x * 1.4426950408889634 + shift, k = shifted - shift;
    const double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    double sum = 1.0 / 39916800;
    sum = sum * r + 1.0 / 3628800;
    sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320;
    sum = sum * r + 1.0 / 5040;
    sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120;
    sum = sum * r + 1.0 / 24;
    sum = sum * r + 1.0 / 6;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    int64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (int64_t)((uint64_t)(bits + 1023) << 52); /* the last digits of what was shifted are k */
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

/* G and H, [output, row]: first and second derivatives of the loss of every row along its scores; of squares H is the
   weight, which is there already. `total` is room for a number of each row. */
FOR_EVERY_PROCESSOR
static void differentiate(const Boosted *of, const double *fitted, double *total, double *G, double *H) {
    const int64_t n = of->n;
    const double *w = of->weight;
    if (!of->by_log) {
        for (int64_t k = 0; k < of->outputs; k++)
            for (int64_t i = 0; i < n; i++) G[k * n + i] = w[i] * (fitted[k * n + i] - of->target[k * n + i]);
        return;
    }
    if (of->outputs == 1) {
        for (int64_t i = 0; i < n; i++) G[i] = 1.0 / (1.0 + exponential(-fitted[i]));
    } else {
        double *top = H; /* not yet in use */
        for (int64_t i = 0; i < n; i++) top[i] = fitted[i];
        for (int64_t k = 1; k < of->outputs; k++)
            for (int64_t i = 0; i < n; i++) top[i] = fitted[k * n + i] > top[i] ? fitted[k * n + i] : top[i];
        for (int64_t i = 0; i < n; i++) total[i] = 0.0;
        for (int64_t k = 0; k < of->outputs; k++) {
            for (int64_t i = 0; i < n; i++) {
                G[k * n + i] = exponential(fitted[k * n + i] - top[i]);
                total[i] += G[k * n + i];
            }
        }
        for (int64_t k = 0; k < of->outputs; k++)
            for (int64_t i = 0; i < n; i++) G[k * n + i] /= total[i];
    }
    for (int64_t k = 0; k < of->outputs; k++) {
        for (int64_t i = 0; i < n; i++) {
            const double p = G[k * n + i];
            H[k * n + i] = w[i] * (p * (1.0 - p));
            G[k * n + i] = w[i] * (p - of->target[k * n + i]);
        }
    }
}

/* Derivatives along a direction of the scores. */
FOR_EVERY_PROCESSOR
static void project(const Boosted *of, const double *direction, const double *G, const double *H, double *g,
                    double *h) {
    const int64_t n = of->n;
    for (int64_t i = 0; i < n; i++) g[i] = h[i] = 0.0;
    for (int64_t k = 0; k < of->outputs; k++) {
        const double v = direction[k], square = v * v, *own = of->by_log ? H + k * n : of->weight;
        for (int64_t i = 0; i < n; i++) {
            g[i] += v * G[k * n + i];
            h[i] += square * own[i];
        }
    }
}

/* The sum of sizes, in eight parts whose rows follow each other at a distance of eight. */
FOR_EVERY_PROCESSOR
static double sum_of_sizes(const double *x, int64_t n) {
    double part[8] = {0}, total = 0.0;
    const int64_t whole = n - n % 8;
    for (int64_t i = 0; i < whole; i += 8)
        for (int lane = 0; lane < 8; lane++) part[lane] += fabs(x[i + lane]);
    for (int lane = 0; lane < 8; lane++) total += part[lane];
    for (int64_t i = whole; i < n; i++) total += fabs(x[i]);
    return total;
}

/* The power of two next to a number; 1 for 0. */
static double power_of_two(double size) {
    int exponent;
    if (size == 0.0) return 1.0;
    const double mantissa = frexp(size, &exponent);
    return ldexp(1.0, mantissa < 0.7071067811865476 ? exponent - 1 : exponent);
}

/* Sums over the rows of every leaf, [leaf, (g of all outputs, h of all outputs)]. */
static void sum_leaves(const uint8_t *leaf, const double *G, const double *H, int64_t n, int64_t outputs, int64_t of_h,
                       double *sums) {
    for (int64_t i = 0; i < n; i++) {
        double *own = sums + leaf[i] * (outputs + of_h);
        for (int64_t k = 0; k < outputs; k++) own[k] += G[k * n + i];
        for (int64_t k = 0; k < of_h; k++) own[outputs + k] += H[k * n + i];
    }
}

static void add_leaves(const uint8_t *leaf, const double *value, int64_t n, int64_t outputs, double *fitted) {
    for (int64_t k = 0; k < outputs; k++)
        for (int64_t i = 0; i < n; i++) fitted[k * n + i] += value[leaf[i] * outputs + k];
}

int boost_trees(Table table, Drawn drawn, Boosted of, int64_t count, int depth, double *fitted,
                int64_t *column, int64_t *cut, double *value) {
    const int64_t n = of.n, outputs = of.outputs, leaves = (int64_t)1 << depth, of_h = of.by_log ? outputs : 1;
    int64_t cells = 0;
    for (int64_t t = 0; t < count; t++) {
        int64_t own = 0;
        for (int64_t c = 0; c < drawn.width; c++) own += table.sizes[drawn.columns[t * drawn.width + c]];
        cells = own > cells ? own : cells;
    }
    Room room = {0};
    double *G = malloc((size_t)(n * (2 * outputs + 3) + leaves * 2 * outputs + 1) * sizeof(double));
    int64_t *rows = malloc((size_t)(drawn.rows + 1) * sizeof(int64_t));
    uint8_t *leaf = malloc((size_t)n + 1);
    int failed = NO_MEMORY;
    if (G == NULL || rows == NULL || leaf == NULL) goto end;
    if (take_room(&room, drawn.rows, drawn.width, cells, leaves / 2)) goto end;
    double *H = G + n * outputs, *total = H + n * outputs, *g = total + n, *h = g + n, *sums = h + n;
    failed = NOT_FINITE;
    for (int64_t t = 0; t < count; t++, column += depth, cut += depth, value += leaves * outputs) {
        differentiate(&of, fitted, total, G, H);
        const double *own_g = G, *own_h = of.by_log ? H : of.weight;
        if (outputs > 1) {
            project(&of, drawn.direction + t * outputs, G, H, g, h);
            own_g = g, own_h = h;
        }
        const double size_g = sum_of_sizes(own_g, n), size_h = sum_of_sizes(own_h, n);
        if (!isfinite(size_g) || !isfinite(size_h)) goto end;
        const double unit = (double)((int64_t)1 << BITS), heavy = size_h > of.penalty ? size_h : of.penalty;
        const double of_weights = power_of_two(heavy);
        const uint16_t *digits = drawn.digits + t * drawn.rows;
        int64_t many = 0;
        for (int64_t i = 0; i < drawn.rows; i++) {
            rows[many] = drawn.learned[i];
            many += digits[i] < drawn.bound;
        }
        pack(own_g, own_h, rows, many, unit / power_of_two(size_g), unit / of_weights, room.x);
        grow_tree(room, table, drawn.columns + t * drawn.width, drawn.width, rows, many,
                  (float)(unit * of.penalty / of_weights), depth, column, cut);
        reach_leaves(table, n, column, cut, depth, leaf);
        memset(sums, 0, (size_t)(leaves * (outputs + of_h)) * sizeof(double));
        sum_leaves(leaf, G, of.by_log ? H : of.weight, n, outputs, of_h, sums);
        for (int64_t own = 0; own < leaves; own++) {
            for (int64_t k = 0; k < outputs; k++) {
                const double *sum = sums + own * (outputs + of_h);
                double step = -of.rate * sum[k] / (sum[outputs + (of.by_log ? k : 0)] + of.penalty);
                if (outputs > 1 && of.by_log) step *= (double)(outputs - 1) / (double)outputs; /* scores may move together */
                value[own * outputs + k] = step;
            }
        }
        add_leaves(leaf, value, n, outputs, fitted);
    }
    failed = 0;
end:
    free(room.left);
    free(leaf);
    free(rows);
    free(G);
    return failed;
}
