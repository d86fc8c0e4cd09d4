"""What the page of all results says before the results."""

from __future__ import annotations

import subprocess
from pathlib import Path

from prorec import __version__

HOW = {
    "noise": """Of each user's interactions 80% train and 20% test. False interactions are put into the training part,
so many for each true one; a quarter of it, noise and all, is held back for choosing parameters. Below the threshold
means ρ < ρ_κ, which is what the paper calls found. The last column has the noise's weights set to 0, with the
parameters of the model alone.""",
    "overall": "Tuned and judged as described above.",
    "ablation": """EMD, Sinkhorn and ROT have one threshold for all users, the σ-th largest value of a row, σ among 5,
10, 15, 20 and 25; ProRec has personal ones. Seconds are of fits with what was chosen for the model alone, one after
the other.""",
    "case": "Learned from all interactions, with what was chosen on the first split.",
}
"""How each experiment goes, beyond what is said of all."""
HOW_CURVES = "Nothing is tuned here: one parameter goes through its values, the others stay."
NO_YAHOO = """### yahoo-r1

Empty: Yahoo! R1 may not be redistributed, so there is nothing to run this on.
"""


def introduction(command: str, trials: int, n_seeds: int, *, quick: bool) -> str:
    """What was run, how, and how to read it."""
    hurried = """
**This was a quick run** on a small cinema, with three epochs for CDAE and VAE: it shows that everything works, no more.
"""
    return f"""# The paper, reproduced

Every table and figure of "Partial Relaxed Optimal Transport for Denoised Recommendation", made again by one command:

```
{command}
```

prorec {__version__}{_commit()}. This page is what that command wrote, word for word.
{hurried if quick else ""}
**How.** Of each user's interactions 50% train, 20% validate, 30% test, at random; {n_seeds} splits. On each split,
every row, baselines included, chooses its parameters on the validation part by NDCG@5: one parameter after the
other, until no change of one helps, {trials} trials at most; the best three are tried again on three more divisions
of the 70%. The best on average then learns from the 70% and is judged once by the 30%. A row that is made from
another begins with what was chosen for that one, so it has had that one's trials too.

The grids are the paper's, where it has them (deep models: learning rate, ζ, batch size; 50 epochs); β is 20, as in
the paper. Its γ of .05 to .175 is for scores of about 1: here it is .5 to 1.75 times a γ that goes with the scores. For
SVD, NCE and WRMF it names none: ranks are 20 to 200, regularisers and α go in steps of three. With steps of ten, a
model that is regularised too little gains by anything that makes its weights smaller.

NDCG, MAP and Recall are the paper's (NDCG's ideal over all test items, MAP the mean of precision at 1 to 5). ± is
half a 95% interval over splits; percentages are of the mean of the model without ProRec; * is p < .01 in a paired
t-test over users, each with the mean over splits, in either direction, not corrected for the number of tests.
Compare gains with the paper's, not levels: what part of the data its models learned from is not certain.

**Controls.** Relabelling also makes all weights smaller, which by itself is a stronger regulariser. So each row
with ProRec has rivals with the same parameters: the model not denoised; all weights as large as ProRec's mean;
ProRec's weights shuffled among the interactions; ProRec's weights, the largest for the most popular items; and no
weights but twice the regulariser, where there is one. A gain that a control has too is not denoising.
"""


def _commit() -> str:
    """The commit of the code, where it is in a repository, and whether anything was changed since."""
    here = Path(__file__)
    found = []
    for words in (("ls-files", "--error-unmatch", here.name), ("describe", "--always", "--dirty")):
        try:
            done = subprocess.run(
                ["git", "-C", str(here.parent), *words], capture_output=True, text=True, timeout=10, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        found.append(done.stdout.strip())
    return f", commit {found[-1]}"
