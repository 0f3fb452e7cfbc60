#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records which kernel cuBLAS chooses for a matrix product: its name and the number of slices along K.

Needs PyTorch 2.11 or newer and a GPU, but not bitmma. No product is computed: each call is captured into a CUDA graph,
whose nodes name the kernels, and a parameter of the kernel that adds the slices has their number.

  record_choices.py -o choices.json.xz              every pair (N, K) of `MODELS` and of the grid, all kinds of calls
  record_choices.py -o more.json.xz --only bf16,f16 some kinds
  record_choices.py --list                          the kinds and the pairs

For each pair (N, K), M takes all values up to 256, multiples of 16 up to 2048 and of 64 up to 16384. If two neighbours
differ, the script bisects the values between them. A file holds the values of M where the choice changes.
"""

import argparse
import itertools
import json
import lzma
import multiprocessing
import sys
import time

# Name: hidden size, intermediate size, rows of q, rows of k and of v, vocabulary (0: as of another row).
MODELS = {
    "Llama 2 7B": (4096, 11008, 4096, 4096, 32000), "Llama 2 13B": (5120, 13824, 5120, 5120, 32000),
    "Llama 2 70B": (8192, 28672, 8192, 1024, 32000), "Llama 3 8B": (4096, 14336, 4096, 1024, 128256),
    "Llama 3 70B": (8192, 28672, 8192, 1024, 128256), "Llama 3 405B": (16384, 53248, 16384, 1024, 128256),
    "Llama 3.2 1B": (2048, 8192, 2048, 512, 128256), "Llama 3.2 3B": (3072, 8192, 3072, 1024, 128256),
    "Qwen2.5 0.5B": (896, 4864, 896, 128, 151936), "Qwen2.5 1.5B": (1536, 8960, 1536, 256, 151936),
    "Qwen2.5 3B": (2048, 11008, 2048, 256, 151936), "Qwen2.5 7B": (3584, 18944, 3584, 512, 152064),
    "Qwen2.5 14B": (5120, 13824, 5120, 1024, 152064), "Qwen2.5 32B": (5120, 27648, 5120, 1024, 152064),
    "Qwen2.5 72B": (8192, 29568, 8192, 1024, 152064), "Qwen3 0.6B": (1024, 3072, 2048, 1024, 151936),
    "Qwen3 4B": (2560, 9728, 4096, 1024, 151936), "Qwen3 8B": (4096, 12288, 4096, 1024, 151936),
    "Qwen3 14B": (5120, 17408, 5120, 1024, 151936), "Qwen3 32B": (5120, 25600, 8192, 1024, 151936),
    "Qwen3 30B-A3B": (2048, 768, 4096, 512, 151936), "Qwen3 235B-A22B": (4096, 1536, 8192, 512, 151936),
    "Mistral 7B": (4096, 14336, 4096, 1024, 32768), "Mixtral 8x7B": (4096, 14336, 4096, 1024, 32000),
    "Gemma 2 2B": (2304, 9216, 2048, 1024, 256000), "Gemma 2 9B": (3584, 14336, 4096, 2048, 256000),
    "Gemma 3 4B": (2560, 10240, 2048, 1024, 262208), "Gemma 3 27B": (5376, 21504, 4096, 2048, 262208),
    "Phi-3 mini": (3072, 8192, 3072, 3072, 32064), "Phi-4": (5120, 17920, 5120, 1280, 100352),
    "gpt-oss 20B": (2880, 2880, 4096, 512, 201088), "OLMo 2 7B": (4096, 11008, 4096, 4096, 100352),
    "SmolLM2 1.7B": (2048, 8192, 2048, 2048, 49152), "GPT-2": (768, 3072, 768, 768, 50257),
    "BERT large": (1024, 4096, 1024, 1024, 30522), "ViT-L": (1024, 4096, 1024, 1024, 1000),
    "Falcon 7B": (4544, 18176, 4544, 64, 65024), "Yi 34B": (7168, 20480, 7168, 1024, 64000),
}  # fmt: skip
# For DeepSeek V3: latent projections, experts of 2048, the router of 256 experts.
OTHERS = [(1536, 7168), (24576, 1536), (576, 7168), (32768, 512), (7168, 16384), (2048, 7168), (7168, 2048),
          (18432, 7168), (7168, 18432), (256, 7168), (129280, 7168), (8, 4096), (128, 2048), (128, 4096),
          (32, 2880)]  # fmt: skip
GRID = [64, 128, 256, 512, 1000, 1024, 1536, 2048, 3072, 4096, 8192]
ODD = [
    (129, 264),
    (500, 1000),
    (1000, 777),
    (333, 512),
    (1001, 1024),
    (50, 100),
    (100, 300),
    (2050, 2050),
    (4097, 4096),
    (10, 784),
]


def pairs():
    found = set(OTHERS) | set(itertools.product(GRID, GRID)) | set(ODD)
    for hidden, inter, q, kv, vocabulary in MODELS.values():
        found |= {
            (q, hidden),
            (kv, hidden),
            (q + 2 * kv, hidden),
            (hidden, q),
            (inter, hidden),
            (2 * inter, hidden),
            (hidden, inter),
        }
        found |= {(vocabulary, hidden)} if vocabulary else set()
        for shards in (2, 4, 8):  # tensor parallel
            if inter % (64 * shards) == 0 and q % (64 * shards) == 0 and hidden >= 4096:
                found |= {
                    (q // shards, hidden),
                    (hidden, q // shards),
                    (inter // shards, hidden),
                    (hidden, inter // shards),
                }
    return sorted(found)


# Kind: operand type, type of D, the function of PyTorch, whether float32 is rounded to tf32.
KINDS = {
    "bf16": ("bfloat16", "bfloat16", "mm", False), "bf16 bias": ("bfloat16", "bfloat16", "addmm", False),
    "f16": ("float16", "float16", "mm", False), "f16 bias": ("float16", "float16", "addmm", False),
    "bf16 to f32": ("bfloat16", "float32", "mm", False), "f16 to f32": ("float16", "float32", "mm", False),
    "f32": ("float32", "float32", "mm", False), "f32 bias": ("float32", "float32", "addmm", False),
    "tf32": ("float32", "float32", "mm", True), "tf32 bias": ("float32", "float32", "addmm", True),
    "e4m3 fast": ("float8_e4m3fn", "bfloat16", "fast", False), "e4m3": ("float8_e4m3fn", "bfloat16", "slow", False),
    "e4m3 rows fast": ("float8_e4m3fn", "bfloat16", "rows fast", False),
    "e4m3 rows": ("float8_e4m3fn", "bfloat16", "rows slow", False),
}  # fmt: skip
LAYOUTS = {
    "nn": ("bf16", "f16", "f32", "tf32"),
    "tn": ("bf16", "f32"),
    "tt": ("bf16", "f32"),
}  # beside nt, of all kinds


def tasks(only):
    for kind in only:
        for layout in ("nt", *(one for one, kinds in LAYOUTS.items() if kind in kinds)):
            for n, k in pairs():
                if not kind.startswith("e4m3") or n % 16 == k % 16 == 0:
                    yield kind, layout, n, k


class Recorder:
    def __init__(self):
        import torch

        self.torch = torch
        self.names, self.seen = [], {}
        self.stream = torch.cuda.Stream()
        # No kernel runs, so that all operands may have the same memory.
        self.memory = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
        self.scale = torch.ones((), device="cuda")
        self.scales = torch.ones(1 << 19, device="cuda")
        with torch.cuda.stream(self.stream):  # handles and workspaces are made outside of a capture
            for kind in KINDS:
                try:
                    self.call(kind, "nt", 64, 64, 64)()
                except RuntimeError:
                    pass
        torch.cuda.synchronize()

    def tensor(self, dtype, rows, cols, transposed=False):
        dtype = getattr(self.torch, dtype)
        flat = self.memory[: rows * cols * dtype.itemsize].view(dtype)
        return flat.view(cols, rows).t() if transposed else flat.view(rows, cols)

    def call(self, kind, layout, m, n, k):
        torch = self.torch
        of, to, api, tf32 = KINDS[kind]
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = self.tensor(of, m, k, layout[0] == "t"), self.tensor(of, k, n, layout[1] == "t")
        d = self.tensor(to, m, n)
        if api == "mm" and of == to:
            return lambda: torch.mm(a, b, out=d)
        if api == "mm":
            return lambda: torch.ops.aten.mm.dtype_out(a, b, getattr(torch, to), out=d)
        if api == "addmm":
            return lambda: torch.addmm(self.tensor(to, 1, n)[0], a, b, out=d)
        rows = api.startswith("rows")
        scale_a, scale_b = (
            (self.scales[:m].view(m, 1), self.scales[:n].view(1, n)) if rows else (self.scale, self.scale)
        )
        return lambda: torch._scaled_mm(
            a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=d.dtype, use_fast_accum=api.endswith("fast"), out=d
        )

    def most_m(self, kind, n, k):
        """The largest M whose operands the memory holds; 0: it does not hold B."""
        of, to = (getattr(self.torch, one).itemsize for one in KINDS[kind][:2])
        most = min(16384, self.memory.numel() // max(k * of, n * to))
        return most if n * k * of <= self.memory.numel() else 0

    def choice(self, *shape):
        """The number of (kernels, slices) in `names`."""
        from record_common import captured

        try:
            names, slices = captured(self.call(*shape), self.stream)
        except RuntimeError as error:
            return self.number((f"refused: {str(error).splitlines()[0]}", 0))
        return self.number((" + ".join(names), slices))

    def number(self, choice):
        if choice not in self.seen:
            self.seen[choice] = len(self.names)
            self.names.append(choice)
        return self.seen[choice]

    def record(self, kind, layout, n, k):
        """[[M, choice], ...]: the choice from this M on."""
        most = self.most_m(kind, n, k)
        # With M contiguous the last bits of M decide too: only multiples of 8 are recorded.
        taken = [*range(1, 257), *range(272, 2048, 16), *range(2048, 16385, 64)]
        values = {
            m: self.choice(kind, layout, m, n, k) for m in taken if m <= most and (layout[0] == "n" or m % 8 == 0)
        }
        known = sorted(values)
        for low, high in itertools.pairwise(known):
            while layout[0] == "n" and high - low > 1 and values[low] != values[high]:
                middle = (low + high) // 2
                values[middle] = self.choice(kind, layout, middle, n, k)
                low, high = (middle, high) if values[middle] == values[low] else (low, middle)
        runs, last = [], None
        for m in sorted(values):
            if values[m] != last:
                runs.append([m, values[m]])
            last = values[m]
        return runs, len(values), most


def worker(queue, results, end):
    try:
        recorder = Recorder()
        for task in iter(queue.get, None):
            if time.time() > end:
                break
            runs, calls, most = recorder.record(*task)
            results.put((task, [[m, recorder.names[one]] for m, one in runs], calls, most))
    finally:
        results.put(None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", help="the file to write, *.json.xz")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds of calls, with commas")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no pair after this time")
    parser.add_argument("--processes", type=int, default=12, help="each has 4 GB of GPU memory (default: 12)")
    parser.add_argument("--list", action="store_true", help="print the kinds and the number of pairs")
    options = parser.parse_args()
    only = options.only.split(",")
    if wrong := [one for one in only if one not in KINDS]:
        parser.error(f"--only {wrong[0]}: legal are {', '.join(KINDS)}")
    work = list(tasks(only))
    if options.list or not options.output:
        print(f"{len(pairs())} pairs (N, K); {len(work)} of a kind and a layout")
        return 0 if options.list else 2

    import torch

    from record_common import about_this_machine

    context = multiprocessing.get_context("spawn")
    queue, results = context.Queue(), context.Queue()
    for task in [*work, *[None] * options.processes]:
        queue.put(task)
    end = time.time() + options.seconds
    workers = [
        context.Process(target=worker, args=(queue, results, end), daemon=True) for _ in range(options.processes)
    ]
    for one in workers:
        one.start()
    names, found, running, begun, calls = {}, {}, len(workers), time.time(), 0
    while running:
        made = results.get(timeout=300)
        if made is None:
            running -= 1
            continue
        task, runs, count, most = made
        calls += count
        found["|".join(map(str, task))] = {
            "most": most,
            "runs": [[m, names.setdefault(tuple(one), len(names))] for m, one in runs],
        }
        if sys.stderr.isatty() or len(found) % 200 == 0:
            print(
                f"\r{len(found)} of {len(work)}, {calls} calls, {time.time() - begun:.0f} s",
                end="",
                file=sys.stderr,
                flush=True,
            )
    print(file=sys.stderr)
    about = {
        **about_this_machine("cuda"),
        "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count,
        "calls": calls,
    }
    text = json.dumps({"about": about, "kernels": list(names), "choices": found}, separators=(",", ":"))
    with lzma.open(options.output, "wt") as file:
        file.write(text)
    print(f"{options.output}: {len(found)} of a kind, layout, N and K; {calls} calls, {len(names)} kernels with slices")
    return 0


if __name__ == "__main__":
    sys.exit(main())
