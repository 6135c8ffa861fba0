"""Writes docs/reference/settings.md from the table of settings.

python -m tools.settings_page
"""

from __future__ import annotations

from pathlib import Path

from torch_outboard.setting_table import TABLE, Setting
from torch_outboard.settings import range_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "settings.md"
# Limits from here on are those of 64-bit integers and of memory.
ENDLESS = 1e9
INTRODUCTION = """# Settings

After this page you can set every option of the kit and its drivers. The first use of the device
reads environment variables; unset and empty mean the default. An invalid value then raises
`ValueError`, and a warning names unknown variables that begin with `OUTBOARD_`.
`python -m torch_outboard doctor` shows those that are set. Lists are separated by commas.
"""


def page() -> str:
    """The page."""
    drivers = sorted({setting.driver for setting in TABLE if setting.driver})
    parts = [
        INTRODUCTION,
        _table("The kit", [s for s in TABLE if not s.driver and not s.for_tests]),
    ]
    for driver in drivers:
        rows = [s for s in TABLE if s.driver == driver and not s.for_tests]
        parts.append(_table(f"The driver `{driver}`", rows))
    parts.append(_table("For tests", [s for s in TABLE if s.for_tests]))
    return "\n".join(parts)


def _table(title: str, settings: list[Setting]) -> str:
    lines = [f"## {title}", "", "| variable | meaning | values | default |", "|---|---|---|---|"]
    lines += [
        f"| `{s.name}` | {s.meaning} | {_values(s)} | {s.default} |"
        for s in sorted(settings, key=lambda s: s.name)
    ]
    return "\n".join(lines) + "\n"


def _values(setting: Setting) -> str:
    if setting.kind == "flag":
        return "`0`, `1`"
    if setting.kind in ("whole", "number"):
        whole = "whole numbers" if setting.kind == "whole" else "numbers"
        least, most = range_of(setting).split(" to ")
        return f"{whole} from {least}" + (f" to {most}" if float(most) < ENDLESS else "")
    words = ", ".join(f"`{word}`" for word in setting.choices)
    if setting.kind == "list":
        return f"a list of {words}" if words else "a list"
    return words or "text"


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
