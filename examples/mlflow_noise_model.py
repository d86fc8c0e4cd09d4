"""A trained denoiser as an MLflow model: score data frames wherever MLflow serves models.

Train one with `prorec train clicks.csv --denoise --out model/`, then run
`python examples/mlflow_noise_model.py model/ noise-model/`.
"""

from __future__ import annotations

import sys
from typing import Any

import mlflow.pyfunc
import numpy as np
import pandas as pd

import prorec


class NoiseModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """Score clicks with the denoiser in the artifact `denoiser`."""

    def load_context(self, context: Any) -> None:
        """Load the denoiser once."""
        denoiser = prorec.load(context.artifacts["denoiser"])
        assert isinstance(denoiser, prorec.ProRec), "train it with prorec train --denoise"
        self.denoiser = denoiser

    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> pd.DataFrame:
        """Return noise_probability and basis of each row of a table with the columns user and item, in its order."""
        pairs = model_input[["user", "item"]]
        scores = self.denoiser.score(pairs, "pandas")
        # The scores have one row for each distinct pair.
        found = pairs.astype(str).merge(scores.astype({"user": str, "item": str}), on=["user", "item"], how="left")
        result: pd.DataFrame = found[["noise_probability", "basis"]].set_axis(model_input.index)
        return result.astype({"noise_probability": np.float32})


def save_noise_model(denoiser: str, path: str) -> None:
    """Write a folder with a denoiser as an MLflow model; `mlflow.pyfunc.load_model(path)` reads it."""
    mlflow.pyfunc.save_model(
        path,
        python_model=NoiseModel(),
        artifacts={"denoiser": denoiser},
        code_paths=[__file__],
        pip_requirements=[f"prorec=={prorec.__version__}", "pandas"],
    )


if __name__ == "__main__":
    save_noise_model(*sys.argv[1:3])
