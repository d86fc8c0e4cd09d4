"""Find the clicks that don't belong, and train recommenders that are not misled by them."""

from prorec.data.readers import read_interactions
from prorec.data.writers import write_interactions
from prorec.errors import DataWarning, InputError
from prorec.interactions import Interactions

__version__ = "0.1.0"

__all__ = [
    "DataWarning",
    "InputError",
    "Interactions",
    "__version__",
    "read_interactions",
    "write_interactions",
]
