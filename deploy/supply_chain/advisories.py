"""Known vulnerabilities of the packages that run in production, for `make advisories`.

pip-audit asks PyPI, which serves the Python Packaging Advisory Database of the PyPA.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

CLEAN, VULNERABLE, NOT_CHECKED = 0, 1, 3  # exit codes


class AuditOutcome(NamedTuple):
    exit_code: int
    report: str


def audit_lock(lock: Path) -> AuditOutcome:
    command = [sys.executable, "-m", "pip_audit", "-r", str(lock), "--no-deps", "--disable-pip", "--require-hashes"]
    ran = subprocess.run([*command, "--format", "json"], capture_output=True, check=False, text=True)
    try:
        dependencies = json.loads(ran.stdout)["dependencies"]
    except (ValueError, KeyError):
        return AuditOutcome(
            NOT_CHECKED, f"{lock.name}: nothing was checked: pip-audit failed: {ran.stderr.strip()[-300:]}"
        )
    return summarize(lock.name, dependencies)


def summarize(name: str, dependencies: list[dict[str, Any]]) -> AuditOutcome:
    """What the answers mean. pip-audit skips a package that its database does not answer for, and exits with 0."""
    skipped = [each for each in dependencies if "skip_reason" in each]
    checked = len(dependencies) - len(skipped)
    found = [
        f"  {each['name']} {each.get('version')}: {', '.join(advisory['id'] for advisory in each['vulns'])}"
        for each in dependencies
        if each.get("vulns")
    ]
    if not checked:
        return AuditOutcome(NOT_CHECKED, f"{name}: nothing was checked: no advisory database is reachable")
    lines = [
        f"{name}: {checked} of {len(dependencies)} packages checked, {len(found)} with known vulnerabilities",
        *found,
    ]
    lines += [f"  {each['name']}: not checked: {each['skip_reason']}" for each in skipped]
    if found:
        return AuditOutcome(VULNERABLE, "\n".join(lines))
    return AuditOutcome(NOT_CHECKED if skipped else CLEAN, "\n".join(lines))
