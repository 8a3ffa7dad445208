"""Results of sweeps: points with their values, the Pareto front, and the result's file."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.sweep.results.json_file import from_json, read_json, to_json, write_json
    from skipjack.sweep.results.parameters import (
        RANGE,
        HeatCell,
        ParameterAxis,
        ParameterEffect,
        axes_of,
        axis_of,
        effects_of,
        heat_axes,
        heat_cells,
        parameter_axes,
        parameter_effects,
    )
    from skipjack.sweep.results.points import (
        SCREEN,
        PointSummary,
        SearchHistory,
        maximised,
        non_dominated,
        one_line,
        parameter_names,
        pareto_front,
        point_text,
        search_history,
        setting_text,
        summarize,
        usable,
    )

__all__ = [
    "RANGE",
    "SCREEN",
    "HeatCell",
    "ParameterAxis",
    "ParameterEffect",
    "PointSummary",
    "SearchHistory",
    "axes_of",
    "axis_of",
    "effects_of",
    "from_json",
    "heat_axes",
    "heat_cells",
    "maximised",
    "non_dominated",
    "one_line",
    "parameter_axes",
    "parameter_effects",
    "parameter_names",
    "pareto_front",
    "point_text",
    "read_json",
    "search_history",
    "setting_text",
    "summarize",
    "to_json",
    "usable",
    "write_json",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "json_file": "from_json read_json to_json write_json",
        "parameters": (
            "HeatCell ParameterAxis ParameterEffect RANGE axes_of axis_of effects_of heat_axes "
            "heat_cells parameter_axes parameter_effects"
        ),
        "points": (
            "PointSummary SCREEN SearchHistory maximised non_dominated one_line parameter_names "
            "pareto_front point_text search_history setting_text summarize usable"
        ),
    },
)
