"""The words that assessments and decisions use for reasons, kinds, evidence and verdicts; without pydantic, so that pure code can use them too."""

from __future__ import annotations

from typing import Literal

Reason = Literal["flagged", "update", "deleted", "control", "scored"]
SuspectKind = Literal["missed", "spurious", "type", "boundary"]
EvidenceKind = Literal["mentions", "older_mentions", "pattern"]
Verdict = Literal["error", "ok", "unsure"]
