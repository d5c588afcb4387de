"""Another program on the card: `holder.py BYTES [--rehearse]` holds them until its standard input ends."""

import importlib.util
import os
import sys
import types
from pathlib import Path

MODEL = Path(__file__).parent / "models" / "holds_gpu_memory" / "1" / "model.py"


def main() -> None:
    """Allocate as the model does, say so, and wait."""
    sys.modules["triton_python_backend_utils"] = types.ModuleType("triton_python_backend_utils")
    spec = importlib.util.spec_from_file_location("holds", MODEL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    size = int(sys.argv[1])
    rehearse = "--rehearse" in sys.argv
    held = bytearray(os.urandom(1 << 20)) * (size >> 20) if rehearse else module.hold_on_gpu(size)
    print("holds", flush=True)
    sys.stdin.read()
    del held


if __name__ == "__main__":
    main()
