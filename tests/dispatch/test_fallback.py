"""Policies, lists and reports: torch_outboard.fallback."""

import warnings
from collections.abc import Iterator

import pytest
import torch

import torch_outboard
from tests.support import run_python
from torch_outboard import _C, fallback


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """Every test starts with the default policies and leaves none of its own behind."""
    before = fallback.policies()
    fallback.set_policy(host="allow", copied="warn")
    _C.testing.reset_fallback_warnings()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* runs as a host kernel on copies")
        yield
    assert not _C.fallback_listing("allowed")
    assert not _C.fallback_listing("denied")
    fallback.set_policy(**before)


@pytest.fixture
def placement(shares_memory: bool) -> str:
    """Where this device runs operators that have no device kernel."""
    return "host" if shares_memory else "copied"


@pytest.fixture
def x(device: torch.device) -> torch.Tensor:
    return torch.tensor([1.0, -2.0, 3.0]).to(device)


DENIED = pytest.raises(NotImplementedError, match="the operator is denied")

# ---- Policies


@pytest.mark.separate
def test_error(x, placement):
    with fallback.policy(**{placement: "error"}), pytest.raises(NotImplementedError) as caught:
        torch.erfinv(x)
    message = str(caught.value).splitlines()[0]
    parts = ["aten::erfinv", "(Float)", "host:0", f"the policy for '{placement}' is 'error'"]
    parts += ['torch_outboard.fallback.allow("aten::erfinv', "torch_outboard.kernel"]
    assert [part for part in parts if part not in message] == []
    other = {"host": "copied", "copied": "host"}[placement]
    with fallback.policy(**{other: "error", placement: "allow"}), warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.erfinv(x)


@pytest.mark.separate
def test_warning_comes_once_per_operator(x, placement):
    uses = [(torch.erfinv, 1), (torch.erfinv, 0), (torch.erfc, 1)]
    uses += [(lambda x: torch.pow(x, x), 1), (lambda x: torch.pow(x, 2), 0)]  # two overloads
    with fallback.policy(**{placement: "warn"}):
        for function, expected in uses:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                function(x)
                function(x)
            messages = [str(w.message) for w in caught if "runs as a host kernel" in str(w.message)]
            assert len(messages) == expected, messages


def test_printing_is_no_reason_for_a_warning(x, placement):
    tensors = [x, x.int(), x > 0, x * 1e6, x.to(torch.complex64), x.sum()]
    _C.testing.reset_fallback_warnings()
    with fallback.policy(**{placement: "warn"}), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for tensor in tensors:
            str(tensor), repr(tensor), f"{tensor}"
        assert [str(w.message) for w in caught] == []
        x.abs()  # which printing calls
        assert any("aten::abs" in str(w.message) for w in caught)


def test_warnings_that_are_errors(x, placement):
    """A filter may turn the warning into an exception; the device works on."""
    with fallback.policy(**{placement: "warn"}), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="runs as a host kernel"):
            torch.lgamma(x)
    torch.testing.assert_close(torch.exp(x).cpu(), x.cpu().exp())


def test_copies_and_views_have_no_policy(device, placement):
    with fallback.policy(**{placement: "error"}):
        x = torch.arange(12.0).to(device)
        y = torch.empty(3, 4, device=device)
        y.copy_(x.view(3, 4))
        assert torch.equal(y.t().contiguous().cpu(), torch.arange(12.0).view(3, 4).t())
        assert y[1, 2].item() == 6


def test_policies_are_as_before_after_what_fails():
    unknown = pytest.raises(
        ValueError, match=r"unknown policy .*; use one of 'allow', 'warn', 'error'"
    )
    for arguments in ({"host": "never"}, {"copied": ""}):
        with unknown:
            fallback.set_policy(**arguments)
    with unknown, fallback.policy(host="error", copied="nonsense", deny=["aten::add"]):
        pytest.fail("the block must not run")
    lists = {"deny": ["aten::add"], "allow": ["mul.Tensor"]}
    with pytest.raises(KeyError), fallback.policy(host="error", copied="error", **lists):
        raise KeyError
    assert fallback.policies() == {"host": "allow", "copied": "warn"}


