// CUDA graphs: captures of streams, nodes and edges, launches, memory of graphs, conditions.
#include <cstring>
#include <thread>

#include "driver/api.hpp"

using namespace bitmma::driver;
using namespace bitmma::driver::test;

namespace {

constexpr unsigned count = 64;
constexpr std::string_view condition_ptx = R"(
.version 8.0
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry count_down(.param .u64 handle, .param .u64 counter)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [handle];
  ld.param.u64 %rd2, [counter];
  ld.global.u32 %r1, [%rd2];
  sub.u32 %r1, %r1, 1;
  st.global.u32 [%rd2], %r1;
  {
    .param .b64 first;
    .param .b32 second;
    st.param.b64 [first], %rd1;
    st.param.b32 [second], %r1;
    call.uni cudaGraphSetConditional, (first, second);
  }
  ret;
}
)";

CUstream make_stream() {
  CUstream stream = nullptr;
  REQUIRE(call("cuStreamCreate", &stream, 1U) == CUDA_SUCCESS);
  return stream;
}
CUevent make_event() {
  CUevent event = nullptr;
  REQUIRE(call("cuEventCreate", &event, 2U) == CUDA_SUCCESS);
  return event;
}
CUgraph make_graph() {
  CUgraph graph = nullptr;
  REQUIRE(call("cuGraphCreate", &graph, 0U) == CUDA_SUCCESS);
  return graph;
}
CUgraphExec instantiate(CUgraph graph, unsigned long long flags = 0) {
  CUgraphExec exec = nullptr;
  REQUIRE(call("cuGraphInstantiateWithFlags", &exec, graph, flags) == CUDA_SUCCESS);
  return exec;
}
CUresult begin(CUstream stream, int mode = CU_STREAM_CAPTURE_MODE_RELAXED) {
  return call("cuStreamBeginCapture_v2", stream, mode);
}
CUresult launch_graph(CUgraphExec exec) { return call("cuGraphLaunch", exec, CUstream{}); }

std::vector<CUgraphNode> nodes_of(CUgraph graph) {
  size_t nodes = 0;
  REQUIRE(call("cuGraphGetNodes", graph, static_cast<CUgraphNode*>(nullptr), &nodes) == CUDA_SUCCESS);
  std::vector<CUgraphNode> all(nodes);
  REQUIRE(call("cuGraphGetNodes", graph, all.data(), &nodes) == CUDA_SUCCESS);
  return all;
}
std::vector<CUgraphNodeType> types_of(CUgraph graph) {
  std::vector<CUgraphNodeType> types;
  for (const CUgraphNode node : nodes_of(graph)) {
    types.emplace_back();
    REQUIRE(call("cuGraphNodeGetType", node, &types.back()) == CUDA_SUCCESS);
  }
  return types;
}

/// A node of this type after those nodes.
CUgraphNode add(CUgraph graph, const std::vector<CUgraphNode>& from, CUgraphNodeParams& params,
                CUresult result = CUDA_SUCCESS) {
  CUgraphNode node = nullptr;
  CHECK(call("cuGraphAddNode_v2", &node, graph, from.data(), static_cast<const CUgraphEdgeData*>(nullptr), from.size(),
             &params) == result);
  return node;
}
CUgraphNodeParams params_of(CUgraphNodeType type) {
  CUgraphNodeParams params{};
  params.type = type;
  return params;
}
CUgraphNodeParams fill_of(CUdeviceptr to, unsigned value, size_t words) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_MEMSET);
  params.memset = {
      .dst = to, .pitch = 0, .value = value, .elementSize = 4, .width = words, .height = 1, .ctx = nullptr};
  return params;
}

/// The kernel y += x, whose parameters a program may change after the node has them.
struct Sum {
  CUfunction add = function_of(load(add_ptx), "add");
  CUdeviceptr x = upload(std::vector<float>(count, 1.5F)), y = upload(std::vector<float>(count, 2));
  unsigned n = count;
  void* pointers[3]{&x, &y, &n};

  CUgraphNodeParams params() {
    CUgraphNodeParams all = params_of(CU_GRAPH_NODE_TYPE_KERNEL);
    all.kernel.func = add;
    all.kernel.gridDimX = all.kernel.gridDimY = all.kernel.gridDimZ = 1;
    all.kernel.blockDimX = count;
    all.kernel.blockDimY = all.kernel.blockDimZ = 1;
    all.kernel.kernelParams = pointers;
    return all;
  }
  CUresult launch(CUstream stream) {
    return call("cuLaunchKernel", add, 1U, 1U, 1U, count, 1U, 1U, 0U, stream, +pointers, static_cast<void**>(nullptr));
  }
  float first() const { return download<float>(y, 1)[0]; }
};

}  // namespace

