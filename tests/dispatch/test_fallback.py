"""Policies, lists and reports: torch_outboard.fallback."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch

from tests.support import run_python, try_python
from torch_outboard import _C, fallback

pytestmark = pytest.mark.separate


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """Every test starts with the default policies and leaves none of its own behind."""
    before = fallback.policies()
    fallback.set_policy(shared="allow", copied="warn")
    _C.reset_fallback_warnings()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* runs as a host kernel on copies")
        yield
    assert not _C.fallback_listing("allowed")
    assert not _C.fallback_listing("denied")
    fallback.set_policy(**before)


@pytest.fixture
def way(shares_memory: bool) -> str:
    """By which way this device runs operators on the host."""
    return "shared" if shares_memory else "copied"


@pytest.fixture
def x(device: torch.device) -> torch.Tensor:
    return torch.tensor([1.0, -2.0, 3.0]).to(device)


# ---- Policies


def test_error(x, way):
    with fallback.policy(**{way: "error"}), pytest.raises(NotImplementedError) as caught:
        torch.erfinv(x)
    message = str(caught.value).splitlines()[0]
    parts = ["aten::erfinv", "(Float)", "host:0", f"the policy for '{way}' is 'error'"]
    parts += ['torch_outboard.fallback.allow("aten::erfinv', "torch_outboard.kernel"]
    assert [part for part in parts if part not in message] == []
    torch.erfinv(x)


def test_warning_comes_once_per_operator(x, way):
    with fallback.policy(**{way: "warn"}):
        for function, expected in ((torch.erfinv, 1), (torch.erfinv, 0), (torch.erfc, 1)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                function(x)
                function(x)
            messages = [str(w.message) for w in caught if "runs as a host kernel" in str(w.message)]
            assert len(messages) == expected, messages


def test_overloads_of_an_operator_are_one(x, way):
    with fallback.policy(**{way: "warn"}), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.pow(x, x)
        torch.pow(x, 2)
        torch.pow(2, x)
    assert len([w for w in caught if "aten::pow" in str(w.message)]) == 1


def test_printing_is_no_reason_for_a_warning(x, way):
    tensors = [x, x.int(), x > 0, x * 1e6, x.to(torch.complex64), x.sum()]
    _C.reset_fallback_warnings()
    with fallback.policy(**{way: "warn"}), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for tensor in tensors:
            str(tensor), repr(tensor), f"{tensor}"
        assert [str(w.message) for w in caught] == []
        x.abs()  # which printing calls
        assert any("aten::abs" in str(w.message) for w in caught)


def test_warnings_that_are_errors(x, way):
    """A filter may turn the warning into an exception; the device works on."""
    with fallback.policy(**{way: "warn"}), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="runs as a host kernel"):
            torch.lgamma(x)
    with fallback.policy(**{way: "allow"}):
        torch.testing.assert_close(torch.exp(x).cpu(), x.cpu().exp())


def test_allow_says_nothing_and_the_other_way_has_no_say(x, way):
    other = {"shared": "copied", "copied": "shared"}[way]
    with fallback.policy(**{other: "error", way: "allow"}), warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.digamma(x)


def test_copies_and_views_have_no_policy(device, way):
    with fallback.policy(**{way: "error"}):
        x = torch.arange(12.0).to(device)
        y = torch.empty(3, 4, device=device)
        y.copy_(x.view(3, 4))
        assert torch.equal(y.t().contiguous().cpu(), torch.arange(12.0).view(3, 4).t())
        assert y[1, 2].item() == 6


@pytest.mark.parametrize("arguments", [{"shared": "never"}, {"copied": ""}, {"copied": "ALLOW"}])
def test_unknown_policy(arguments):
    with pytest.raises(ValueError, match="is no policy; use one of 'allow', 'warn', 'error'"):
        fallback.set_policy(**arguments)
    assert fallback.policies() == {"shared": "allow", "copied": "warn"}


def test_block_restores_after_an_error(way):
    with (
        pytest.raises(KeyError),
        fallback.policy(shared="error", copied="error", deny=["aten::add"], allow=["mul.Tensor"]),
    ):
        raise KeyError
    assert fallback.policies() == {"shared": "allow", "copied": "warn"}


def test_block_with_a_wrong_policy_changes_nothing():
    with (
        pytest.raises(ValueError, match="is no policy"),
        fallback.policy(shared="error", copied="nonsense", deny=["aten::add"]),
    ):
        pytest.fail("the block must not run")
    assert fallback.policies() == {"shared": "allow", "copied": "warn"}


def test_blocks_nest(x, way):
    with fallback.policy(**{way: "allow"}, deny=["erfinv"]):
        with fallback.policy(allow=["erfinv"]):
            torch.erfinv(x)
        with pytest.raises(NotImplementedError, match="the operator is denied"):
            torch.erfinv(x)
    torch.erfinv(x)


# ---- Lists


@pytest.mark.parametrize("name", ["aten::add.Tensor", "aten::add", "add", "add.Tensor"])
def test_denied_operator(x, way, name):
    """Also one for which the kit has a short way of its own."""
    with fallback.policy(**{way: "allow"}, deny=[name]):
        for use in (lambda: x + x, lambda: x + 1, lambda: torch.add(x, x, alpha=2)):
            with pytest.raises(NotImplementedError, match=r"aten::add\.Tensor.*denied"):
                use()
        (x * x).sum()
    assert (x + x).tolist() == [2, -4, 6]


DENIED = {
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


@pytest.mark.parametrize("name", DENIED)
def test_every_kind_of_kernel_can_be_denied(x, way, name):
    denied = pytest.raises(NotImplementedError, match="the operator is denied")
    with fallback.policy(**{way: "allow"}, deny=[name]), denied:
        DENIED[name](x)
    with fallback.policy(**{way: "allow"}):
        DENIED[name](x)


def test_allowed_operator(x, way):
    with fallback.policy(**{way: "error"}, allow=["aten::erfinv"]):
        torch.erfinv(x)
        with pytest.raises(NotImplementedError, match="aten::erfc"):
            torch.erfc(x)


def test_an_overload_beats_its_operator(x, way):
    with fallback.policy(**{way: "allow"}, deny=["aten::pow"], allow=["aten::pow.Tensor_Scalar"]):
        assert torch.pow(x, 2).tolist() == [1, 4, 9]
        with pytest.raises(NotImplementedError, match=r"aten::pow\.Tensor_Tensor"):
            torch.pow(x, x)


def test_lists_for_the_whole_process(x, way):
    fallback.deny("aten::erfinv", "erfc")
    try:
        for function in (torch.erfinv, torch.erfc):
            with pytest.raises(NotImplementedError, match="the operator is denied"):
                function(x)
        fallback.allow("erfc")
        torch.erfc(x)
    finally:
        fallback.unlist("erfinv", "aten::erfc")
    torch.erfinv(x)


def test_a_device_kernel_is_never_denied(x):
    import torch_outboard

    with (
        torch_outboard.kernel("aten::neg")(lambda x: x),
        fallback.policy(shared="error", copied="error", deny=["aten::neg"]),
    ):
        torch.neg(x)


def test_denied_in_the_backward_pass(x, way):
    x.requires_grad_()
    y = torch.sin(x).sum()
    with (
        fallback.policy(**{way: "allow"}, deny=["aten::cos"]),
        pytest.raises(NotImplementedError, match="aten::cos"),
    ):
        y.backward()
    torch.sin(x).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), x.detach().cpu().cos())


# ---- Environment


def test_environment_variables():
    printed = run_python(
        """
        import torch
        from torch_outboard import fallback, _C

        print(fallback.policies(), _C.fallback_listing("allowed"), _C.fallback_listing("denied"))
        torch.ones(3).to("host")
        fallback.set_policy(shared="allow")
        torch.host.synchronize()
        print(fallback.policies()["shared"])
        """,
        OUTBOARD_FALLBACK_SHARED="warn",
        OUTBOARD_FALLBACK_COPIED="error",
        OUTBOARD_FALLBACK_ALLOW="aten::erfinv, exp,",
        OUTBOARD_FALLBACK_DENY="mul.Tensor",
    )
    assert printed.splitlines() == [
        "{'shared': 'warn', 'copied': 'error'} ['aten::erfinv', 'aten::exp'] ['aten::mul.Tensor']",
        "allow",
    ]


def test_wrong_environment_variable():
    result = try_python(
        """
        import torch
        print("imported")
        torch.host.synchronize()
        """,
        OUTBOARD_FALLBACK_SHARED="sometimes",
    )
    assert result.stdout.strip() == "imported"
    assert result.returncode == 1
    assert "='sometimes' is none of allow, warn, error" in result.stderr


# ---- Reports


def rows_of(report: fallback.Report, op: str) -> list[fallback.Row]:
    return [row for row in report.rows if row.op == op]


def test_report_counts_calls(x, way):
    with fallback.policy(**{way: "allow"}), fallback.report() as report:
        for _ in range(3):
            torch.erfinv(x)
        torch.erfinv(x.double())
        torch.exp(x)
    (single,) = [row for row in rows_of(report, "aten::erfinv") if row.dtype == torch.float32]
    (double,) = [row for row in rows_of(report, "aten::erfinv") if row.dtype == torch.float64]
    assert (single.calls, double.calls, single.way) == (3, 1, way)
    assert single.seconds > 0
    assert rows_of(report, "aten::exp")[0].calls == 1


def test_report_counts_copied_bytes(device, way):
    x = torch.arange(1000.0).to(device)
    with fallback.policy(**{way: "allow"}), fallback.report() as report:
        torch.erfinv(x)
        x[:10].erfinv_()
    header, *lines = (line.split()[:4] for line in str(report).splitlines())
    assert header == ["operator", "dtype", "way", "calls"]
    assert ["aten::erfinv", "float32", way, "1"] in lines
    (functional,) = rows_of(report, "aten::erfinv")
    (in_place,) = rows_of(report, "aten::erfinv_")
    if way == "shared":
        assert (functional.copied_bytes, in_place.copied_bytes) == (0, 0)
    else:
        assert functional.copied_bytes == 8000
        assert in_place.copied_bytes == 80


def test_report_shares(x, way):
    import torch_outboard

    with (
        fallback.policy(**{way: "allow"}),
        torch_outboard.kernel("aten::neg")(lambda x: x),
        fallback.report() as report,
    ):
        torch.neg(x)
        torch.erfinv(x)
        torch.erfc(x)
        torch.erfc(x)
    shares = report.share_by_way()
    assert shares.pop("device") == 0.25
    assert shares.pop(way) == 0.75
    assert set(shares.values()) == {0}


def test_report_shows_call_sites(x, way):
    with fallback.policy(**{way: "allow"}), fallback.report(call_sites=True) as report:
        torch.erfinv(x)
        for _ in range(2):
            torch.nn.functional.gelu(x)
    (row,) = rows_of(report, "aten::erfinv")
    assert row.call_site.startswith(f"{__file__}:")
    (gelu,) = rows_of(report, "aten::gelu")
    assert (gelu.calls, gelu.call_site.startswith(f"{__file__}:")) == (2, True)


def test_report_of_a_backward_pass_with_call_sites(x, way):
    x.requires_grad_()
    with fallback.policy(**{way: "allow"}), fallback.report(call_sites=True) as report:
        torch.sin(x).sum().backward()
    assert rows_of(report, "aten::cos")[0].calls == 1


def test_report_is_empty_outside_of_its_block(x):
    with fallback.report() as report:
        pass
    torch.erfinv(x)
    assert report.rows == []
    assert set(report.share_by_way().values()) == {0}
    assert len(str(report).splitlines()) == 1


def test_report_after_an_error(x, way):
    with fallback.policy(**{way: "allow"}), fallback.report() as report:
        with pytest.raises(RuntimeError):
            torch.mm(x, x)
        torch.mm(x.reshape(-1, 1), x.reshape(1, -1))
    assert [row.calls for row in rows_of(report, "aten::mm")] == [1]  # the one that ran


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("aten::linear", "composed of"),
        ("matmul", "composed of"),
        ("aten::no_such_operator", "no such operator"),
    ],
)
def test_what_cannot_be_denied_is_said(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be denied.*{reason}"):
        fallback.deny(name)
    with pytest.raises(ValueError, match=reason), fallback.policy(deny=[name]):
        pass
    fallback.unlist(name)


def test_operators_of_libraries_to_come_can_be_denied() -> None:
    with fallback.policy(deny=["some_library::an_operator"]):
        pass
