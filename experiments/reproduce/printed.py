"""What the documents print: sizes, parameters, figures with their deviations, and seconds. Benchmarks read it too."""

from dataclasses import dataclass

#: A mean and its deviation, None where the document gives none.
Figure = tuple[float, float | None]


@dataclass(frozen=True)
class Nkelm:
    """Sizes (Table 1), L and kernel width (Table 2), seconds (Table 3), accuracies in % (Table 4); None: no memory."""

    title: str
    n_train: int
    n_test: int
    L: int
    log2_gamma: float
    seconds: dict[str, float | None]
    accuracy: dict[str, float | None]


def _nkelm(nkelm: float, elm: float, kelm: float | None, svm: float) -> dict[str, float | None]:
    return {"NKELM": nkelm, "ELM": elm, "KELM": kelm, "SVM": svm}


NKELM = {
    "satimage": Nkelm(
        *("Satimage", 4435, 2000, 300, -2), _nkelm(6.69, 4.31, 45.07, 2.122), _nkelm(91.25, 89.80, 91.28, 90.00)
    ),
    "shuttle": Nkelm(
        *("Shuttle", 43500, 14500, 1000, 2), _nkelm(16.64, 32.76, None, 30.59), _nkelm(99.79, 99.74, None, 99.92)
    ),
    "skin_segmentation": Nkelm(
        *("SkinSeg", 145057, 100000, 450, 2), _nkelm(12.904, 43.924, None, 186.43), _nkelm(99.85, 99.79, None, 99.57)
    ),
    "ijcnn1": Nkelm(
        *("IJCNN", 49990, 91701, 1300, -2), _nkelm(31.35, 59.57, None, 267.0), _nkelm(98.22, 97.88, None, 98.35)
    ),
    "covtype": Nkelm(
        *("CovType", 464810, 116202, 1000, -2), _nkelm(53.9, 377.46, None, 2460.0), _nkelm(78.11, 77.86, None, 75.67)
    ),
}


@dataclass(frozen=True)
class Enda:
    """Errors and seconds (Table 2; None: overflow), and the nodes used here: L is known for the last two sets only."""

    title: str
    nodes: int
    error: dict[str, Figure | None]
    seconds: dict[str, float | None]


def _enda(title: str, nodes: int, *cells: tuple[float, float, float] | None) -> Enda:
    """Cells are (error, deviation, seconds)."""
    named = dict(zip(("KLDA", "NNDA", "ELM", "ENDA"), cells, strict=True))
    error: dict[str, Figure | None] = {m: None if cell is None else cell[:2] for m, cell in named.items()}
    return Enda(title, nodes, error, {method: None if cell is None else cell[2] for method, cell in named.items()})


ENDA = {
    "wine": _enda(
        *("Wine", 100, (0.053, 0.05, 0.5469), (0.065, 0.09, 8.8596), (0.026, 0.04, 0.0094), (0.015, 0.05, 0.6406)),
    ),
    "image_segmentation": _enda(
        *("Segment", 500, (0.026, 0.02, 45.2813), (0.038, 0.02, 4939.8)),
        *((0.045, 0.01, 0.2063), (0.027, 0.01, 3.2031)),
    ),
    "waveform21": _enda("Waveform", 300, (0.159, 0.02, 465.8594), None, (0.168, 0.01, 5.5672), (0.095, 0.13, 244.4688)),
    "pendigits": _enda(
        *("Pen-digits", 1000, (0.004, 0.002, 4863.7), (0.016, 0.003, 12646.0)),
        *((0.004, 0.004, 7.8625), (0.002, 0.001, 17.8781)),
    ),
    "letter": _enda(
        *("Letter", 1100, (0.047, 0.005, 25891.0), (0.051, 0.006, 12639.0)),
        *((0.060, 0.003, 13.6703), (0.022, 0.005, 971.375)),
    ),
    "sensorless_subset2200": _enda(
        "Sensorless (2,200 rows)", 500, None, None, (0.352, 0.002, 30.3544), (0.213, 0.003, 1321.3)
    ),
}


@dataclass(frozen=True)
class Kelmor:
    """Source and training rows, MZE and MAE (Table 4), seconds (Table 5)."""

    source: str
    n_train: int
    mze: dict[str, Figure]
    mae: dict[str, Figure]
    seconds: dict[str, float]


