# SPDX-License-Identifier: MIT
"""Captures of an H100 follow from their inputs; those of a dishonest server do not."""
import json
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import bitmma
from bitmma import _replay
from bitmma._captured import Capture, Value, tensors_in

folder = Path(__file__).parents[2] / "data" / "captures"


@pytest.mark.parametrize("end_to_end", [False, True])
@pytest.mark.parametrize("name", ["tiny_llama", "tiny_experts"])
def test_every_operator_gives_the_recorded_bits(name, end_to_end):
    found = bitmma.replay(folder / name, end_to_end=end_to_end)
    assert found.same, str(found)
    cover = found.coverage()
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

    def compute(self, one):
        made = super().compute(one)
        return self.fraud(self, one, made) if one is self.capture.operators[self.at] else made

    def serve(self, to):
        """Writes the capture that this server would give."""
        shutil.copytree(self.capture.path, to)
        data = bytearray((to / "tensors.safetensors").read_bytes())
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + size])
        for index, one in enumerate(self.capture.operators):
            self.verdict(index, one)
            for number in one["outputs"]:
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
            array, known = (one.transpose(sampled["order"]) for one in (array, known))
            whole = np.prod(array.shape[:sampled["leading"]], dtype=int)
            array, known = (one.reshape(whole, -1)[sampled["rows"]].reshape(count, -1) for one in (array, known))
        old = np.array(stored).reshape(array.shape)
        made = np.ascontiguousarray(np.where(known, array, old)).tobytes()
        data[at:at + len(made)] = made


def operator(name, wanted, number=0, weight=""):
    """The index of an operator: the `number`-th of this name, with this weight."""
    capture = Capture(folder / name)
    weights = {number: one["name"] for number, one in capture.tensors.items() if one["role"] == "weight"}
    for one in capture.operators:  # a weight's transpose is the weight
        if one["op"] == "aten.t.default" and one["args"][0]["tensor"] in weights:
            weights[one["outputs"][0]] = weights[one["args"][0]["tensor"]]
    found = [index for index, one in enumerate(capture.operators) if one["op"] == wanted and
             (not weight or any(weights.get(number, "").startswith(weight) for number in tensors_in(one["args"])))]
    return found[number]


def operands(run, one):
    return [Value(np.ascontiguousarray(value.array), value.known) for value in _replay._arguments_of(one["args"], run.value) if isinstance(value, Value)]


def product(run, one, a, b, **how):
    how = how or {"kernel": " + ".join(kernel["name"] for kernel in one["kernels"]), "split_k": one.get("slices", 0)}
    return [Value(bitmma.gemm(a, b, threads=2, **how))]


def other_weights(change):
    def fraud(run, one, made):
        a, b = operands(run, one)
        return product(run, one, a.array, change(b.array.copy()))
    return fraud


def one_bit(b):
    b.view(np.uint16)[5, 7] ^= 1 << 6
    return b