TEST_CASE("captured calls are done by each launch of the graph and not before") {
  const TestContext context;
  Sum sum;
  const CUstream stream = make_stream();
  const std::vector<float> source(count, 10);
  std::vector<float> result(count);
  int calls = 0;
  REQUIRE(begin(stream) == CUDA_SUCCESS);
  CHECK(call("cuMemcpyHtoDAsync_v2", sum.x, static_cast<const void*>(source.data()), size_t{4} * count, stream) ==
        CUDA_SUCCESS);
  CHECK(sum.launch(stream) == CUDA_SUCCESS);
  CHECK(call("cuMemcpyDtoHAsync_v2", static_cast<void*>(result.data()), sum.y, size_t{4} * count, stream) ==
        CUDA_SUCCESS);
  CHECK(call("cuMemsetD32Async", sum.y, 0U, size_t{1}, stream) == CUDA_SUCCESS);
  const CUhostFn count_call = [](void* data) { ++*static_cast<int*>(data); };
  CHECK(call("cuLaunchHostFunc", stream, count_call, static_cast<void*>(&calls)) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(call("cuStreamEndCapture", stream, &graph) == CUDA_SUCCESS);
  CHECK((sum.first() == 2 && calls == 0));
  CHECK(types_of(graph) == std::vector{CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY,
                                       CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_HOST});
  const CUgraphExec exec = instantiate(graph);
  CHECK(call("cuGraphDestroy", graph) == CUDA_SUCCESS);
  CHECK(launch_graph(exec) == CUDA_SUCCESS);
  CHECK((result[0] == 12 && result[1] == 12 && calls == 1));
  CHECK(launch_graph(exec) == CUDA_SUCCESS);
  CHECK((result[0] == 10 && result[1] == 22 && calls == 2));
  CHECK(call("cuGraphExecDestroy", exec) == CUDA_SUCCESS);
  CHECK(launch_graph(exec) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("events bring another stream into a capture, which has to join again") {
  const TestContext context;
  Sum sum;
  const CUstream stream = make_stream(), other = make_stream();
  const CUevent fork = make_event(), join = make_event();
  const auto begin_both = [&] {
    REQUIRE(begin(stream) == CUDA_SUCCESS);
    CHECK(sum.launch(stream) == CUDA_SUCCESS);
    CHECK(call("cuEventRecord", fork, stream) == CUDA_SUCCESS);
    CHECK(call("cuEventQuery", fork) == CUDA_ERROR_CAPTURED_EVENT);
    CHECK(call("cuStreamWaitEvent", other, fork, 0U) == CUDA_SUCCESS);
    CHECK(call("cuMemsetD32Async", sum.x, 0U, size_t{1}, other) == CUDA_SUCCESS);
  };
  CUgraph graph = nullptr;
  begin_both();
  CHECK(call("cuStreamEndCapture", other, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  CHECK(call("cuStreamEndCapture", stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  CHECK(graph == nullptr);
  begin_both();
  CHECK(call("cuEventRecord", join, other) == CUDA_SUCCESS);
  CHECK(call("cuMemsetD32Async", sum.y, 0U, size_t{1}, stream) == CUDA_SUCCESS);
  CHECK(call("cuStreamWaitEvent", stream, join, 0U) == CUDA_SUCCESS);
  CHECK(sum.launch(stream) == CUDA_SUCCESS);
  REQUIRE(call("cuStreamEndCapture", stream, &graph) == CUDA_SUCCESS);
  const std::vector<CUgraphNode> nodes = nodes_of(graph);
  REQUIRE(nodes.size() == 4);
  CUgraphNode from[4]{};
  size_t edges = 4;
  CHECK(call("cuGraphNodeGetDependencies_v2", nodes[3], +from, static_cast<CUgraphEdgeData*>(nullptr), &edges) ==
        CUDA_SUCCESS);
  CHECK((edges == 2 && from[0] == nodes[2] && from[1] == nodes[1] && !from[2]));
  CHECK(call("cuStreamSynchronize", other) == CUDA_SUCCESS);
}

TEST_CASE("what a captured stream may not do") {
  const TestContext context;
  const CUstream stream = make_stream();
  CUgraph graph = nullptr;
  int status = 5;
  const auto state = [&] { return call("cuStreamIsCapturing", stream, &status) == CUDA_SUCCESS ? status : -1; };
  CHECK(begin(nullptr) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(call("cuStreamEndCapture", stream, &graph) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(state() == CU_STREAM_CAPTURE_STATUS_NONE);
  REQUIRE(begin(stream, 0) == CUDA_SUCCESS);
  CHECK(begin(stream) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(state() == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  std::thread([&] {
    CHECK(call("cuStreamEndCapture", stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  const CUevent before = make_event();
  CHECK(call("cuEventRecord", before, CUstream{}) == CUDA_SUCCESS);
  CHECK(call("cuStreamWaitEvent", stream, before, 0U) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  CHECK(call("cuStreamSynchronize", stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(state() == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CHECK(call("cuMemsetD32Async", allocate(4), 0U, size_t{1}, stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(call("cuStreamEndCapture", stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(state() == CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_CASE("a node keeps its parameters, and those of an executable graph can be changed") {
  const TestContext context;
  Sum sum;
  const CUgraph graph = make_graph();
  CUgraphNodeParams params = sum.params();
  params.kernel.gridDimX = 0;  // the program sets it before the launch
  const CUgraphNode node = add(graph, {}, params);
  params = sum.params();
  CHECK(call("cuGraphKernelNodeSetParams_v2", node, &params.kernel) == CUDA_SUCCESS);
  const CUgraphExec exec = instantiate(graph);
  const CUdeviceptr y = sum.y;
  sum.y = sum.x;
  CHECK(launch_graph(exec) == CUDA_SUCCESS);
  CHECK(download<float>(y, 1)[0] == 3.5F);
  CUDA_KERNEL_NODE_PARAMS kernel{};
  CHECK(call("cuGraphKernelNodeGetParams_v2", node, &kernel) == CUDA_SUCCESS);
  CHECK(*static_cast<CUdeviceptr*>(kernel.kernelParams[1]) == y);
  CHECK(call("cuGraphExecKernelNodeSetParams", exec, node, &params.kernel) == CUDA_SUCCESS);
  CHECK(launch_graph(exec) == CUDA_SUCCESS);
  CHECK((download<float>(y, 1)[0] == 3.5F && download<float>(sum.x, 1)[0] == 3));
  CHECK(call("cuGraphNodeSetEnabled", exec, node, 0U) == CUDA_SUCCESS);
  CHECK(launch_graph(exec) == CUDA_SUCCESS);
  CHECK(download<float>(sum.x, 1)[0] == 3);
  CUgraphExecUpdateResultInfo info{};
  CHECK(call("cuGraphExecUpdate_v2", exec, graph, &info) == CUDA_SUCCESS);
  CHECK(call("cuGraphNodeSetEnabled", exec, node, 1U) == CUDA_SUCCESS);
  CHECK(launch_graph(exec) == CUDA_SUCCESS);
  CHECK(download<float>(y, 1)[0] == 6.5F);
  CHECK(call("cuGraphExecNodeSetParams", exec, node, &params) == CUDA_SUCCESS);
  CHECK(launch_graph(exec) == CUDA_SUCCESS);
  CHECK((download<float>(y, 1)[0] == 6.5F && download<float>(sum.x, 1)[0] == 6));
  params = params_of(CU_GRAPH_NODE_TYPE_EMPTY);
  add(graph, {}, params);
  CHECK(call("cuGraphExecUpdate_v2", exec, graph, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
}

TEST_CASE("edges order the nodes, whatever the order in which these were added; a cycle is refused") {
  const TestContext context;
  const CUdeviceptr word = upload(std::vector<unsigned>{0});
  const CUgraph graph = make_graph();
  CUgraphNodeParams first = fill_of(word, 1, 1), second = fill_of(word, 2, 1);
  const CUgraphNode a = add(graph, {}, first), b = add(graph, {}, second);
  const auto edge = [&](const char* name, CUgraphNode from, CUgraphNode to) {
    return call(name, graph, &from, &to, static_cast<const CUgraphEdgeData*>(nullptr), size_t{1});
  };
  CHECK(edge("cuGraphAddDependencies_v2", b, a) == CUDA_SUCCESS);
  CHECK(edge("cuGraphAddDependencies_v2", b, a) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch_graph(instantiate(graph)) == CUDA_SUCCESS);
  CHECK(download<unsigned>(word, 1)[0] == 1);
  CUgraphNode root = nullptr;
  size_t roots = 1;
  CHECK(call("cuGraphGetRootNodes", graph, &root, &roots) == CUDA_SUCCESS);
  CHECK((roots == 1 && root == b));
  CHECK(edge("cuGraphAddDependencies_v2", a, b) == CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  CHECK(call("cuGraphInstantiateWithParams", &exec, graph, &params) == CUDA_ERROR_INVALID_VALUE);
  CHECK(params.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  CHECK(edge("cuGraphRemoveDependencies_v2", b, a) == CUDA_SUCCESS);
  CHECK(launch_graph(instantiate(graph)) == CUDA_SUCCESS);
  CHECK(download<unsigned>(word, 1)[0] == 2);
  CUgraphNodeParams empty = params_of(CU_GRAPH_NODE_TYPE_EMPTY);
  add(make_graph(), {a}, empty, CUDA_ERROR_INVALID_VALUE);
  CHECK(call("cuGraphDestroyNode", a) == CUDA_SUCCESS);
  CHECK(nodes_of(graph) == std::vector{b});
}

TEST_CASE("a graph in a graph, as a node and by the launch of a captured stream") {
  const TestContext context;
  Sum sum;
  const CUgraph child = make_graph(), graph = make_graph();
  CUgraphNodeParams kernel = sum.params();
  add(child, {}, kernel);
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_GRAPH);
  params.graph.graph = child;
  const CUgraphNode node = add(graph, {}, params);
  add(child, {}, kernel);  // the node has a copy
  CHECK(launch_graph(instantiate(graph)) == CUDA_SUCCESS);
  CHECK(sum.first() == 3.5F);
  CUgraph inner = nullptr;
  CHECK(call("cuGraphChildGraphNodeGetGraph", node, &inner) == CUDA_SUCCESS);
  CHECK((inner != child && nodes_of(inner).size() == 1));
  CHECK(call("cuGraphDestroy", inner) == CUDA_ERROR_INVALID_VALUE);
  const CUgraphExec exec = instantiate(child);
  const CUstream stream = make_stream();
  CUgraph captured = nullptr;
  REQUIRE(begin(stream) == CUDA_SUCCESS);
  CHECK(call("cuGraphLaunch", exec, stream) == CUDA_SUCCESS);
  REQUIRE(call("cuStreamEndCapture", stream, &captured) == CUDA_SUCCESS);
  CHECK(types_of(captured) == std::vector{CU_GRAPH_NODE_TYPE_GRAPH});
  CHECK(launch_graph(instantiate(captured)) == CUDA_SUCCESS);
  CHECK(sum.first() == 6.5F);
}

TEST_CASE("memory of a graph has its address before the launch and stays until it is freed") {
  const TestContext context;
  const CUgraph graph = make_graph();
  CUgraphNodeParams allocation = params_of(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  allocation.alloc.bytesize = 256;
  const CUgraphNode node = add(graph, {}, allocation);
  const CUdeviceptr address = allocation.alloc.dptr;
  REQUIRE(address != 0);
  CUgraphNodeParams fill = fill_of(address, 7, 64);
  add(graph, {node}, fill);
  const auto used = [](int attribute = 0) {
    uint64_t bytes = 0;
    CHECK(call("cuDeviceGetGraphMemAttribute", 0, attribute, &bytes) == CUDA_SUCCESS);
    return bytes;
  };
  CHECK(call("cuMemsetD32_v2", address, 0U, size_t{1}) == CUDA_ERROR_INVALID_VALUE);
  const CUgraphExec exec = instantiate(graph), freeing = instantiate(graph, 1);
  CHECK(launch_graph(exec) == CUDA_SUCCESS);
  CHECK(download<unsigned>(address, 64) == std::vector<unsigned>(64, 7));
  CHECK((used() == 256 && used(2) == 256));
  CHECK(launch_graph(exec) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch_graph(freeing) == CUDA_SUCCESS);
  CHECK(call("cuMemFree_v2", address) == CUDA_SUCCESS);
  CHECK((used() == 0 && used(2) == 256));
  CHECK(call("cuDeviceGraphMemTrim", 0) == CUDA_SUCCESS);
  CHECK((used(2) == 0 && used(1) == 256));
  CHECK(call("cuGraphDestroyNode", node) == CUDA_ERROR_INVALID_VALUE);

  const CUstream stream = make_stream();
  CUgraph captured = nullptr;
  CUdeviceptr other = 0;
  REQUIRE(begin(stream) == CUDA_SUCCESS);
  CHECK(call("cuMemAllocAsync", &other, size_t{64}, stream) == CUDA_SUCCESS);
  CHECK(call("cuMemFreeAsync", other, stream) == CUDA_SUCCESS);
  REQUIRE(call("cuStreamEndCapture", stream, &captured) == CUDA_SUCCESS);
  CHECK(types_of(captured) == std::vector{CU_GRAPH_NODE_TYPE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_MEM_FREE});
  const CUgraphExec both = instantiate(captured);
  for (int i = 0; i < 2; ++i) CHECK(launch_graph(both) == CUDA_SUCCESS);
  CHECK(used() == 0);
}

TEST_CASE("kernels set the conditions of loops and branches") {
  const TestContext context;
  const CUfunction count_down = function_of(load(std::string(condition_ptx)), "count_down");
  const CUdeviceptr counter = upload(std::vector<unsigned>{5}), sum = upload(std::vector<unsigned>{0});
  const CUgraph graph = make_graph();
  const auto condition = [&](unsigned value) {
    CUgraphConditionalHandle handle = 0;
    REQUIRE(call("cuGraphConditionalHandleCreate", &handle, graph, context.get(), value, 1U) == CUDA_SUCCESS);
    return handle;
  };
  const auto conditional = [&](CUgraphConditionalNodeType type, CUgraphConditionalHandle handle, unsigned size) {
    CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_CONDITIONAL);
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    return params;
  };
  CUgraphConditionalHandle loop = condition(1);
  CUdeviceptr counter_parameter = counter;
  void* pointers[]{&loop, &counter_parameter};
  CUgraphNodeParams kernel = params_of(CU_GRAPH_NODE_TYPE_KERNEL);
  kernel.kernel.func = count_down;
  kernel.kernel.gridDimX = kernel.kernel.gridDimY = kernel.kernel.gridDimZ = 1;
  kernel.kernel.blockDimX = kernel.kernel.blockDimY = kernel.kernel.blockDimZ = 1;
  kernel.kernel.kernelParams = pointers;
  CUgraphNodeParams params = conditional(CU_GRAPH_COND_TYPE_WHILE, loop, 1);
  const CUgraphNode while_node = add(graph, {}, params);
  add(params.conditional.phGraph_out[0], {}, kernel);
  params = conditional(CU_GRAPH_COND_TYPE_SWITCH, condition(1), 3);
  const CUgraphNode switch_node = add(graph, {while_node}, params);
  for (unsigned i = 0; i < 3; ++i) {
    CUgraphNodeParams fill = fill_of(sum, 10 + i, 1);
    add(params.conditional.phGraph_out[i], {}, fill);
  }
  params = conditional(CU_GRAPH_COND_TYPE_IF, condition(0), 1);
  add(graph, {switch_node}, params);
  CUgraphNodeParams fill = fill_of(sum, 0, 1);
  add(params.conditional.phGraph_out[0], {}, fill);
  CHECK(launch_graph(instantiate(graph)) == CUDA_SUCCESS);
  CHECK((download<unsigned>(counter, 1)[0] == 0 && download<unsigned>(sum, 1)[0] == 11));
  params = conditional(CU_GRAPH_COND_TYPE_IF, loop, 1);
  add(make_graph(), {}, params, CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("graphs keep user objects until the last of them is destroyed") {
  const TestContext context;
  int destroyed = 0;
  CUuserObject object = nullptr;
  const CUhostFn destroy = [](void* data) { ++*static_cast<int*>(data); };
  CHECK(call("cuUserObjectCreate", &object, static_cast<void*>(&destroyed), destroy, 1U, 1U) == CUDA_SUCCESS);
  const CUgraph graph = make_graph();
  CHECK(call("cuGraphRetainUserObject", graph, object, 1U, 1U) == CUDA_SUCCESS);
  const CUgraphExec exec = instantiate(graph);
  CHECK(call("cuGraphDestroy", graph) == CUDA_SUCCESS);
  CHECK(destroyed == 0);
  CHECK(call("cuGraphExecDestroy", exec) == CUDA_SUCCESS);
  CHECK(destroyed == 1);
  CHECK(call("cuUserObjectRelease", object, 1U) == CUDA_ERROR_INVALID_VALUE);
}
