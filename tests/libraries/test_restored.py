"""`disable()` restores the same objects in each library, and until then something differs."""

import pytest

from tests.libraries.enabled import shown
from tests.libraries.test_defaults import importable
from torch_outboard.integrations.libraries import LIBRARIES

PROGRAM = """
import importlib
import types
os.environ["KERAS_BACKEND"] = "torch"
integrations.disable()
from torch_outboard.integrations.libraries import LIBRARIES

chosen = [library, *LIBRARIES[library].needs]
packages = set()
for feature in (feature for name in chosen for feature in LIBRARIES[name].features):
    if feature.module is not None:
        importlib.import_module(feature.module)
        packages.add(feature.module.partition(".")[0])


def parts(value):
    yield value
    if isinstance(value, types.FunctionType):
        yield value.__code__
    elif isinstance(value, (list, dict)):
        yield from value


def everything():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in packages:
            for attribute, value in list(vars(module).items()):
                found[name, attribute] = list(parts(value))
                if isinstance(value, type):
                    for member, item in list(vars(value).items()):
                        found[name, attribute, member] = list(parts(item))
    return found


def is_ours(value):
    return str(getattr(value, "__module__", "")).startswith("torch_outboard")


def differs(before, after, name):
    if name not in before:
        # Libraries load parts of theirs at the first access.
        return any(map(is_ours, after[name]))
    return name not in after or len(before[name]) != len(after[name]) or any(
        ours is not theirs for ours, theirs in zip(before[name], after[name])
    )


def differences(before, after):
    names = before.keys() | after.keys()
    return [".".join(name) for name in names if differs(before, after, name)]


before = everything(), dict(os.environ)
report = integrations.enable(library)
assert {row.state for row in report} == {"enabled"}, report
changed = differences(before[0], everything())
integrations.disable()
left = differences(before[0], everything())
assert dict(os.environ) == before[1]
shown = sorted(changed), sorted(left)
"""


@pytest.mark.parametrize("library", LIBRARIES)
def test_restored(device, tmp_path, library):
    importable(library)
    changed, left = shown(PROGRAM, device.type, library, tmp_path)
    assert changed
    assert not left
