# SPDX-License-Identifier: MIT
"""Captures of an H100 follow from their inputs; those of a dishonest server do not."""

import hashlib
import json
import os
import resource
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import bitmma
from bitmma import _replay, _replay_rules
from bitmma._captured import Capture, Tensor, Value, tensors_in

folder = Path(__file__).parents[2] / "data" / "captures"


@pytest.mark.parametrize("end_to_end", [False, True])
@pytest.mark.parametrize("name", ["tiny_llama", "tiny_experts"])
def test_every_operator_gives_the_recorded_bits(name, end_to_end):
    report = bitmma.replay(folder / name, end_to_end=end_to_end)
    assert report.same, str(report)
    cover = report.coverage()
    assert cover["outputs"] > 600_000 and cover["differ"] == 0
    # End to end the places of equal router weights stay open, and with them the tokens of some experts.
    assert cover["recomputed"] >= cover["operators"] - (8 if end_to_end else 0)
    assert cover["flops_recomputed"] > 0.999 * cover["flops"]


# A server that serves other bits: what it computes from one operator on is consistent with them.

bf16 = ml_dtypes.bfloat16


class Server(_replay._Run):
    """Computes a capture from its inputs; `fraud` changes the outputs of operator `at`."""

    def __init__(self, name, at, fraud):
        super().__init__(Capture(folder / name), None, 0, True, False)
        self.at, self.fraud = at, fraud

    def compute(self, operator):
        made = super().compute(operator)
        return self.fraud(self, operator, made) if operator is self.capture.operators[self.at] else made

    def serve(self, to):
        """Writes the capture that this server would give."""
        shutil.copytree(self.capture.path, to)
        data = bytearray((to / "tensors.safetensors").read_bytes())
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        for index, operator in enumerate(self.capture.operators):
            self.verdict(index, operator)
            for number in operator["outputs"]:
                if number in header and number in self.values:
                    self.write(data, 8 + size + header[number]["data_offsets"][0], number)
        (to / "tensors.safetensors").write_bytes(data)
        return to

    def write(self, data, at, number):
        value, stored = self.values[number], self.capture.data[number]
        sampled = self.capture.tensors[number].get("sampled")
        array, known = value.array, value.mask()
        if sampled:
            count = len(sampled["rows"])
            array, known = (part.transpose(sampled["order"]) for part in (array, known))
            whole = np.prod(array.shape[: sampled["leading"]], dtype=int)
            array, known = (part.reshape(whole, -1)[sampled["rows"]].reshape(count, -1) for part in (array, known))
        old = np.array(stored).reshape(array.shape)
        made = np.ascontiguousarray(np.where(known, array, old)).tobytes()
        data[at : at + len(made)] = made


def operator(name, wanted, number=0, weight=""):
    """The index of an operator: the `number`-th of this name, with this weight."""
    capture = Capture(folder / name)
    weights = {number: call["name"] for number, call in capture.tensors.items() if call["role"] == "weight"}
    for call in capture.operators:  # a weight's transpose is the weight
        if call["op"] == "aten.t.default" and call["args"][0]["tensor"] in weights:
            weights[call["outputs"][0]] = weights[call["args"][0]["tensor"]]
    indices = [
        index
        for index, call in enumerate(capture.operators)
        if call["op"] == wanted
        and (not weight or any(weights.get(number, "").startswith(weight) for number in tensors_in(call["args"])))
    ]
    return indices[number]


def operands(run, operator):
    return [
        Value(np.ascontiguousarray(value.array), value.known)
        for value in _replay._arguments_of(operator["args"], run.value)
        if isinstance(value, Value)
    ]


def product(run, operator, a, b, **how):
    how = how or {
        "kernel": " + ".join(kernel["name"] for kernel in operator["kernels"]),
        "split_k": operator.get("slices", 0),
    }
    return [Value(bitmma.gemm(a, b, threads=2, **how))]


def other_weights(change):
    def fraud(run, operator, made):
        a, b = operands(run, operator)
        return product(run, operator, a.array, change(b.array.copy()))

    return fraud


def one_bit(b):
    b.view(np.uint16)[5, 7] ^= 1 << 6
    return b


