"""The listing of messages has what a person can see, with its line."""

from __future__ import annotations

from tools.list_messages import messages, native_messages, python_messages

PYTHON = '''
def run(name):
    """Runs.

    More."""
    if name:
        raise ValueError(f"'{name}' is not known; " "use another one")
    warnings.warn("a long " + name + " word", stacklevel=2)
    parser.add_argument("--x", help="what it does", metavar="X")
    log("nothing that a person sees")
    print("one")


def _hidden():
    """Not public."""
'''
NATIVE = """
// fail("not this one");
#define CHECK(x) fail("nor this one")
void f() {
  TORCH_CHECK(a(")") > 0, "the index ", i, " is not "
              "valid; use ", most);
  if (c == '"') throw std::runtime_error("say \\"no\\" then");
  return drivers::fail(OB_ERROR, "%s has no name.", "x y");
  log("nothing that a person sees");
}
"""


def test_messages_of_python() -> None:
    found = sorted(python_messages(PYTHON, docstrings=False))
    assert found == [
        (7, "'{}' is not known; use another one"),
        (8, "a long {} word"),
        (9, "what it does"),
    ]
    assert (3, "(run) Runs.\n\nMore.") in python_messages(PYTHON, docstrings=True)
    assert not any("Not public" in text for _, text in python_messages(PYTHON, docstrings=True))


def test_messages_of_c() -> None:
    assert list(native_messages(NATIVE)) == [
        (5, "){}the index {} is not valid; use "),
        (7, 'say \\"no\\" then'),
        (8, "%s has no name.{}x y"),
    ]


def test_messages_of_the_package() -> None:
    from pathlib import Path

    root = Path(__file__).resolve().parents[1]
    found = list(messages(root, ["torch_outboard/commands", "csrc/dispatch"], docstrings=False))
    assert any("which has no device kernel for this call" in line for line in found)
    assert all(line.startswith(("torch_outboard/commands/", "csrc/dispatch/")) for line in found)
