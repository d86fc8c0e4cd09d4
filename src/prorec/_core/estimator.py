"""The base of every class with a `fit` method, with the conventions of scikit-learn.

An estimator is a dataclass. Its constructor parameters are its fields, stored as given. `fit` stores results in
attributes that end in an underscore, and returns the estimator. scikit-learn itself is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Self

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError, NotFittedError


class Estimator:
    """Base of estimators: parameters, a check that `fit` was called, and a table for notebooks.

    Subclasses are dataclasses, and may define `_summary` to show results in the notebook table.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Mean(Estimator):
    ...     shrinkage: float = 0.0
    ...     def fit(self, values):
    ...         self.mean_ = sum(values) / (len(values) + self.shrinkage)
    ...         return self
    >>> Mean(shrinkage=1.0).get_params()
    {'shrinkage': 1.0}
    >>> Mean().set_params(shrinkage=2.0).fit([3, 3]).mean_
    1.5
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor parameters by name.

        Parameters
        ----------
        deep : bool, default True
            Also return the parameters of parameters that are estimators, as `name__parameter`.

        Returns
        -------
        dict
            In the order of declaration; a nested parameter follows the estimator that it belongs to.
        """
        parameters = {}
        for name in _parameter_names(self):
            value = parameters[name] = getattr(self, name)
            if deep and not isinstance(value, type) and hasattr(value, "get_params"):
                parameters |= {f"{name}__{inner}": nested for inner, nested in value.get_params(deep=True).items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters in place.

        Parameters
        ----------
        **parameters
            New values by name; `model__rank` sets the parameter `rank` of the estimator in the parameter `model`.

        Returns
        -------
        Self
            The estimator itself. Values are checked when `fit` is called, as those of the constructor are.

        Raises
        ------
        InputError
            If a name is not a parameter.
        """
        allowed = _parameter_names(self)
        nested: dict[str, dict[str, Any]] = {}
        for name, value in parameters.items():
            own, separator, inner = name.partition("__")
            if own not in allowed or (separator and not hasattr(getattr(self, own), "set_params")):
                raise InputError(
                    f"{safe_repr(name)} is not a parameter of {type(self).__name__}; it has "
                    f"{', '.join(self.get_params())}"
                )
            if separator:
                nested.setdefault(own, {})[inner] = value
            else:
                setattr(self, own, value)
        for own, inner_parameters in nested.items():
            getattr(self, own).set_params(**inner_parameters)
        return self

    def _is_fitted(self) -> bool:
        """Return whether `fit` was called: whether there is a result, an attribute that ends in an underscore."""
        declared: list[str] = [each.name for each in fields(self)] if is_dataclass(self) else []
        return any(name.endswith("_") and not name.startswith("_") and name not in declared for name in vars(self))

    def _check_fitted(self) -> None:
        """Raise `NotFittedError` unless `fit` was called."""
        if not self._is_fitted():
            name = type(self).__name__
            raise NotFittedError(f"this {name} is not fitted yet; call {name}.fit(…) first")

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Raise `NotFittedError` for a result that `fit` has not stored yet."""
            if name.endswith("_") and not name.startswith("_"):
                self._check_fitted()
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _summary(self) -> Mapping[str, str]:
        """Return lines about the fitted estimator for the notebook table: name and text."""
        return {}

    def _repr_html_(self) -> str:
        """Return a table for notebooks: parameters, those that differ from their default in bold, and results."""
        rows = [_parameter_row(self, name) for name in _parameter_names(self)]
        rows.append('<tr><td colspan="2" style="padding:0;border-bottom:1px solid rgba(128,128,128,.5)"></td></tr>')
        summary = self._summary() if self._is_fitted() else {"not fitted yet": ""}
        rows += [_row(name, escape(text)) for name, text in summary.items()]
        return (
            f'<table style="{_TABLE_STYLE}"><caption style="text-align:left;caption-side:top;color:inherit">'
            f"<b>{escape(type(self).__name__)}</b></caption><tbody>{''.join(rows)}</tbody></table>"
        )


_MAX_LETTERS = 160
"""Letters shown of a parameter's value in the notebook table."""
# Colours are inherited from the notebook, light or dark; some notebooks restyle tables, so each cell says so.
_TABLE_STYLE = "border-collapse:collapse;font-size:90%;color:inherit;background:transparent"
_CELL_STYLE = "text-align:left;vertical-align:top;padding:1px 12px 1px 0;color:inherit;background:transparent"
_FAINT_STYLE = "opacity:.65"


def _parameter_names(estimator: Any) -> list[str]:
    """Return the names of the constructor parameters."""
    return [each.name for each in fields(estimator) if each.init] if is_dataclass(estimator) else []


def _parameter_row(estimator: Any, name: str) -> str:
    """Return a table row with a parameter, bold and with the default beside it where the value differs."""
    declared = next(each for each in fields(estimator) if each.name == name)
    default = declared.default if declared.default_factory is MISSING else declared.default_factory()
    value = getattr(estimator, name)
    text = safe_repr(value)
    text = escape(text if len(text) <= _MAX_LETTERS else f"{text[: _MAX_LETTERS - 1]}…")
    if default is MISSING or _is_equal(value, default):
        return _row(name, text)
    note = f'<span style="{_FAINT_STYLE}">(default {escape(safe_repr(default))})</span>'
    return _row(name, f"<b>{text}</b> {note}")


def _is_equal(value: Any, default: Any) -> bool:
    """Return whether a value equals the default; an array, whose comparison has no single answer, does not."""
    try:
        return bool(value is default or value == default)
    except Exception:
        return False


def _row(name: str, cell: str) -> str:
    """Return one row of the notebook table; `cell` is HTML, `name` is text."""
    return (
        f'<tr><td style="{_CELL_STYLE};{_FAINT_STYLE};white-space:nowrap">{escape(name)}</td>'
        f'<td style="{_CELL_STYLE}">{cell}</td></tr>'
    )
