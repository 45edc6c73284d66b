"""Words to subwords to probabilities, and back to words."""

import os

# ONNX Runtime reads it when it is loaded. Without it, it writes an id of the machine to disk and sends events to Microsoft.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
