"""`python -m deploy.supply_chain sbom ENVIRONMENT FOLDER` and `python -m deploy.supply_chain advisories`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from deploy.supply_chain.advisories import audit_lock
from deploy.supply_chain.sbom import write_boms

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.supply_chain", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    sbom = commands.add_parser("sbom", help="write bills of materials")
    sbom.add_argument("environment", type=Path, help="an environment of deploy/install")
    sbom.add_argument("folder", type=Path, help="where the bills go")
    commands.add_parser("advisories", help="look for known vulnerabilities in the lock file of serving")
    options = parser.parse_args()
    if options.command == "sbom":
        for path in write_boms(ROOT, options.environment, options.folder):
            sys.stdout.write(f"{path}\n")
        return 0
    outcome = audit_lock(ROOT / "deploy" / "requirements" / "serving.txt")
    sys.stdout.write(outcome.report + "\n")
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
