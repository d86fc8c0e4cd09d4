"""Noise finding: features, the noise rate, a noise probability for each interaction, flags, audits, and issues."""

from prorec.noise.account_issues import find_issues
from prorec.noise.finder import NoiseFinder
from prorec.noise.flag_audit import FlagAudit, Verdicts, audit_flags, draw_flagged, read_verdicts, recalibrate
from prorec.noise.flag_error_bound import bound_wrong_share
from prorec.noise.injection_checks import InjectionCheck
from prorec.noise.issues import Issues
from prorec.noise.noise_rate import NoiseRateEstimate

__all__ = [
    "FlagAudit",
    "InjectionCheck",
    "Issues",
    "NoiseFinder",
    "NoiseRateEstimate",
    "Verdicts",
    "audit_flags",
    "bound_wrong_share",
    "draw_flagged",
    "find_issues",
    "read_verdicts",
    "recalibrate",
]