def test_blocks_nest(x, placement):
    with fallback.policy(**{placement: "allow"}, deny=["erfinv"]):
        with fallback.policy(allow=["erfinv"]):
            torch.erfinv(x)
        with DENIED:
            torch.erfinv(x)
    torch.erfinv(x)


# ---- Lists


@pytest.mark.parametrize("name", ["aten::add.Tensor", "aten::add", "add", "add.Tensor"])
def test_denied_operator(x, placement, name):
    """Also one with a typed kernel, which does not ask the router otherwise."""
    with fallback.policy(**{placement: "allow"}, deny=[name]):
        for use in (lambda: x + x, lambda: x + 1, lambda: torch.add(x, x, alpha=2)):
            with pytest.raises(NotImplementedError, match=r"aten::add\.Tensor.*denied"):
                use()
        (x * x).sum()
    assert (x + x).tolist() == [2, -4, 6]


EVERY_KIND = {
    "aten::mm": lambda x: torch.mm(x.view(1, 3), x.view(3, 1)),
    "aten::relu": torch.relu,
    "aten::sum": torch.sum,
    "aten::exp": torch.exp,
    "aten::mul.Tensor": lambda x: x * x,
    "aten::mul_": lambda x: x.mul_(2),
    "aten::add_": lambda x: x.add_(1),
    "aten::mean": torch.mean,
    "aten::_softmax": lambda x: torch.softmax(x, 0),
    "aten::threshold_backward": lambda x: torch.ops.aten.threshold_backward(x, x, 0),
    "aten::addmm": lambda x: torch.addmm(x, x.view(3, 1), x.view(1, 3)),
    "aten::native_layer_norm": lambda x: torch.nn.functional.layer_norm(x, (3,)),
    "aten::normal_": lambda x: x.normal_(),
    "aten::cat": lambda x: torch.cat([x, x]),
    "aten::index_select": lambda x: x.index_select(0, torch.tensor([0], device=x.device)),
}


@pytest.mark.separate
def test_every_kind_of_kernel_can_be_denied(x, placement):
    for name, use in EVERY_KIND.items():
        with fallback.policy(**{placement: "allow"}, deny=[name]), DENIED:
            use(x)
        use(x)


def test_allowed_operators_and_overloads(x, placement):
    with fallback.policy(**{placement: "error"}, allow=["aten::erfinv"]):
        torch.erfinv(x)
        with pytest.raises(NotImplementedError, match="aten::erfc"):
            torch.erfc(x)
    with fallback.policy(
        **{placement: "allow"}, deny=["aten::pow"], allow=["aten::pow.Tensor_Scalar"]
    ):
        assert torch.pow(x, 2).tolist() == [1, 4, 9]
        with pytest.raises(NotImplementedError, match=r"aten::pow\.Tensor_Tensor"):
            torch.pow(x, x)


def test_lists_for_the_whole_process(x):
    fallback.deny("aten::erfinv", "erfc")
    try:
        for function in (torch.erfinv, torch.erfc):
            with DENIED:
                function(x)
        fallback.allow("erfc")
        torch.erfc(x)
    finally:
        fallback.unlist("erfinv", "aten::erfc")
    torch.erfinv(x)


def test_a_device_kernel_is_never_denied(x):
    with (
        torch_outboard.kernel("aten::neg")(lambda x: x),
        fallback.policy(host="error", copied="error", deny=["aten::neg"]),
    ):
        torch.neg(x)


def test_what_cannot_be_denied_is_said() -> None:
    for name, reason in (
        ("aten::linear", "composed of"),
        ("matmul", "composed of"),
        ("aten::no_such_operator", "no such operator"),
    ):
        with pytest.raises(ValueError, match=f"cannot be denied.*{reason}"):
            fallback.deny(name)
        with pytest.raises(ValueError, match=reason), fallback.policy(deny=[name]):
            pass
        fallback.unlist(name)
    with fallback.policy(deny=["library_to_come::an_operator"]):
        pass


