"""The introduction of the page with all results, and the description of each experiment."""

from __future__ import annotations

import subprocess
from pathlib import Path

from prorec import __version__

HOW = {
    "noise": """80% of each user's interactions train and 20% test. False interactions are injected into the training
part; the level is their number relative to the true ones. A quarter of that part, noise included, is the validation
part. An interaction is below the threshold if ρ < ρ_κ, which the paper calls found. In the last column the weights of
the noise are 0, with the parameters of the model alone.""",
    "overall": "Tuned and evaluated as described above.",
    "ablation": """EMD, Sinkhorn and ROT have one threshold for all users, the σ-th largest value of a row, with σ among
5, 10, 15, 20 and 25; ProRec has personal thresholds. Seconds are those of fits with the parameters chosen for the model
alone.""",
    "case": "Fitted to all interactions, with the parameters chosen on the first split.",
}
"""Description of each experiment, beyond the introduction."""
HOW_CURVES = "Nothing is tuned here: one parameter takes each of its values, and the others stay fixed."
NO_YAHOO = """### yahoo-r1

Empty: Yahoo! R1 may not be redistributed.
"""


def introduction(command: str, trials: int, n_seeds: int, *, quick: bool) -> str:
    """Return the command, the protocol, and how to read the tables."""
    quick_note = """
**This was a quick run** on a small cinema, with three epochs for CDAE and VAE: it shows that everything works, no more.
"""
    return f"""# The paper, reproduced

Every table and figure of "Partial Relaxed Optimal Transport for Denoised Recommendation", computed by one command:

```
{command}
```

prorec {__version__}{_commit()}. This page is what that command wrote, word for word.
{quick_note if quick else ""}
**Protocol.** Each user's interactions are divided at random: 50% train, 20% validate, 30% test; {n_seeds} splits. On
each split, every row, baselines included, chooses its parameters on the validation part by NDCG@5. The search changes
one parameter at a time until no change helps, with at most {trials} trials. The best three are evaluated again on three
more divisions of the 70%. The best on average is then fitted to the 70% and evaluated once on the 30%. A row that
derives from another starts from the parameters chosen for that one, so it has had that one's trials too.

The grids are the paper's where it has them (deep models: learning rate, ζ, batch size; 50 epochs); β is 20, as in the
paper. Its γ of .05 to .175 is for scores of about 1; here it is .5 to 1.75 times `gamma="auto"`. The paper has no grids
for SVD, NCE and WRMF: ranks are 20 to 200, and regularizers and α grow in steps of three. With steps of ten, a model
whose regularizer is too weak gains from anything that makes its weights smaller.

NDCG, MAP and Recall are the paper's (NDCG's ideal is over all test items, MAP is the mean of precision at 1 to 5). ± is
half a 95% interval over splits. Percentages are relative to the mean of the model without ProRec. * is p < .01 in a
two-sided paired t-test over users, each with the mean over splits, without correction for the number of tests. Compare
gains with the paper's, not levels: the paper does not say for certain which part of the data its models learned from.

**Controls.** Relabelling also makes all weights smaller, which by itself is a stronger regularizer. So each row with
ProRec has controls with the same parameters: the model without denoising; all weights equal to ProRec's mean; ProRec's
weights shuffled among the interactions; ProRec's weights sorted by item popularity; for all clicks of a user the mean
of ProRec's weights for that user; and, where there is a regularizer, weights of 1 and twice the regularizer. A gain
that a control has too is not denoising. One that user means have too is a matter of how much each user counts.
"""


def _commit() -> str:
    """Return the commit of the code, and whether anything has changed since; empty outside a repository."""
    here = Path(__file__)
    outputs = []
    for arguments in (("ls-files", "--error-unmatch", here.name), ("describe", "--always", "--dirty")):
        try:
            process = subprocess.run(
                ["git", "-C", str(here.parent), *arguments], capture_output=True, text=True, timeout=10, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        outputs.append(process.stdout.strip())
    return f", commit {outputs[-1]}"