def of_fp8(b):
    scale = np.float32(np.abs(b.astype(np.float32)).max() / 448)
    return ((b.astype(np.float32) / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * scale).astype(bf16)


def other_plan(**how):
    def fraud(run, one, made):
        a, b = operands(run, one)
        return product(run, one, a.array, b.array, output="bf16", **how)
    return fraud


def half_of_k(run, one, made):
    a, b = operands(run, one)
    half = a.array.shape[1] // 2
    return product(run, one, np.ascontiguousarray(a.array[:, :half]), b.array[:half])


def attention_in_four_kernels(run, one, made):
    """PyTorch's MATH backend: scores, mask, softmax and product are rounded to bfloat16 each."""
    q, k, v = (value.array.astype(bf16)[0] for value in operands(run, one))
    size, heads = q.shape[-1], []
    for head in range(len(q)):
        keys, values = (one[head * len(k) // len(q)] for one in (k, v))
        scores = bitmma.gemm(np.ascontiguousarray(q[head]), np.ascontiguousarray(keys.T), "flat", output="bf16").astype(np.float32) / np.float32(size**0.5)
        scores = np.where(np.tri(*scores.shape, dtype=bool), scores, np.float32(-np.inf)).astype(bf16)
        heads.append(bitmma.gemm(bitmma.operators.softmax(scores), np.ascontiguousarray(values), "flat", output="bf16"))
    return [Value(np.stack(heads)[None]), *made[1:]]


def dropped_token(run, one, made):
    out = made[0].array.copy()
    out[0, 39] = out[0, 38]
    return [Value(out)]


def softmax_in_another_order(run, one, made):
    x = operands(run, one)[0].array
    e = bitmma.operators.elementwise("exp", x - x.max(-1, keepdims=True))
    total = np.float32(0)
    for number in e[0]:
        total += number
    return [Value(e / total)]


def stale_keys(run, one, made):
    out = made[0].array.copy()
    out[:, :, 16:32] = out[:, :, 0:16]
    return [Value(out)]


def swapped_expert(run, one, made):
    a, _ = operands(run, one)
    wrong = next(number for number, about in run.capture.tensors.items() if about.get("name") == "layers.0.mlp.experts.4.gate_proj.weight")
    return product(run, one, a.array, np.ascontiguousarray(run.capture.weight(wrong).array.T))


def truncated_logits(run, one, made):
    a, b = operands(run, one)
    wide = bitmma.gemm(a.array, b.array, "flat", output="f32")
    return [Value((wide.view(np.uint32) >> 16).astype(np.uint16).view(bf16))]


def repeated_seed(run, one, made):
    first = run.capture.operators[operator("tiny_llama", "aten.multinomial.default")]
    return super(Server, run).compute(dict(one, generator=first["generator"]))


MM, FLASH = "aten.mm.default", "aten._scaled_dot_product_flash_attention.default"
FRAUDS = {
    "one bit of a weight": ("tiny_llama", (MM, 0, "layers.0.mlp.up_proj"), other_weights(one_bit), "other weights"),
    "weights of fp8": ("tiny_llama", (MM, 0, "layers.0.mlp.gate_proj"), other_weights(of_fp8), "rounded to e4m3"),
    "another split of K": ("tiny_llama", (MM, 0, "layers.0.mlp.down_proj"), other_plan(plan="nvjet-splitK", split_k=4), "split"),
    "another attention kernel": ("tiny_llama", (FLASH, 0), attention_in_four_kernels, "neither another number of splits"),
    "a dropped token": ("tiny_llama", ("aten.embedding.default", 0), dropped_token, ""),
    "softmax in another order": ("tiny_llama", ("aten._softmax.default", 0), softmax_in_another_order, ""),
    "another GPU's bits": ("tiny_llama", (MM, 0, "layers.1.mlp.up_proj"), other_plan(plan="flat", target="sm_80"), "steps of 8"),
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
    found = bitmma.replay(served)
    assert found.first is not None and found.first.index == at, str(found)
    assert [one.index for one in found.verdicts if one.status == "differs"] == [at], "what follows is consistent with it"
    assert why in found.first.why, str(found.first)


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_experts"])
def test_an_honest_server_is_accepted(name, tmp_path):
    served = Server(name, 0, lambda run, one, made: made).serve(tmp_path / "served")
    assert bitmma.replay(served).same
    assert bitmma.compare_captures(folder / name, served).same


def test_two_captures_part_at_the_first_other_operator(tmp_path):
    at = operator("tiny_llama", MM, 0, "layers.0.mlp.down_proj")
    served = Server("tiny_llama", at, other_plan(plan="nvjet-splitK", split_k=4)).serve(tmp_path / "served")
    compared = bitmma.compare_captures(folder / "tiny_llama", served)
    assert (compared.index, compared.op) == (at, MM) and compared.why.startswith("its inputs agree")
    assert [one.status for one in compared.verdicts] == ["same", "differs"]


def edited(tmp_path, change):
    shutil.copytree(folder / "tiny_llama", tmp_path / "c")
    path = tmp_path / "c" / "graph.json"
    graph = json.loads(path.read_text())
    change(graph)
    path.write_text(json.dumps(graph))
    return tmp_path / "c"


def test_a_weight_is_checked_by_its_hash(tmp_path):
    def change(graph):
        next(one for one in graph["tensors"].values() if one.get("name") == "lm_head.weight")["sha256"] = "0" * 64
    found = bitmma.replay(edited(tmp_path, change))
    assert not found.coverage()["differ"]
    assert any("SHA-256" in one.why for one in found.verdicts if one.op == MM)


def written(path, **tensors):
    """A safetensors file of bfloat16."""
    header, data = {}, b""
    for name, one in tensors.items():
        header[name.replace("__", ".")] = {"dtype": "BF16", "shape": list(one.shape), "data_offsets": [len(data), len(data) + one.nbytes]}
        data += one.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_a_given_weight_must_be_the_captured_one(tmp_path):
    capture = Capture(folder / "tiny_llama")
    number = next(number for number, one in capture.tensors.items() if one.get("name") == "lm_head.weight")
    weight = capture.weight(number).array
    right = bitmma.replay(folder / "tiny_llama", weights=written(tmp_path / "right.safetensors", lm_head__weight=weight))
    assert right.same and right.trusted["weights that no given file has"] == 21
    wrong = bitmma.replay(folder / "tiny_llama", weights=[written(tmp_path / "wrong.safetensors", lm_head__weight=one_bit(weight.copy()))])
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
        for one in graph["operators"]:
            if one["op"] == MM:
                for number in one["outputs"]:
                    graph["tensors"]["not " + number] = {name: value for name, value in graph["tensors"][number].items() if name != "sampled"}
                one["outputs"] = ["not " + number for number in one["outputs"]]
    with pytest.raises(bitmma.Error, match="results of operators before it"):
        bitmma.replay(edited(tmp_path, change))


def test_an_operator_whose_outputs_are_not_stored_is_counted(tmp_path):
    def change(graph):
        last = graph["operators"][operator("tiny_llama", MM, -1)]
        graph["tensors"][last["outputs"][0]].pop("sampled", None)
        graph["tensors"]["unstored"] = graph["tensors"][last["outputs"][0]]
        at = graph["operators"].index(last)
        del graph["operators"][at + 1:]
        last["outputs"] = ["unstored"]
    found = bitmma.replay(edited(tmp_path, change))
    assert found.verdicts[-1].status == "cannot say" and "stores no output" in found.verdicts[-1].why


def test_unknown_operators_and_kernels_are_named(tmp_path):
    def change(graph):
        graph["operators"][operator("tiny_llama", "aten.silu.default")]["op"] = "vendor.silu.default"
        graph["operators"][operator("tiny_llama", MM)]["kernels"] = [{"name": "vendor_gemm", "grid": [1, 1, 1], "block": [1, 1, 1]}]
    codes = {one.op: one.code for one in bitmma.replay(edited(tmp_path, change)).verdicts if one.status == "cannot say"}
    assert codes["vendor.silu.default"] == "no rule" and codes[MM] == "not recomputed"


def test_bad_captures_are_refused(tmp_path):
    with pytest.raises(bitmma.Error, match="graph.json"):
        bitmma.replay(tmp_path)
    (tmp_path / "graph.json").write_text('{"format": "other"}')
    with pytest.raises(bitmma.Error, match="format"):
        bitmma.replay(tmp_path)
    shutil.copy(folder / "tiny_llama" / "graph.json", tmp_path / "graph.json")
    (tmp_path / "tensors.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(bitmma.Error, match="safetensors"):
        bitmma.replay(tmp_path)


def sampled_tensor(graph):
    return next(one for one in graph["tensors"].values() if "sampled" in one)


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
    with pytest.raises(bitmma.Error, match="graph.json"):
        bitmma.replay(edited(tmp_path, BROKEN[what]))


@pytest.mark.parametrize("depth", [950, 100_000])
def test_deep_json_is_refused(depth, tmp_path):
    (tmp_path / "graph.json").write_text("[" * depth + "]" * depth)
    with pytest.raises(bitmma.Error, match="graph.json") as caught:
        bitmma.replay(tmp_path)
    assert caught.value.violations[0].code == "illegal_value"


def test_no_text_of_a_capture_reaches_a_terminal_as_a_command(tmp_path, capsys):
    from bitmma._replay_command import main
    hostile = "\x1b[2J\x9b31m\x07\r"

    def change(graph):
        graph["machine"].update(gpu=hostile, torch=hostile)
        for one in graph["operators"][:2]:
            one["op"] = hostile
    path = str(edited(tmp_path, change))
    main([path, "--all", "--no-explain", "--rows", "2"])
    main([path, "--against", str(folder / "tiny_llama")])
    main([str(tmp_path / hostile)])
    printed = "".join(capsys.readouterr())
    assert "\\x1b[2J" in printed and not set(printed) & set("\x1b\x9b\x07\r")


@pytest.mark.parametrize("args", [[], ["x"], [None] * 12, [[[]]]])
def test_arguments_that_no_rule_expects_are_named(args, tmp_path):
    def change(graph):
        for one in graph["operators"]:
            one["args"] = args
    found = bitmma.replay(edited(tmp_path, change))
    assert found.coverage()["differ"] == 0 and not any(one.status == "same" and one.outputs and "arange" not in one.op for one in found.verdicts)
    assert any("not those that the rule expects" in one.why for one in found.verdicts)
