"""The same assessor in MLServer: a custom runtime of the open inference protocol."""

from __future__ import annotations

import json

from mlserver import MLModel
from mlserver.codecs import StringCodec
from mlserver.types import InferenceRequest, InferenceResponse

from tests.bench.services.assessor import PlainAssessor


class LabelQuality(MLModel):  # type: ignore[misc]  # the library is not part of the environment of mypy
    async def load(self) -> bool:
        self._assessor = PlainAssessor()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        given = {each.name: StringCodec.decode_input(each) for each in payload.inputs}
        found = self._assessor.assess(given["tokens"], given["labels"])
        return InferenceResponse(
            model_name=self.name, outputs=[StringCodec.encode_output("assessment", [json.dumps(found)])]
        )
