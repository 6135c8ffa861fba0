"""Launch merging: each work-group of a launch finds its call in the argument `ob_calls`.

`ob_calls` has, for each call, the number of elements (`size`) and the index behind the last
work-group (`end`). Unused calls have no work-groups.
"""

from __future__ import annotations

from collections.abc import Callable

from torch_outboard.ops.sources.scalar_functions import defines


def selected_call(calls: int, statements: Callable[[int], str]) -> str:
    """Source of the type `ob_calls` and of the macro OB_SELECT_CALL.

    The macro declares `total`, the elements of the call, and `group`, the index of the work-group
    within the call.

    Args:
        calls: the most calls of a launch.
        statements: statements before the elements of a call are computed.
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
