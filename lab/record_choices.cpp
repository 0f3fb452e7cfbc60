// SPDX-License-Identifier: MIT
// Records which kernel cuBLAS takes for PyTorch's products on a grid of shapes: N and K in steps of 64 up to 16384, the
// coarse ones first, M at every change. No kernel runs: each call is captured into a CUDA graph, whose nodes name the
// kernels. lab/record_choice_grid.py builds it and starts a process a core.
//
//   record_choices INDEX PROCESSES SECONDS OUTPUT nt,nn,tn          the grid of these layouts
//   record_choices INDEX PROCESSES SECONDS OUTPUT nt,nn,tn SHAPES   the shapes of a file, lines "kind|layout|m|n|k"
//   record_choices INDEX PROCESSES SECONDS OUTPUT batched SHAPES    all batches of these, lines
//   "kind|layout|m|n|k|most"
//
// A line of the output: kind|layout|n|k|most M|m:class,m:class,...; at the end a line a class: #class number slices
// name
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cxxabi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace {

struct Kind {
  const char* name;
  at::ScalarType operand, result;
  enum Api { mm, addmm, scaled, bmm } api;
  bool tf32, fast;
  const char* layout;
};

/// The kinds of call of data/choices/README.md, in the layouts that PyTorch gives them: nt of a linear layer, nn of
/// torch.mm and of a linear layer's gradient by its input, tn of its gradient by the weights.
std::vector<Kind> kinds_of(const std::string& layouts) {
  std::vector<Kind> kinds;
  const auto has = [&](const char* layout) {
    return ("," + layouts + ",").find("," + std::string(layout) + ",") != std::string::npos;
  };
  const struct {
    const char *name, *bias;
    at::ScalarType type;
    bool tf32;
  } types[] = {{"f32", "f32 bias", at::kFloat, false},
               {"tf32", "tf32 bias", at::kFloat, true},
               {"bf16", "bf16 bias", at::kBFloat16, false},
               {"f16", "f16 bias", at::kHalf, false}};
  for (const char* layout : {"nt", "nn", "tn"}) {
    if (has("batched"))
      for (const auto& type : types)
        kinds.push_back({type.name, type.type, type.type, Kind::bmm, type.tf32, false, layout});
    if (!has(layout)) continue;
    for (const auto& type : types)
      kinds.push_back({type.name, type.type, type.type, Kind::mm, type.tf32, false, layout});
    if (std::string(layout) != "tn") {
      for (const auto& type : types)
        kinds.push_back({type.bias, type.type, type.type, Kind::addmm, type.tf32, false, layout});
    }
    if (std::string(layout) == "nt")
      kinds.push_back({"e4m3", at::kFloat8_e4m3fn, at::kBFloat16, Kind::scaled, false, false, layout});
  }
  return kinds;
}

std::string demangled(const char* name) {
  int status = 1;
  char* text = std::strncmp(name, "_Z", 2) == 0 ? abi::__cxa_demangle(name, nullptr, nullptr, &status) : nullptr;
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

/// As class_of of lab/pack_choices.py: `*` for what decides no bit.
std::string class_of(std::string name) {
  if (name.starts_with("nvjet")) {
    name = std::regex_replace(name, std::regex("_\\d+x\\d+_\\d+x\\d+_\\dx\\d_[hv]_bz(_coop[AB])?"), "_*");
    return std::regex_replace(name, std::regex("_[TN]{3}$"), "");
  }
  int depth = 0;
  for (size_t at = 0; at < name.size(); ++at) {
    depth += (name[at] == '<') - (name[at] == '>');
    if (name[at] == '(' && depth == 0) {
      name.resize(at);
      break;
    }
  }
  name = std::regex_replace(name, std::regex("^(void|std::enable_if<.*?>::type) "), "");
  std::smatch match;
  if (std::regex_search(name, match, std::regex("^cutlass::Kernel2?<(\\w+?)(_align\\d+)?>"))) {
    name = std::regex_replace(match[1].str(), std::regex("gemm(\\w*?)_\\d+x\\d+_(\\d+)x\\d+_"), "gemm$1_*_$2x*_");
    return std::regex_replace(name, std::regex("_\\d+x\\d+_([tn]{2})$"), "_*_$1");
  }
  name = std::regex_replace(name, std::regex("^(sm90_xmma_\\w+?)_tilesize\\w+?_execute(?=_segment_k_off)"),
                            "$1_*_execute");
  return std::regex_replace(name, std::regex("^(sm80_xmma_\\w+?)_tilesize\\w+?_execute"), "$1_*_execute");
}

void require(CUresult code, const char* what) {
  if (code != CUDA_SUCCESS) {
    std::fprintf(stderr, "%s: error %d of the CUDA driver\n", what, int(code));
    std::exit(1);
  }
}

class Recorder {
 public:
  explicit Recorder(const std::vector<Kind>& kinds) : stream_(c10::cuda::getStreamFromPool()), guard_(stream_) {
    const auto bytes =
        at::empty({int64_t{16384} * 16384 * 4 + 4096}, at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
    for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat, at::kFloat8_e4m3fn})
      flat_[type] = bytes.slice(0, 0, bytes.numel() / 8 * 8).view(type);
    scale_ = at::ones({}, at::TensorOptions().dtype(at::kFloat).device(at::kCUDA));
    for (const Kind& kind : kinds) call(kind, 64, 64, 64);  // handles and workspaces are made outside of a capture
    require(cuCtxSynchronize(), "cuCtxSynchronize");
  }

  /// The number of the class of the call's kernels.
  int choice(const Kind& kind, int64_t m, int64_t n, int64_t k, int64_t batch = 1, bool gaps = false) {
    ++calls;
    require(cuStreamBeginCapture(stream_.stream(), CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
    std::string refused;
    try {
      call(kind, m, n, k, batch, gaps);
    } catch (const std::exception& error) {
      refused = std::string("refused: ") + std::string(error.what()).substr(0, 80);
    }
    CUgraph graph;
    require(cuStreamEndCapture(stream_.stream(), &graph), "cuStreamEndCapture");
    CUgraphNode nodes[8];
    size_t count = 8;
    require(cuGraphGetNodes(graph, nodes, &count), "cuGraphGetNodes");
    std::vector<const void*> functions;
    int slices = 0, layers = 0;
    bool has_reduction = false;
    for (size_t i = 0; i < count && i < 8; ++i) {
      CUgraphNodeType type;
      require(cuGraphNodeGetType(nodes[i], &type), "cuGraphNodeGetType");
      if (type != CU_GRAPH_NODE_TYPE_KERNEL) continue;
      CUDA_KERNEL_NODE_PARAMS params;
      require(cuGraphKernelNodeGetParams(nodes[i], &params), "cuGraphKernelNodeGetParams");
      const void* const function = params.func ? static_cast<const void*>(params.func) : params.kern;
      auto [name, is_new] = names_.try_emplace(function);
      if (is_new) {
        const char* text = nullptr;
        if (params.func) require(cuFuncGetName(&text, params.func), "cuFuncGetName");
        else require(cuKernelGetName(&text, params.kern), "cuKernelGetName");
        name->second = class_of(demangled(text));
        std::replace(name->second.begin(), name->second.end(), '|', '/');
      }
      if (name->second.find("splitKreduce") != std::string::npos) {
        has_reduction = true;
        std::memcpy(&slices, static_cast<const char*>(params.kernelParams[0]) + 40, 4);  // of cublasSplitKParams
      }
      if (layers == 0 && params.gridDimZ > 1) layers = int(params.gridDimZ);
      functions.push_back(function);
    }
    require(cuGraphDestroy(graph), "cuGraphDestroy");
    // Of a batch, the matrices are layers of the grid, if the grid has layers.
    if (!has_reduction) slices = kind.api == Kind::bmm && layers % batch == 0 ? int(layers / batch) : layers;
    const auto [known, is_new] = known_.try_emplace({functions, slices}, 0);
    if (is_new || !refused.empty()) {
      std::string name = refused;
      for (const void* function : functions) name += (name.empty() ? "" : " + ") + names_[function];
      known->second = classes_.try_emplace({name, slices}, int(classes_.size())).first->second;
    }
    return known->second;
  }

  /// The classes from each M on at which they change. The heuristic of nvjet takes half a millisecond a call, that of
  /// other kernels 25 us: where nvjet's few calls that are spread over M agree, no more are made.
  std::string runs(const Kind& kind, int64_t n, int64_t k) {
    static const std::vector<int64_t> scan = [] {
      std::vector<int64_t> values;
      const auto add = [&](int64_t first, int64_t last, int64_t step) {
        for (int64_t m = first; m <= last; m += step) values.push_back(m);
      };
      add(1, 16, 1), add(20, 64, 4), add(72, 256, 8), add(288, 1024, 32), add(1088, 2048, 64), add(2304, 8192, 256);
      add(8704, 16384, 512);
      return values;
    }();
    // Of an A with contiguous columns, the last bits of M decide too: only multiples of 8 are recorded.
    const int64_t step = kind.layout[0] == 't' ? 8 : 1;
    const bool is_slow = kind.operand != at::kFloat;
    const int64_t plain_k = kind.operand == at::kFloat8_e4m3fn ? 4096 : 2048;
    std::map<int64_t, int> values;
    const auto take = [&](std::initializer_list<int64_t> list) {
      for (const int64_t m : list)
        if (m % step == 0 && !values.contains(m)) values[m] = choice(kind, m, n, k);
    };
    const auto is_one = [&] {
      return std::all_of(values.begin(), values.end(),
                         [&](const auto& v) { return v.second == values.begin()->second; });
    };
    int64_t end = 16384;
    if (is_slow) {
      take({1, 4, 9, 16, 64, 128, 256, 1024, 4096, 16384});
      if (!(is_one() && n >= 512 && k <= plain_k))
        take({2, 3, 8, 17, 24, 32, 48, 96, 160, 192, 224, 320, 384, 512, 768, 1536, 2048, 3072, 6144, 8192, 12288});
      if (is_one()) end = 0;
      else
        for (auto at = std::prev(values.end()); at != values.begin() && at->second == std::prev(at)->second; --at)
          end = std::prev(at)->first;
    }
    for (const int64_t m : scan)
      if (m <= end && m % step == 0 && !values.contains(m)) values[m] = choice(kind, m, n, k);
    std::vector<int64_t> known;
    for (const auto& [m, number] : values) known.push_back(m);
    for (size_t i = 0; i + 1 < known.size(); ++i) {
      int64_t low = known[i], high = known[i + 1];
      while (high - low > step && values[low] != values[high]) {
        const int64_t middle = (low + high) / 2 / step * step;
        values[middle] = choice(kind, middle, n, k);
        (values[middle] == values[low] ? low : high) = middle;
      }
    }
    std::string text;
    int last = -1;
    for (const auto& [m, number] : values) {
      if (number != last) text += (text.empty() ? "" : ",") + std::to_string(m) + ":" + std::to_string(number);
      last = number;
    }
    return text;
  }

  /// The classes from each number of matrices on at which they change.
  std::string batches(const Kind& kind, int64_t m, int64_t n, int64_t k, int64_t most) {
    std::map<int64_t, int> values;
    for (int64_t batch = 1; batch < most; batch += std::max<int64_t>(1, batch / 4))
      values[batch] = choice(kind, m, n, k, batch);
    values[most] = choice(kind, m, n, k, most);
    const std::map<int64_t, int> scanned = values;
    for (auto next = std::next(scanned.begin()); next != scanned.end(); ++next) {
      int64_t low = std::prev(next)->first, high = next->first;
      while (high - low > 1 && values[low] != values[high]) {
        const int64_t middle = (low + high) / 2;
        values[middle] = choice(kind, m, n, k, middle);
        (values[middle] == values[low] ? low : high) = middle;
      }
    }
    std::string text;
    int last = -1;
    for (const auto& [batch, number] : values) {
      if (number != last) text += (text.empty() ? "" : ",") + std::to_string(batch) + ":" + std::to_string(number);
      last = number;
    }
    return text;
  }

  const std::map<std::pair<std::string, int>, int>& classes() const { return classes_; }
  int64_t calls = 0;

 private:
  at::Tensor tensor(at::ScalarType type, int64_t rows, int64_t cols, bool transposed) {
    return flat_.at(type).as_strided({rows, cols}, {transposed ? 1 : cols, transposed ? rows : 1});
  }

  /// Matrices one behind the other; with gaps, line i of all matrices before line i + 1 of any, as
  /// nn.MultiheadAttention has them.
  at::Tensor tensors(at::ScalarType type, int64_t batch, int64_t rows, int64_t cols, bool transposed, bool gaps) {
    const int64_t line = transposed ? rows : cols, step = gaps ? batch * line : line;
    return flat_.at(type).as_strided({batch, rows, cols},
                                     {gaps ? line : rows * cols, transposed ? 1 : step, transposed ? step : 1});
  }

  void call(const Kind& kind, int64_t m, int64_t n, int64_t k, int64_t batch = 1, bool gaps = false) {
    at::globalContext().setAllowTF32CuBLAS(kind.tf32);
    if (kind.api == Kind::bmm) {
      at::Tensor d = tensors(kind.result, batch, m, n, false, false);
      at::bmm_out(d, tensors(kind.operand, batch, m, k, kind.layout[0] == 't', gaps),
                  tensors(kind.operand, batch, k, n, kind.layout[1] == 't', gaps));
      return;
    }
    at::Tensor a = tensor(kind.operand, m, k, kind.layout[0] == 't'),
               b = tensor(kind.operand, k, n, kind.layout[1] == 't');
    at::Tensor d = tensor(kind.result, m, n, false);
    if (kind.api == Kind::scaled) at::_scaled_mm_out(d, a, b, scale_, scale_, {}, {}, kind.result, kind.fast);
    else if (kind.api == Kind::addmm) at::addmm_out(d, flat_.at(kind.result).narrow(0, 0, n), a, b);
    else if (kind.operand != kind.result) at::mm_out(d, a, b, kind.result);
    else at::mm_out(d, a, b);
  }

  c10::cuda::CUDAStream stream_;
  c10::cuda::CUDAStreamGuard guard_;
  std::map<at::ScalarType, at::Tensor> flat_;
  at::Tensor scale_;
  std::map<const void*, std::string> names_;
  std::map<std::pair<std::vector<const void*>, int>, int> known_;
  std::map<std::pair<std::string, int>, int> classes_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) {
    std::fprintf(stderr, "usage: record_choices INDEX PROCESSES SECONDS OUTPUT LAYOUTS [SHAPES]\n");
    return 2;
  }
  const int index = std::atoi(argv[1]), processes = std::atoi(argv[2]);
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  const double most_seconds = std::atof(argv[3]);
  at::NoGradGuard no_grad;
  const std::vector<Kind> kinds = kinds_of(argv[5]);
  Recorder recorder(kinds);
  std::ofstream out(argv[4]);
  std::map<std::string, std::pair<int64_t, double>> speed;
  int64_t task = 0, pairs = 0;
  const auto record = [&](const Kind& kind, int64_t n, int64_t k) {
    if (task++ % processes != index) return true;
    if (seconds() > most_seconds) return false;
    const int64_t calls = recorder.calls;
    const double from = seconds();
    out << kind.name << '|' << kind.layout << '|' << n << '|' << k << "|16384|" << recorder.runs(kind, n, k) << '\n';
    auto& [done, time] = speed[std::string(kind.name) + ' ' + kind.layout];
    done += recorder.calls - calls, time += seconds() - from;
    ++pairs;
    return true;
  };
  const auto record_shapes = [&](const char* file) {
    std::ifstream shapes(file);
    for (std::string line; std::getline(shapes, line);) {
      char name[32], layout[8];
      long long m = 0, n = 0, k = 0, most = 0;
      const int fields =
          std::sscanf(line.c_str(), "%31[^|]|%7[^|]|%lld|%lld|%lld|%lld", name, layout, &m, &n, &k, &most);
      if (fields < 5) continue;
      for (const Kind& kind : kinds) {
        if (std::string(name) != kind.name || std::string(layout) != kind.layout || task++ % processes != index)
          continue;
        if (fields == 5) {
          out << line << '|' << recorder.choice(kind, m, n, k) << '\n';
        } else {
          if (seconds() > most_seconds) return;
          const auto choices = [&] {
            return line.ends_with("gaps") ? std::to_string(recorder.choice(kind, m, n, k, most, false)) + "|" +
                                                std::to_string(recorder.choice(kind, m, n, k, most, true))
                                          : recorder.batches(kind, m, n, k, most);
          };
          out << line << '|' << choices() << '\n';
          ++pairs;
        }
      }
    }
  };
  const auto record_grid = [&] {
    for (const int64_t level : {1024, 512, 256, 128, 64}) {
      for (const Kind& kind : kinds) {
        for (int64_t n = level; n <= 16384; n += level) {
          for (int64_t k = level; k <= 16384; k += level) {
            if (level < 1024 && n % (2 * level) == 0 && k % (2 * level) == 0) continue;
            if (!record(kind, n, k)) return;
          }
        }
      }
    }
  };
  if (argc == 7) record_shapes(argv[6]);
  else record_grid();
  for (const auto& [name, number] : recorder.classes())
    out << "#class " << number << ' ' << name.second << ' ' << name.first << '\n';
  if (index == 0)
    for (const auto& [name, row] : speed)
      std::fprintf(stderr, "%s: %lld calls, %.1f us each\n", name.c_str(), (long long)row.first,
                   1e6 * row.second / row.first);
  std::fprintf(stderr, "%d: %lld pairs, %lld calls, %.0f s\n", index, (long long)pairs, (long long)recorder.calls,
               seconds());
  return 0;
}
