"""The metrics that the paper publishes for the CoNLL-2003 test set.

Three settings: `bert` and `xlm` judge 5 classes (prefixes merged), `bert-unmerged` judges 9. Lift is at T + 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS: Final = ("bert", "xlm", "bert-unmerged")

SC: Final = "self-confidence"
NM: Final = "normalized-margin"
CWE: Final = "confidence-weighted-entropy"


class PaperRow(NamedTuple):
    """One row of the paper's tables: each metric for the three settings in order."""

    auprc: tuple[float, float, float]
    auroc: tuple[float, float, float]
    lift: tuple[float, float, float]


SENTENCE_METRICS: Final[Mapping[tuple[str, str | None], PaperRow]] = {
    ("predicted-difference", None): PaperRow((0.3422, 0.3412, 0.3190), (0.8639, 0.8633, 0.8559), (7.19, 6.59, 7.14)),
    ("bad-token-counts", None): PaperRow((0.3087, 0.3186, 0.3291), (0.8188, 0.8421, 0.8114), (7.30, 6.89, 8.03)),
    ("bad-token-counts-avg", SC): PaperRow((0.3740, 0.3697, 0.3768), (0.8934, 0.9033, 0.8718), (7.80, 7.09, 8.13)),
    ("bad-token-counts-avg", NM): PaperRow((0.3702, 0.3603, 0.3740), (0.8932, 0.9030, 0.8702), (7.60, 7.40, 8.13)),
    ("bad-token-counts-avg", CWE): PaperRow((0.3597, 0.3597, 0.3609), (0.8902, 0.9012, 0.8725), (7.30, 6.89, 7.24)),
    ("bad-token-counts-min", SC): PaperRow((0.3804, 0.3759, 0.3901), (0.9026, 0.9106, 0.8885), (7.80, 7.09, 8.23)),
    ("bad-token-counts-min", NM): PaperRow((0.3744, 0.3662, 0.3822), (0.9025, 0.9102, 0.8854), (7.60, 7.40, 8.13)),
    ("bad-token-counts-min", CWE): PaperRow((0.3695, 0.3602, 0.3607), (0.9023, 0.9091, 0.8892), (7.30, 6.89, 7.24)),
    ("good-fraction", None): PaperRow((0.3131, 0.3159, 0.2996), (0.8147, 0.8393, 0.8049), (5.88, 6.18, 5.45)),
    ("penalize-bad-tokens", SC): PaperRow((0.3423, 0.3321, 0.3229), (0.8151, 0.8396, 0.8053), (5.98, 6.18, 5.55)),
    ("penalize-bad-tokens", NM): PaperRow((0.3368, 0.3126, 0.3221), (0.8151, 0.8396, 0.8058), (5.98, 6.18, 5.65)),
    ("penalize-bad-tokens", CWE): PaperRow((0.3191, 0.3380, 0.3023), (0.8162, 0.8401, 0.8064), (6.38, 6.08, 5.75)),
    ("average-quality", SC): PaperRow((0.3022, 0.3349, 0.2574), (0.8553, 0.8895, 0.8079), (5.07, 5.88, 4.76)),
    ("average-quality", NM): PaperRow((0.3066, 0.3143, 0.2648), (0.8560, 0.8894, 0.8068), (5.07, 5.98, 4.66)),
    ("average-quality", CWE): PaperRow((0.2767, 0.3495, 0.2572), (0.8578, 0.8913, 0.8305), (5.37, 6.18, 5.26)),
    ("product", SC): PaperRow((0.3794, 0.3559, 0.3726), (0.8900, 0.8647, 0.8811), (7.30, 6.99, 7.24)),
    ("product", NM): PaperRow((0.3807, 0.3533, 0.3823), (0.8905, 0.8646, 0.8784), (7.60, 7.40, 7.64)),
    ("product", CWE): PaperRow((0.3519, 0.3783, 0.3359), (0.8870, 0.8683, 0.8783), (6.79, 7.09, 7.24)),
    ("expected-bad", SC): PaperRow((0.3383, 0.3485, 0.3532), (0.8946, 0.9026, 0.8724), (6.99, 6.48, 6.84)),
    ("expected-bad", NM): PaperRow((0.3776, 0.3227, 0.3513), (0.8948, 0.9017, 0.8705), (6.69, 6.48, 7.24)),
    ("expected-bad", CWE): PaperRow((0.3191, 0.3541, 0.2980), (0.8922, 0.9033, 0.8778), (6.59, 6.08, 7.34)),
    ("expected-alt", SC): PaperRow((0.3927, 0.3628, 0.3614), (0.8963, 0.9060, 0.8776), (6.99, 6.48, 6.94)),
    ("expected-alt", NM): PaperRow((0.3850, 0.3342, 0.3603), (0.8972, 0.9044, 0.8759), (6.89, 6.59, 7.24)),
    ("expected-alt", CWE): PaperRow((0.3335, 0.3620, 0.3114), (0.8950, 0.9048, 0.8825), (7.09, 6.89, 7.34)),
    ("worst-token", SC): PaperRow((0.4357, 0.4021, 0.4236), (0.9058, 0.9141, 0.8905), (9.02, 8.71, 8.83)),
    ("worst-token", NM): PaperRow((0.4243, 0.3963, 0.3933), (0.9059, 0.9134, 0.8852), (9.02, 8.71, 8.73)),
    ("worst-token", CWE): PaperRow((0.3215, 0.3815, 0.2974), (0.8996, 0.9121, 0.8834), (7.40, 7.90, 6.35)),
    ("worst-token-min-alt", SC): PaperRow((0.4408, 0.4019, 0.4181), (0.9066, 0.9140, 0.8897), (9.02, 8.71, 8.63)),
    ("worst-token-min-alt", NM): PaperRow((0.4238, 0.3965, 0.3945), (0.9058, 0.9135, 0.8861), (9.02, 8.71, 8.73)),
    ("worst-token-min-alt", CWE): PaperRow((0.3643, 0.3819, 0.3081), (0.9027, 0.9119, 0.8872), (7.90, 7.70, 7.83)),
    ("worst-token-softmin", SC): PaperRow((0.4402, 0.4063, 0.4171), (0.9026, 0.9074, 0.8878), (8.92, 8.82, 8.53)),
    ("worst-token-softmin", NM): PaperRow((0.4388, 0.3980, 0.4065), (0.9040, 0.9064, 0.8830), (9.83, 8.51, 9.12)),
    ("worst-token-softmin", CWE): PaperRow((0.3185, 0.3799, 0.2937), (0.8962, 0.9046, 0.8808), (7.50, 8.00, 6.35)),
}
"""By sentence score and token score (None if the method uses none)."""

TOKEN_METRICS: Final[Mapping[str, tuple[float, float]]] = {
    SC: (0.3483, 0.9545),
    NM: (0.3296, 0.9552),
    CWE: (0.2293, 0.9355),
}
"""AUPRC and AUROC of single words by token score, for `bert-unmerged`."""
