/* Sums of absolute differences between rows. */
#include <math.h>
#include <stdlib.h>

#include "core.h"

/* Rows and columns of a tile: its sums stay in the nearest cache. */
#define ROWS 4
#define COLUMNS 32

/* tile[row][column] = sum over j of |x[row][j] - z[j][column]|, one j after the other. */
FOR_EVERY_PROCESSOR
static void add_tile(const double *const *x, const double *restrict z, int64_t d,
                     double tile[restrict ROWS][COLUMNS]) {
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) tile[row][column] = 0.0;
    for (int64_t j = 0; j < d; j++, z += COLUMNS) {
        for (int row = 0; row < ROWS; row++) {
            const double value = x[row][j];
            for (int column = 0; column < COLUMNS; column++) tile[row][column] += fabs(value - z[column]);
        }
    }
}

int sum_differences(const double *X, int64_t n, const double *Z, int64_t m, int64_t d, double *out) {
    double *z = calloc((size_t)(COLUMNS * d) + 1, sizeof(double));
    if (z == NULL) return -1;
    for (int64_t first = 0; first < m; first += COLUMNS) {
        const int64_t wide = m - first < COLUMNS ? m - first : COLUMNS;
        for (int64_t column = 0; column < wide; column++)
            for (int64_t j = 0; j < d; j++) z[j * COLUMNS + column] = Z[(first + column) * d + j];
        for (int64_t i = 0; i < n; i += ROWS) {
            const int64_t high = n - i < ROWS ? n - i : ROWS;
            const double *x[ROWS];
            double tile[ROWS][COLUMNS];
            for (int64_t row = 0; row < ROWS; row++) x[row] = X + (i + (row < high ? row : 0)) * d;
            add_tile(x, z, d, tile);
            for (int64_t row = 0; row < high; row++)
                for (int64_t column = 0; column < wide; column++)
                    out[(i + row) * m + first + column] = tile[row][column];
        }
    }
    free(z);
    return 0;
}
