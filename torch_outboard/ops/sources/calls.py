"""Kernels of many calls: how a work-group finds the call of which it does a part.

A call has `size` elements, and its groups end before `end`: those of `ob_calls`, an argument, in
which ends are counted in groups. Calls that are not there have no elements.
"""

from __future__ import annotations

from collections.abc import Callable

from torch_outboard.ops.sources.scalar_functions import defines


def selected_call(calls: int, statements: Callable[[int], str]) -> str:
    """The type of the argument, and OB_SELECT_CALL.

    The macro has the call's elements as `total`, and as `group` that of the work-group among those
    of the call.

    Args:
        calls: most calls of a launch.
        statements: what a call does first.
    """
    cases = []
    for call in range(calls):
        label = "default" if call + 1 == calls else f"case {call}"
        before = f"calls.end[{call - 1}]" if call else "0"
        cases.append(
            f"{label}: {{ {statements(call)} total = calls.size[{call}]; group -= {before}; "
            "break; }"
        )
    search = (
        "uint group = get_group_id(0), call = 0, total; "
        f'_Pragma("unroll") for (uint c = 0; c + 1 < {calls}; ++c) call += group >= calls.end[c];'
    )
    return f"typedef struct {{ uint end[{calls}]; uint size[{calls}]; }} ob_calls;\n" + defines(
        {"OB_SELECT_CALL": f"{search} switch (call) {{ {' '.join(cases)} }}"}
    )