def test_environment_variables():
    printed = run_python(
        """
        import torch
        from torch_outboard import fallback, _C

        print(fallback.policies(), _C.fallback_listing("allowed"), _C.fallback_listing("denied"))
        torch.ones(3).to("host")
        fallback.set_policy(host="allow")
        torch.host.synchronize()
        print(fallback.policies()["host"])
        """,
        OUTBOARD_FALLBACK_HOST="warn",
        OUTBOARD_FALLBACK_COPIED="error",
        OUTBOARD_FALLBACK_ALLOW="aten::erfinv, exp,",
        OUTBOARD_FALLBACK_DENY="mul.Tensor",
    )
    assert printed.splitlines() == [
        "{'host': 'warn', 'copied': 'error'} ['aten::erfinv', 'aten::exp'] ['aten::mul.Tensor']",
        "allow",
    ]


# ---- Reports


def rows_of(report: fallback.Report, op: str) -> list[fallback.Row]:
    return [row for row in report.rows if row.op == op]


def test_report_counts_calls_that_return(x, placement):
    with fallback.report() as before:
        pass
    with fallback.policy(**{placement: "allow"}), fallback.report() as report:
        for _ in range(3):
            torch.erfinv(x)
        torch.erfinv(x.double())
        with pytest.raises(RuntimeError):
            torch.mm(x, x)
        torch.mm(x.reshape(-1, 1), x.reshape(1, -1))
    single, double = sorted(rows_of(report, "aten::erfinv"), key=lambda row: -row.calls)
    assert (single.calls, single.dtype, single.placement) == (3, torch.float32, placement)
    assert (double.calls, double.dtype, double.placement) == (1, torch.float64, placement)
    assert single.seconds > 0
    assert [row.calls for row in rows_of(report, "aten::mm")] == [1]
    assert before.rows == []
    assert set(before.share_by_placement().values()) == {0}
    assert len(str(before).splitlines()) == 1


@pytest.mark.separate
def test_report_counts_copied_bytes(device, placement):
    x = torch.arange(1000.0).to(device)
    with fallback.policy(**{placement: "allow"}), fallback.report() as report:
        torch.erfinv(x)
        x[:10].erfinv_()
    header, *lines = (line.split()[:4] for line in str(report).splitlines())
    assert header == ["operator", "dtype", "placement", "calls"]
    assert ["aten::erfinv", "float32", placement, "1"] in lines
    (functional,) = rows_of(report, "aten::erfinv")
    (in_place,) = rows_of(report, "aten::erfinv_")
    found = functional.copied_bytes, in_place.copied_bytes
    assert found == ((0, 0) if placement == "host" else (8000, 80))


def test_report_shares(x, placement):
    with (
        fallback.policy(**{placement: "allow"}),
        torch_outboard.kernel("aten::neg")(lambda x: x),
        fallback.report() as report,
    ):
        torch.neg(x)
        for function in (torch.erfinv, torch.erfc, torch.erfc):
            function(x)
    shares = report.share_by_placement()
    assert shares.pop("device") == 0.25
    assert shares.pop(placement) == 0.75
    assert set(shares.values()) == {0}


def test_report_shows_call_sites(x, placement):
    with fallback.policy(**{placement: "allow"}), fallback.report(call_sites=True) as report:
        torch.erfinv(x)
        for _ in range(2):
            torch.nn.functional.gelu(x)
    (row,) = rows_of(report, "aten::erfinv")
    assert row.call_site.startswith(f"{__file__}:")
    (gelu,) = rows_of(report, "aten::gelu")
    assert (gelu.calls, gelu.call_site.startswith(f"{__file__}:")) == (2, True)


def test_backward_passes_are_reported_and_denied(x, placement):
    x.requires_grad_()
    y = torch.sin(x).sum()
    with fallback.policy(**{placement: "allow"}, deny=["aten::cos"]), DENIED:
        y.backward()
    with fallback.policy(**{placement: "allow"}), fallback.report(call_sites=True) as report:
        torch.sin(x).sum().backward()
    assert rows_of(report, "aten::cos")[0].calls == 1
    torch.testing.assert_close(x.grad.cpu(), x.detach().cpu().cos())
