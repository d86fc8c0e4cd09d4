"""The quality gate: `--fail-above` ends a command with an exit code of its own if a log is too noisy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from prorec._core.checks import check_float
from prorec._core.errors import InputError
from prorec.cli.command import Options
from prorec.cli.exit_codes import FailedGateError
from prorec.denoise import ProRec
from prorec.noise.posterior import ACCOUNT, MARKED


@dataclass(frozen=True, kw_only=True)
class GateOptions(Options):
    """A limit on the noise of a log."""

    fail_above: float | None = None
    """End with exit code 4, after everything is written, if more than this share of the interactions is noise."""

    def check(self, noise_method: Any = None) -> None:
        """Refuse a limit that is no share, or that nothing could be compared with.

        Parameters
        ----------
        noise_method : str, optional
            How noise is found.

        Raises
        ------
        InputError
            If the limit is not from 0 to 1, or there will be no noise rate.
        """
        if self.fail_above is None:
            return
        check_float("fail_above", self.fail_above, 0, 1)
        if noise_method == "plan":
            raise InputError(
                "--fail-above requires a noise rate, which --noise-method plan does not have; leave out one"
            )

    def measure(self, share: float | None, *, is_identified: bool) -> dict[str, Any]:
        """Compare the noise of a log with the limit.

        Parameters
        ----------
        share : float or None
            Share of the interactions that counts as noise.
        is_identified : bool
            Whether that is an estimate and not an upper bound.

        Returns
        -------
        dict
            The values `gate` of the JSON result; None without `--fail-above`.
        """
        if self.fail_above is None:
            return {"gate": None}
        if share is None:
            raise InputError("--fail-above requires a noise rate, which this denoiser does not have; leave it out")
        basis = "estimate" if is_identified else "upper bound"
        passed = share <= self.fail_above
        return {"gate": {"limit": self.fail_above, "share": share, "basis": basis, "passed": passed}}

    def judge(self, result: Mapping[str, Any]) -> None:
        """End the command if the log is too noisy.

        Parameters
        ----------
        result : mapping
            With the values of `measure`.

        Raises
        ------
        FailedGateError
            If the share is above the limit.
        """
        gate = result["gate"]
        if gate is None or gate["passed"]:
            return
        counted = (
            f"{gate['share']:.1%} of the interactions count as noise"
            if gate["basis"] == "estimate"
            else f"This log cannot tell its noise, and up to {gate['share']:.1%} of the interactions may be noise"
        )
        raise FailedGateError(f"{counted}; --fail-above allows {gate['limit']:.1%}. All results were written.")


def count_noise(denoiser: ProRec) -> tuple[float | None, bool]:
    """Return the share of a log that counts as noise for the gate.

    All interactions of extreme accounts and those that are marked as suspect count. To the others applies the noise
    rate; if the log cannot tell it, its upper bound.

    Parameters
    ----------
    denoiser : ProRec
        A fitted denoiser.

    Returns
    -------
    share : float or None
        None if the denoiser has no noise rate.
    is_identified : bool
        Whether the share is an estimate and not an upper bound.
    """
    if denoiser.noise_method == "plan":
        return None, False
    finder = denoiser.finder_
    rate, basis = finder.noise_rate_, finder.basis_
    n_account = int((basis == ACCOUNT).sum())
    is_marked = basis == MARKED
    n_suspect = int(np.count_nonzero(finder.noise_probability_[is_marked]))
    n_others = len(basis) - n_account - int(is_marked.sum())
    share = rate.estimate if rate.is_identified else rate.high
    return (n_account + n_suspect + share * n_others) / len(basis), rate.is_identified
