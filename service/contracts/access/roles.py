"""The roles of keys and users. `service/api/access/rules.py` says what each may call."""

from __future__ import annotations

from typing import Final, Literal, get_args

Role = Literal["annotator", "reviewer", "admin", "send", "score", "read", "label-studio", "inception"]

KEY_NAME_PATTERN: Final = r"[a-zA-Z0-9._@-]{1,64}"
KEY_NAME_RULE: Final = "use at most 64 letters, digits, dots, dashes, underscores and @"
CREATE_ADMIN_KEY: Final = "create one with `labelwatch key new --name NAME --role admin`"
ROLES: Final[tuple[Role, ...]] = get_args(Role)
# Their keys are part of an address, and for one dataset. The path begins with the role.
ADDRESS_ROLES: Final[tuple[Role, ...]] = ("label-studio", "inception")
# People have the first three. The others are for programs.
ROLE_DESCRIPTIONS: Final[dict[Role, str]] = {
    "annotator": "sees what concerns its own annotations",
    "reviewer": "reads everything, scores, claims items and decides",
    "admin": "may do everything",
    "send": "sends sentences, also as a webhook",
    "score": "scores sentences",
    "read": "reads everything, and scores",
    "label-studio": "is part of the address of a model in Label Studio, for one dataset",
    "inception": "is part of the address of a recommender in INCEpTION, for one dataset",
}
