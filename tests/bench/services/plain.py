"""A plain service: FastAPI, transformers and cleanlab, as the tutorials of the three show it.

python -m tests.bench.services.plain PORT
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from tests.bench.services.assessor import PlainAssessor


class Sentence(BaseModel):
    tokens: list[str]
    labels: list[str]


def create_app() -> FastAPI:
    assessor = PlainAssessor()
    app = FastAPI()

    @app.get("/ready")
    def ready() -> dict[str, bool]:
        return {"ready": True}

    @app.post("/score")
    def score(sentence: Sentence) -> dict[str, Any]:
        return assessor.assess(sentence.tokens, sentence.labels)

    return app


if __name__ == "__main__":
    uvicorn.run(create_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
