"""Options that several commands share, and the parser of command lines."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.cli.arguments.options import (
        ArchOption,
        DeviceOption,
        DirectionOption,
        DtypeOption,
        JsonOption,
        LabelOption,
        LayoutOption,
        PlotsOption,
        PluginOption,
        ProblemArgument,
        RequiredLabel,
        SearcherOption,
        ShapesOption,
        UnitsOption,
        check_outputs,
        device_name,
        device_of,
        examples,
        state_of,
        the_store,
    )
    from skipjack.cli.arguments.parser import (
        BadRequest,
        CommandList,
        Work,
        complaint_text,
        first_step_of,
        in_two_steps,
        keep_defaults,
    )

__all__ = [
    "ArchOption",
    "BadRequest",
    "CommandList",
    "DeviceOption",
    "DirectionOption",
    "DtypeOption",
    "JsonOption",
    "LabelOption",
    "LayoutOption",
    "PlotsOption",
    "PluginOption",
    "ProblemArgument",
    "RequiredLabel",
    "SearcherOption",
    "ShapesOption",
    "UnitsOption",
    "Work",
    "check_outputs",
    "complaint_text",
    "device_name",
    "device_of",
    "examples",
    "first_step_of",
    "in_two_steps",
    "keep_defaults",
    "state_of",
    "the_store",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "options": (
            "ArchOption DeviceOption DirectionOption DtypeOption JsonOption LabelOption "
            "LayoutOption PlotsOption PluginOption ProblemArgument RequiredLabel SearcherOption "
            "ShapesOption UnitsOption check_outputs device_name device_of examples state_of "
            "the_store"
        ),
        "parser": (
            "BadRequest CommandList Work complaint_text first_step_of in_two_steps keep_defaults"
        ),
    },
)