def _kelmor(source: str, n_train: int, mze: str, mae: str, seconds: str) -> Kelmor:
    methods = ("SVOR", "ELM", "KELM", "ELMOR", "KELMOR")

    def figures(text: str) -> dict[str, Figure]:
        pairs = (cell.split("±") for cell in text.split())
        return {method: (float(mean), float(spread)) for method, (mean, spread) in zip(methods, pairs, strict=True)}

    times = dict(zip(methods, map(float, seconds.split()), strict=True))
    return Kelmor(source, n_train, figures(mze), figures(mae), times)


KELMOR = {
    "Pyrim5": _kelmor(
        *("pyrimidines", 50),
        "0.498±0.102 0.634±0.085 0.567±0.061 0.576±0.094 0.495±0.068",
        "0.630±0.125 1.026±0.233 0.812±0.166 0.926±0.277 0.602±0.101",
        "0.0019 0.0064 0.0002 0.0061 0.0004",
    ),
    "CC5": _kelmor(
        *("cpu_act", 125),
        "0.330±0.014 0.623±0.050 0.442±0.019 0.535±0.051 0.385±0.016",
        "0.359±0.017 1.095±0.155 0.527±0.035 0.858±0.159 0.435±0.021",
        "0.1207 0.0264 0.0016 0.0303 0.0011",
    ),
    "Cal5": _kelmor(
        *("cal_housing", 150),
        "0.519±0.013 0.668±0.030 0.538±0.019 0.634±0.033 0.515±0.021",
        "0.628±0.021 1.052±0.078 0.739±0.046 1.024±0.122 0.616±0.018",
        "0.2502 0.0269 0.0016 0.0240 0.0011",
    ),
    "Census5": _kelmor(
        *("house_8L", 175),
        "0.566±0.012 0.683±0.036 0.589±0.021 0.640±0.025 0.563±0.014",
        "0.773±0.020 1.130±0.102 0.875±0.045 1.037±0.091 0.740±0.020",
        "0.3206 0.0086 0.0024 0.0066 0.0018",
    ),
    "Census*5": _kelmor(
        *("house_16H", 200),
        "0.562±0.022 0.666±0.011 0.576±0.015 0.631±0.016 0.556±0.013",
        "0.723±0.029 1.062±0.037 0.845±0.033 0.998±0.056 0.741±0.017",
        "0.4532 0.0450 0.0028 0.0377 0.0020",
    ),
}


@dataclass(frozen=True)
class Newton:
    """Source, sizes (Table 1; four rows from the ELM literature), RMSE (Table 4) and seconds (Table 3).

    Columns: Tikhonov, SVR, and the two Newton columns, which are not named; empty where the cells are lost.
    """

    source: str
    n_train: int
    n_test: int
    rmse: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()


NEWTON_COLUMNS = ("Tikhonov", "SVR", "Newton, polynomial", "Newton, square root")
#: Tikhonov's 0.535 on Machine CPU is almost surely a misprint of 0.0535.
NEWTON = {
    "Auto Price": Newton("auto_price", 80, 79, (0.0944, 0.0937, 0.0963, 0.0958), (0.0012, 0.0042, 0.0015, 0.0018)),
    "Breast Cancer": Newton(
        *("wisconsin_prognostic", 100, 94), (0.2623, 0.2643, 0.2622, 0.2678), (0.0006, 0.0064, 0.0006, 0.0013)
    ),
    "Triazines": Newton("triazines", 100, 86, (0.2004, 0.1829, 0.1990, 0.2000), (0.0016, 0.0086, 0.0019, 0.0019)),
    "Machine CPU": Newton("machine_cpu", 100, 109, (0.535, 0.0811, 0.0533, 0.0564), (0.0012, 0.0018, 0.0024, 0.0015)),
    "Abalone": Newton("abalone", 2000, 2177, (0.0768, 0.0784, 0.0771, 0.0768), (0.0115, 1.6123, 0.0250, 0.0435)),
    "Delta ailerons": Newton(
        *("delta_ailerons", 3000, 4129), (0.0391, 0.0429, 0.0390, 0.0392), (0.0165, 0.6726, 0.0640, 0.0992)
    ),
    "CPU activity": Newton("cpu_small", 4000, 4192, (0.0345, 0.0470, 0.0347, 0.0344), (0.1416, 1.0149, 0.6435, 2.0120)),
    "Delta elevators": Newton(
        *("delta_elevators", 4000, 5517), (0.0531, 0.0540, 0.0533, 0.0531), (0.0988, 1.121, 0.3321, 0.5058)
    ),
    "Cal housing": Newton(
        *("cal_housing", 8000, 12640), (0.1269, 0.1180, 0.1268, 0.1274), (0.1960, 74.184, 0.9913, 2.2597)
    ),
    "Census": Newton("house_8L", 10000, 12784),
}
