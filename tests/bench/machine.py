"""What a figure was measured on: the processor, what it can do with int8, and how many cores the process may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

CPU_INFO = Path("/proc/cpuinfo")
# The instructions that decide how fast int8 runs, the fastest first.
INSTRUCTIONS = {"avx512_vnni": "AVX-512 VNNI", "avx_vnni": "AVX-VNNI", "avx512f": "AVX-512", "avx2": "AVX2"}


def describe_machine(cpu_info: Path = CPU_INFO) -> dict[str, Any]:
    fields = _read_first_processor(cpu_info)
    flags = set(fields.get("flags", "").split())
    return {
        "cpu": fields.get("model name", "unknown"),
        "instructions": next((text for flag, text in INSTRUCTIONS.items() if flag in flags), ""),
        "cores": len(os.sched_getaffinity(0)),
    }


def _read_first_processor(cpu_info: Path) -> dict[str, str]:
    if not cpu_info.exists():
        return {}
    lines = cpu_info.read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