def of_fp8(b):
    scale = np.float32(np.abs(b.astype(np.float32)).max() / 448)
    return ((b.astype(np.float32) / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * scale).astype(bf16)


def other_plan(**how):
    def fraud(run, operator, made):
        a, b = operands(run, operator)
        return product(run, operator, a.array, b.array, out_dtype="bf16", **how)

    return fraud


def half_of_k(run, operator, made):
    a, b = operands(run, operator)
    half = a.array.shape[1] // 2
    return product(run, operator, np.ascontiguousarray(a.array[:, :half]), b.array[:half])


def attention_in_four_kernels(run, operator, made):
    """PyTorch's MATH backend: scores, mask, softmax and product are rounded to bfloat16 each."""
    q, k, v = (value.array.astype(bf16)[0] for value in operands(run, operator))
    size, heads = q.shape[-1], []
    for head in range(len(q)):
        keys, values = (part[head * len(k) // len(q)] for part in (k, v))
        scores = bitmma.gemm(
            np.ascontiguousarray(q[head]), np.ascontiguousarray(keys.T), "flat", out_dtype="bf16"
        ).astype(np.float32) / np.float32(size**0.5)
        scores = np.where(np.tri(*scores.shape, dtype=bool), scores, np.float32(-np.inf)).astype(bf16)
        heads.append(
            bitmma.gemm(bitmma.operators.softmax(scores), np.ascontiguousarray(values), "flat", out_dtype="bf16")
        )
    return [Value(np.stack(heads)[None]), *made[1:]]


def dropped_token(run, operator, made):
    out = made[0].array.copy()
    out[0, 39] = out[0, 38]
    return [Value(out)]


def softmax_in_another_order(run, operator, made):
    x = operands(run, operator)[0].array
    e = bitmma.operators.elementwise("exp", x - x.max(-1, keepdims=True))
    total = np.float32(0)
    for number in e[0]:
        total += number
    return [Value(e / total)]


def stale_keys(run, operator, made):
    out = made[0].array.copy()
    out[:, :, 16:32] = out[:, :, 0:16]
    return [Value(out)]


def swapped_expert(run, operator, made):
    a, _ = operands(run, operator)
    wrong = next(
        number
        for number, about in run.capture.tensors.items()
        if about.get("name") == "layers.0.mlp.experts.4.gate_proj.weight"
    )
    return product(run, operator, a.array, np.ascontiguousarray(run.capture.weight(wrong).array.T))


def truncated_logits(run, operator, made):
    a, b = operands(run, operator)
    wide = bitmma.gemm(a.array, b.array, "flat", out_dtype="f32")
    return [Value((wide.view(np.uint32) >> 16).astype(np.uint16).view(bf16))]


def repeated_seed(run, call, made):
    first = run.capture.operators[operator("tiny_llama", "aten.multinomial.default")]
    return super(Server, run).compute(dict(call, generator=first["generator"]))


MM, FLASH = "aten.mm.default", "aten._scaled_dot_product_flash_attention.default"
FRAUDS = {
    "one bit of a weight": ("tiny_llama", (MM, 0, "layers.0.mlp.up_proj"), other_weights(one_bit), "other weights"),
    "weights of fp8": ("tiny_llama", (MM, 0, "layers.0.mlp.gate_proj"), other_weights(of_fp8), "rounded to e4m3"),
    "another split of K": (
        "tiny_llama",
        (MM, 0, "layers.0.mlp.down_proj"),
        other_plan(plan="nvjet-splitK", split_k=4),
        "split",
    ),
    "another attention kernel": (
        "tiny_llama",
        (FLASH, 0),
        attention_in_four_kernels,
        "neither another number of splits",
    ),
    "a dropped token": ("tiny_llama", ("aten.embedding.default", 0), dropped_token, ""),
    "softmax in another order": ("tiny_llama", ("aten._softmax.default", 0), softmax_in_another_order, ""),
    "another GPU's bits": (
        "tiny_llama",
        (MM, 0, "layers.1.mlp.up_proj"),
        other_plan(plan="flat", target="sm_80"),
        "steps of 8",
    ),
    "stale keys": ("tiny_llama", ("aten.cat.default", 8), stale_keys, ""),
    "a swapped expert": ("tiny_experts", (MM, -3, "layers.1.mlp.experts."), swapped_expert, ""),
    "truncated logits": ("tiny_llama", (MM, 0, "lm_head"), truncated_logits, ""),
    "a repeated seed": ("tiny_llama", ("aten.multinomial.default", 1), repeated_seed, ""),
    "half of K": ("tiny_llama", (MM, 0, "layers.1.mlp.down_proj"), half_of_k, ""),
}


@pytest.mark.parametrize("fraud", FRAUDS)
def test_a_fraud_is_found_where_it_happens(fraud, tmp_path):
    name, wanted, change, why = FRAUDS[fraud]
    at = operator(name, *wanted)
    served = Server(name, at, change).serve(tmp_path / "served")
    report = bitmma.replay(served)
    assert report.first is not None and report.first.index == at, str(report)
    assert [verdict.index for verdict in report.verdicts if verdict.status == "differs"] == [at], (
        "what follows is consistent with it"
    )
    assert why in report.first.why, str(report.first)


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_experts"])
def test_an_honest_server_is_accepted(name, tmp_path):
    served = Server(name, 0, lambda run, call, made: made).serve(tmp_path / "served")
    assert bitmma.replay(served).same
    assert bitmma.compare_captures(folder / name, served).same


def test_two_captures_part_at_the_first_other_operator(tmp_path):
    at = operator("tiny_llama", MM, 0, "layers.0.mlp.down_proj")
    served = Server("tiny_llama", at, other_plan(plan="nvjet-splitK", split_k=4)).serve(tmp_path / "served")
    compared = bitmma.compare_captures(folder / "tiny_llama", served)
    assert (compared.index, compared.op) == (at, MM) and compared.why.startswith("its inputs agree")
    assert [verdict.status for verdict in compared.verdicts] == ["same", "differs"]


def edited(tmp_path, change):
    shutil.copytree(folder / "tiny_llama", tmp_path / "c")
    path = tmp_path / "c" / "graph.json"
    graph = json.loads(path.read_text())
    change(graph)
    path.write_text(json.dumps(graph))
    return tmp_path / "c"


def test_captures_that_list_other_numbers_of_outputs_differ(tmp_path):
    at = operator("tiny_llama", FLASH)
    other = edited(tmp_path, lambda graph: graph["operators"][at]["outputs"].pop())
    compared = bitmma.compare_captures(folder / "tiny_llama", other)
    assert (compared.index, compared.op) == (at, FLASH) and "outputs" in compared.why


def test_a_weight_is_checked_by_its_hash(tmp_path):
    def change(graph):
        next(tensor for tensor in graph["tensors"].values() if tensor.get("name") == "lm_head.weight")["sha256"] = (
            "0" * 64
        )

    report = bitmma.replay(edited(tmp_path, change))
    assert not report.coverage()["differ"]
    assert any("SHA-256" in verdict.why for verdict in report.verdicts if verdict.op == MM)


def written(path, **tensors):
    """A safetensors file of bfloat16."""
    header, data = {}, b""
    for name, array in tensors.items():
        header[name.replace("__", ".")] = {
            "dtype": "BF16",
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + array.nbytes],
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_a_given_weight_must_be_the_captured_one(tmp_path):
    capture = Capture(folder / "tiny_llama")
    number = next(number for number, tensor in capture.tensors.items() if tensor.get("name") == "lm_head.weight")
    weight = capture.weight(number).array
    right = bitmma.replay(
        folder / "tiny_llama", weights=written(tmp_path / "right.safetensors", lm_head__weight=weight)
    )
    assert right.same and right.trusted["weights that no given file has"] == 21
    wrong = bitmma.replay(
        folder / "tiny_llama", weights=[written(tmp_path / "wrong.safetensors", lm_head__weight=one_bit(weight.copy()))]
    )
    assert not wrong.same and "lm_head.weight is not the captured one" in wrong.first.why


def test_the_command_ends_with_what_it_found(tmp_path, capsys):
    from bitmma._replay_command import main

    capture = str(folder / "tiny_experts")
    assert main([capture, "--rows", "2", "--json"]) == 0 and json.loads(capsys.readouterr().out)["same"]
    assert main([capture, "--against", capture]) == 0 and main([str(tmp_path)]) == 2
    at = operator("tiny_experts", MM, -3, "layers.1.mlp.experts.")
    served = str(Server("tiny_experts", at, swapped_expert).serve(tmp_path / "served"))
    assert main([served, "--no-explain"]) == 1 and main([capture, "--against", served]) == 1
    assert main([str(edited(tmp_path, lambda graph: graph.update(operators=[])))]) == 2  # nothing was compared
    with pytest.raises(SystemExit):
        main([capture, "--against", capture, "--rows", "2"])


def test_results_that_are_not_stored_are_not_checked(tmp_path):
    def change(graph):
        for call in graph["operators"]:
            if call["op"] == MM:
                for number in call["outputs"]:
                    graph["tensors"]["not " + number] = {
                        name: value for name, value in graph["tensors"][number].items() if name != "sampled"
                    }
                call["outputs"] = ["not " + number for number in call["outputs"]]

    with pytest.raises(bitmma.Error, match="results of operators before it"):
        bitmma.replay(edited(tmp_path, change))


def test_an_operator_whose_outputs_are_not_stored_is_counted(tmp_path):
    def change(graph):
        last = graph["operators"][operator("tiny_llama", MM, -1)]
        graph["tensors"][last["outputs"][0]].pop("sampled", None)
        graph["tensors"]["unstored"] = graph["tensors"][last["outputs"][0]]
        at = graph["operators"].index(last)
        del graph["operators"][at + 1 :]
        last["outputs"] = ["unstored"]

    report = bitmma.replay(edited(tmp_path, change))
    assert report.verdicts[-1].status == "cannot say" and "stores no output" in report.verdicts[-1].why


def test_unknown_operators_and_kernels_are_named(tmp_path):
    def change(graph):
        graph["operators"][operator("tiny_llama", "aten.silu.default")]["op"] = "vendor.silu.default"
        graph["operators"][operator("tiny_llama", MM)]["kernels"] = [
            {"name": "vendor_gemm", "grid": [1, 1, 1], "block": [1, 1, 1]}
        ]

    codes = {
        verdict.op: verdict.code
        for verdict in bitmma.replay(edited(tmp_path, change)).verdicts
        if verdict.status == "cannot say"
    }
    assert codes["vendor.silu.default"] == "no rule" and codes[MM] == "not recomputed"


def test_bad_captures_are_refused(tmp_path):
    with pytest.raises(bitmma.Error, match=r"graph\.json"):
        bitmma.replay(tmp_path)
    (tmp_path / "graph.json").write_text('{"format": "other"}')
    with pytest.raises(bitmma.Error, match="format"):
        bitmma.replay(tmp_path)
    shutil.copy(folder / "tiny_llama" / "graph.json", tmp_path / "graph.json")
    (tmp_path / "tensors.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(bitmma.Error, match="safetensors"):
        bitmma.replay(tmp_path)


def sampled_tensor(graph):
    return next(tensor for tensor in graph["tensors"].values() if "sampled" in tensor)


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


BROKEN = {
    "deep arguments": lambda graph: graph["operators"][0]["args"].append(nested(100)),
    "no tensors": lambda graph: graph.pop("tensors"),
    "a shape of text": lambda graph: graph["tensors"]["0"].update(shape=["a"]),
    "a huge shape": lambda graph: sampled_tensor(graph).update(shape=[2**39, 2**39]),
    "a row outside": lambda graph: sampled_tensor(graph)["sampled"]["rows"].__setitem__(0, 10**6),
    "an order that is none": lambda graph: sampled_tensor(graph)["sampled"].update(order=[0, 0]),
    "an unknown tensor": lambda graph: graph["operators"][0]["args"].append({"tensor": "none"}),
    "another dtype": lambda graph: sampled_tensor(graph).update(dtype="float32"),
    "kernels of numbers": lambda graph: graph["operators"][0].update(kernels=[1]),
    "slices of text": lambda graph: graph["operators"][0].update(slices="2"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_captures_are_refused(what, tmp_path):
    with pytest.raises(bitmma.Error, match=r"graph\.json"):
        bitmma.replay(edited(tmp_path, BROKEN[what]))


@pytest.mark.parametrize("depth", [950, 100_000])
def test_deep_json_is_refused(depth, tmp_path):
    (tmp_path / "graph.json").write_text("[" * depth + "]" * depth)
    with pytest.raises(bitmma.Error, match=r"graph\.json") as caught:
        bitmma.replay(tmp_path)
    assert caught.value.violations[0].code == "illegal_value"


def test_no_text_of_a_capture_reaches_a_terminal_as_a_command(tmp_path, capsys):
    from bitmma._replay_command import main

    hostile = "\x1b[2J\x9b31m\x07\r"

    def change(graph):
        graph["machine"].update(gpu=hostile, torch=hostile)
        for call in graph["operators"][:2]:
            call["op"] = hostile

    path = str(edited(tmp_path, change))
    main([path, "--all", "--no-explain", "--rows", "2"])
    main([path, "--against", str(folder / "tiny_llama")])
    main([str(tmp_path / hostile)])
    printed = "".join(capsys.readouterr())
    assert "\\x1b[2J" in printed and not set(printed) & set("\x1b\x9b\x07\r")


# Captures whose operators do not belong together: each is refused, is not the same, or lists the tensor that nothing
# checks.


def small_capture():
    """x -> silu -> y -> square -> z; attention of q; a view of z; a tensor w that is added to."""
    draw = np.random.default_rng(0).standard_normal
    x, q = draw((4, 64)).astype(np.float32), draw((1, 1, 16, 32)).astype(np.float16)
    y = bitmma.operators.elementwise("silu", x)
    z = bitmma.operators.elementwise("square", y)
    out, lse = bitmma.operators.attention(q, q, q, return_lse=True)
    arrays = {
        "x": x,
        "y": y,
        "z": z,
        "q": q,
        "out": out,
        "lse": lse,
        "v": z.reshape(-1),
        "s": (x + y),
        "r": bitmma.operators.elementwise("relu", x + y),
    }
    tensors = {
        name: {
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "strides": [],
            "role": "input" if name in "xq" else "value",
        }
        for name, array in arrays.items()
    }

    def of(op, args, outputs, **more):
        return {
            "op": f"aten.{op}",
            "args": [{"tensor": arg} if isinstance(arg, str) else arg for arg in args],
            "kwargs": {},
            "outputs": outputs,
            **more,
        }

    operators = [
        of("silu.default", ["x"], ["y"]),
        of("pow.Tensor_Scalar", ["y", 2], ["z"]),
        of("_scaled_dot_product_flash_attention.default", ["q"] * 3, ["out", "lse", None, None, None]),
        of("view.default", ["z", [256]], ["v"]),
        of("add.Tensor", ["x", "y"], ["s"]),
        of("relu.default", ["s"], ["r"]),
    ]
    return {
        "format": "bitmma-capture/1",
        "machine": {"gpu": "NVIDIA H100 80GB HBM3", "torch": "2.11.0", "multiprocessors": 132},
        "seed": 0,
        "tensors": tensors,
        "operators": operators,
    }, arrays


def saved(path, graph, arrays):
    names = {"float32": "F32", "float16": "F16", "int64": "I64"}
    header, data = {}, b""
    for name, array in arrays.items():
        header[name] = {
            "dtype": names[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + array.nbytes],
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.mkdir()
    (path / "tensors.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    (path / "graph.json").write_text(graph if isinstance(graph, str) else json.dumps(graph))
    return path


def tensor(graph, arrays, number, role, array, /, **more):
    graph["tensors"][number] = {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "strides": [],
        "role": role,
        **more,
    }
    arrays[number] = array


def cut(graph, arrays, role, /, **more):
    """square reads another tensor than what silu made; what follows is consistent with it."""
    other = arrays["y"] * np.float32(1.5)
    tensor(graph, arrays, "other", role, other, **more)
    graph["operators"][1]["args"][0] = {"tensor": "other"}
    arrays["z"] = bitmma.operators.elementwise("square", other)
    arrays["v"] = arrays["z"].reshape(-1)


def operator_of(graph, index, **fields):
    graph["operators"][index].update(fields)


def fewer_rows(graph, arrays, name, rows):
    graph["tensors"][name]["shape"][0] = rows
    arrays[name] = arrays[name][:rows]


def inserted(graph, arrays, at, op, args, outputs, **made):
    for name, array in made.items():
        tensor(graph, arrays, name, "value", array)
    graph["operators"].insert(
        at,
        {
            "op": f"aten.{op}",
            "args": [{"tensor": arg} if isinstance(arg, str) else arg for arg in args],
            "kwargs": {},
            "outputs": outputs,
        },
    )


def overwritten(graph, arrays):
    """relu reads the tensor s as it was before add_ wrote over it."""
    inserted(graph, arrays, 5, "add_.Tensor", ["s", "x"], ["s2"], s2=arrays["s"] + arrays["x"])


def overwritten_view(graph, arrays):
    """The view v of z is written, and z is read as it was."""
    inserted(graph, arrays, 4, "mul_.Tensor", ["v", "v"], ["v2"], v2=arrays["v"] * arrays["v"])
    inserted(graph, arrays, 5, "relu.default", ["z"], ["late"], late=bitmma.operators.elementwise("relu", arrays["z"]))


def changed_by_another(graph, arrays):
    """Some operator wrote in place, but no memory of the shape of the tensor that is said to have changed."""
    inserted(
        graph,
        arrays,
        1,
        "mul_.Tensor",
        ["q", "q"],
        ["q2"],
        q2=bitmma.operators.elementwise("mul", arrays["q"], arrays["q"]),
    )
    graph["operators"][3]["args"] = [{"tensor": "q2"}] * 3
    q = arrays["q2"]
    arrays["out"], arrays["lse"] = bitmma.operators.attention(q, q, q, return_lse=True)
    cut_at = graph["operators"].pop(2)
    other = arrays["y"] * np.float32(1.5)
    tensor(graph, arrays, "other", "changed", other)
    graph["operators"].insert(2, dict(cut_at, args=[{"tensor": "other"}, 2]))
    arrays["z"] = bitmma.operators.elementwise("square", other)
    arrays["v"] = arrays["z"].reshape(-1)


def second_output(graph, arrays):
    """silu claims a second output, which square reads."""
    cut(graph, arrays, "value")
    graph["operators"][0]["outputs"] = ["y", "other"]


def not_stored(graph, arrays):
    del arrays["out"]


def unknown_operator(graph, arrays):
    """What square reads comes from an operator without a rule."""
    cut(graph, arrays, "value")
    inserted(graph, arrays, 1, "vendor.default", ["y"], ["other"])


def filled(graph, arrays):
    """`ones` of another shape than its argument."""
    inserted(graph, arrays, 4, "ones.default", [[8, 64]], ["ones"], ones=np.ones((4, 64), np.float32))


def top(graph, arrays):
    values = -np.sort(-arrays["x"], -1)[:, :2]
    places = np.argsort(-arrays["x"], -1)[:, :2]
    inserted(graph, arrays, 4, "topk.default", ["x", 4], ["values", "places"], values=values.copy(), places=places)


def duplicate(graph, arrays):
    text = json.dumps(graph)
    return text.replace('"tensors": {', '"tensors": {"x": {"dtype": "float32", "shape": [1], "role": "input"}, ', 1)


WEIGHT = {"name": "layers.0.weight", "sha256": "0" * 64}
REFUSED, NOT_SAME = "refused", "not the same"
UNFOUNDED = {
    "a role that does not exist": (lambda g, a: cut(g, a, "foo"), REFUSED),
    "a role in capitals": (lambda g, a: cut(g, a, "Input"), REFUSED),
    "no role": (lambda g, a: g["tensors"]["x"].pop("role"), REFUSED),
    "a value that no operator made": (lambda g, a: cut(g, a, "value"), REFUSED),
    "an input in the middle": (lambda g, a: cut(g, a, "input"), "inputs that appear after the first operator"),
    "changed, and nothing was written": (lambda g, a: cut(g, a, "changed"), NOT_SAME),
    "changed, and other memory was written": (changed_by_another, NOT_SAME),
    "an intermediate as a weight": (
        lambda g, a: cut(
            g, a, "weight", **WEIGHT | {"sha256": hashlib.sha256((a["y"] * np.float32(1.5)).tobytes()).hexdigest()}
        ),
        "weights that no given file has",
    ),
    "a weight of another hash": (lambda g, a: cut(g, a, "weight", **WEIGHT), "not recomputed"),
    "a weight of two hashes": (
        lambda g, a: (
            cut(g, a, "weight", **WEIGHT),
            tensor(g, a, "more", "weight", a["x"], name=WEIGHT["name"], sha256="1" * 64),
        ),
        REFUSED,
    ),
    "a view of an unknown tensor": (
        lambda g, a: (tensor(g, a, "other", "foo", a["z"]), operator_of(g, 3, args=[{"tensor": "other"}, [256]])),
        REFUSED,
    ),
    "a view of a tensor said to be changed": (
        lambda g, a: (tensor(g, a, "other", "changed", a["z"]), operator_of(g, 3, args=[{"tensor": "other"}, [256]])),
        NOT_SAME,
    ),
    "an output of two operators": (lambda g, a: operator_of(g, 5, outputs=["s"]), REFUSED),
    "an output twice in one operator": (lambda g, a: operator_of(g, 2, outputs=["out", "out"]), REFUSED),
    "an input that is an output": (lambda g, a: operator_of(g, 5, outputs=["x"]), REFUSED),
    "a tensor read before it is made": (lambda g, a: operator_of(g, 0, args=[{"tensor": "r"}]), REFUSED),
    "two tensors of one name": (duplicate, REFUSED),
    "overwritten before it is read": (overwritten, NOT_SAME),
    "overwritten through a view": (overwritten_view, NOT_SAME),
    "only lse": (lambda g, a: operator_of(g, 2, outputs=[None, "lse"]), NOT_SAME),
    "no outputs": (lambda g, a: operator_of(g, 5, outputs=[]), NOT_SAME),
    "an output that is no name": (lambda g, a: operator_of(g, 5, outputs=[5]), NOT_SAME),
    "an output of an unknown type": (lambda g, a: g["tensors"]["r"].update(dtype="complex64"), NOT_SAME),
    "a main output that is not stored": (not_stored, "not recomputed"),
    "fewer rows of an output": (lambda g, a: fewer_rows(g, a, "r", 2), NOT_SAME),
    "no rows of an output": (lambda g, a: fewer_rows(g, a, "r", 0), NOT_SAME),
    "fewer rows of a view": (lambda g, a: fewer_rows(g, a, "v", 64), NOT_SAME),
    "fewer elements than asked": (filled, NOT_SAME),
    "fewer of the largest than asked": (top, NOT_SAME),
    "a view of another operator's output": (lambda g, a: operator_of(g, 3, args=[{"tensor": "y"}, [256]]), NOT_SAME),
    "an output that the operator does not have": (second_output, "results that were not recomputed"),
    "the result of an unknown operator": (unknown_operator, "results that were not recomputed"),
}


def test_a_small_capture_is_the_same(tmp_path):
    for end_to_end in (False, True):
        report = bitmma.replay(
            tmp_path / "c" if end_to_end else saved(tmp_path / "c", *small_capture()), end_to_end=end_to_end
        )
        assert report.same and report.coverage()["recomputed"] == 6, str(report)
        assert [(trusted.tensor, trusted.reason, trusted.operator) for trusted in report.trusted_tensors] == [
            ("x", "input", 0),
            ("q", "inputs that appear after the first operator", 2),
        ]


@pytest.mark.parametrize("end_to_end", [False, True])
@pytest.mark.parametrize("what", UNFOUNDED)
def test_operators_that_do_not_belong_together_are_not_verified(what, end_to_end, tmp_path):
    change, expected = UNFOUNDED[what]
    graph, arrays = small_capture()
    text = change(graph, arrays)
    path = saved(tmp_path / "c", text if isinstance(text, str) else graph, arrays)
    if expected == REFUSED:
        with pytest.raises(bitmma.Error):
            bitmma.replay(path)
        return
    report = bitmma.replay(path, end_to_end=end_to_end)
    if expected == NOT_SAME:
        assert not report.same, str(report)
    elif expected == "not recomputed":
        assert [verdict.code for verdict in report.verdicts].count("not recomputed") == 1, str(report)
    else:
        assert any(trusted.reason == expected for trusted in report.trusted_tensors) and report.trusted[expected], str(
            report
        )
        assert json.loads(json.dumps(report.to_dict()))["trusted_tensors"]


def test_memory_that_a_write_through_a_view_explains_is_listed(tmp_path):
    graph, arrays = small_capture()
    inserted(graph, arrays, 4, "mul_.Tensor", ["v", "v"], ["v2"], v2=arrays["v"] * arrays["v"])
    tensor(graph, arrays, "z2", "changed", arrays["v2"].reshape(4, 64))
    inserted(
        graph, arrays, 5, "relu.default", ["z2"], ["late"], late=bitmma.operators.elementwise("relu", arrays["z2"])
    )
    report = bitmma.replay(saved(tmp_path / "c", graph, arrays))
    assert (
        report.same
        and ("z2", "tensors whose memory an operator wrote through another tensor", 5) in report.trusted_tensors
    )


LARGE = {
    "arange": ("arange.default", [1 << 34], {"o": [1 << 34]}),
    "ones": ("ones.default", [[1 << 34]], {"o": [1 << 34]}),
    "many ones": ("ones.default", [[1 << 30]], {f"o{i}": [1 << 30] for i in range(40)}),
    "repeat": ("repeat.default", ["x", [1 << 26, 1]], {"o": [1 << 28, 64]}),
    "arange of another size": ("arange.default", [1 << 34], {"o": [4]}),
    "ones of another size": ("ones.default", [[1 << 34]], {"o": [4]}),
    "repeat of another size": ("repeat.default", ["x", [1 << 28, 1]], {"o": [4]}),
    "parts that are not listed": ("split.Tensor", ["x", 1], {"o": [1, 64]}),
    "a product of another size": ("mm.default", ["u", "w"], {"o": [4]}),
}


@pytest.mark.parametrize("what", LARGE)
def test_memory_is_bounded_before_it_is_allocated(what, tmp_path):
    op, args, outputs = LARGE[what]
    graph, arrays = small_capture()
    del graph["operators"][1:]
    if op == "mm.default":
        tensor(graph, arrays, "u", "input", np.zeros((1 << 18, 1), np.float32))
        tensor(graph, arrays, "w", "input", np.zeros((1, 1 << 18), np.float32))
    for name, shape in outputs.items():
        graph["tensors"][name] = {
            "dtype": "int64" if op.startswith("arange") else "float32",
            "shape": shape,
            "role": "value",
        }
        graph["operators"].append(
            {
                "op": f"aten.{op}",
                "args": [{"tensor": arg} if isinstance(arg, str) else arg for arg in args],
                "kwargs": {},
                "outputs": [name],
                "kernels": [{"name": "nvjet"}],
            }
        )
    if what == "many ones":  # they are needed at the end
        graph["operators"].append(
            {"op": "aten.stack.default", "args": [[{"tensor": name} for name in outputs]], "kwargs": {}, "outputs": []}
        )
    path = saved(tmp_path / "c", graph, arrays)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if "of another size" in what or "not listed" in what:
        assert not bitmma.replay(path).same
    else:
        with pytest.raises(bitmma.Error) as error:
            bitmma.replay(path)
        assert (
            str(path / "graph.json") in error.value.violations[0].field
            and "operator" in error.value.violations[0].field
        )
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB


def test_the_limit_of_memory_is_an_argument():
    with pytest.raises(bitmma.Error):
        bitmma.replay(folder / "tiny_llama", memory_limit=1 << 20)
    assert bitmma.replay(folder / "tiny_llama", memory_limit=1 << 26, rows=1).same


@pytest.mark.parametrize(
    "change",
    [
        lambda path: os.truncate(path, 60_000),
        lambda path: os.utime(path, (1, 1)),
        lambda path: path.write_bytes(b"x" * 100),
    ],
)
def test_a_file_that_changes_while_it_is_read_is_named(change, tmp_path):
    shutil.copytree(folder / "tiny_llama", tmp_path / "c")
    path = tmp_path / "c" / "tensors.safetensors"

    def progress(done, count):
        if done == 20:
            change(path)

    with pytest.raises(bitmma.Error) as error:
        bitmma.replay(tmp_path / "c", progress=progress)
    assert error.value.violations[0].field == str(path)


def test_c_is_left_out_of_a_product_whose_beta_is_0():
    a, b = np.ones((16, 64), bf16), np.ones((64, 8), bf16)
    kernels = ["nvjet_sm90_tst_64x8_64x16_2x4_h_bz_TNT"]
    call = _replay_rules.Call(Tensor(np.dtype(bf16), (16, 8)), [], kernels, 0, {}, None, 1, None)
    rule = _replay_rules.others["aten.addmm.default"]
    d = [rule(call, Value(np.ones((16, 8), bf16)), Value(a), Value(b), beta).array[0, 0] for beta in (0, 1)]
    assert d == [64, 65]


@pytest.mark.parametrize("args", [[], ["x"], [None] * 12, [[[]]]])
def test_arguments_that_no_rule_expects_are_named(args, tmp_path):
    def change(graph):
        for call in graph["operators"]:
            call["args"] = args

    report = bitmma.replay(edited(tmp_path, change))
    assert report.coverage()["differ"] == 0 and not any(
        verdict.status == "same" and verdict.outputs and "arange" not in verdict.op for verdict in report.verdicts
    )
    assert any("not those that the rule expects" in verdict.why for verdict in report.verdicts)
