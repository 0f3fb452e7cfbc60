// SPDX-License-Identifier: MIT
// Executable graphs: instantiation, changes, launches, and the memory that these allocate.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "graph_calls.hpp"

using namespace bitmma::driver;

extern "C" {
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D*);
CUresult cuMemsetD2D8_v2(CUdeviceptr, size_t, unsigned char, size_t, size_t);
CUresult cuMemsetD2D16_v2(CUdeviceptr, size_t, unsigned short, size_t, size_t);
CUresult cuMemsetD2D32_v2(CUdeviceptr, size_t, unsigned, size_t, size_t);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuEventRecord(CUevent, CUstream);
}

namespace {

CUresult set_exec_params(CUgraphExec handle, CUgraphNode original, const CUgraphNodeParams& params) {
  return with_exec(
      handle, [&](Driver& driver, GraphExec& exec) { replace_params(driver, node_of(*exec.graph, original), params); });
}

CUresult instantiate(CUgraphExec* exec, CUgraph graph, uint64_t flags) {
  return with_graph(graph, [&](Driver& driver, Graph& own) {
    require_pointer(exec);
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) {
      driver.report.print_once("a graph that kernels launch is refused: bitmma launches graphs from the host");
      throw Failure{CUDA_ERROR_NOT_SUPPORTED};
    }
    in_order_of_work(own);  // it throws for a cycle, before there is a clone
    Graph& clone = clone_graph(driver, own);
    clone.is_of_node = true;
    order(clone);
    GraphExec& made = driver.graph_execs.add();
    made = {.graph = &clone, .flags = flags};
    *exec = &made;
  });
}

/// What differs between an executable graph and a graph that shall replace it.
CUgraphExecUpdateResultInfo difference(const Graph& own, const Graph& other) {
  CUgraphExecUpdateResultInfo info{};
  const auto fail = [&](CUgraphExecUpdateResult result, GraphNode* node) {
    info.result = result, info.errorNode = node;
  };
  if (own.nodes.size() != other.nodes.size()) fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
  for (size_t i = 0; i < other.nodes.size() && info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS; ++i) {
    const GraphNode& from = *own.nodes[i];
    GraphNode& to = *other.nodes[i];
    const auto places = [](const Graph& graph, const GraphNode& node) {
      std::vector<std::ptrdiff_t> all;
      for (const GraphEdge& edge : node.dependencies)
        all.push_back(std::ranges::find(graph.nodes, edge.from) - graph.nodes.begin());
      std::ranges::sort(all);
      return all;
    };
    if (from.params.type != to.params.type) fail(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, &to);
    else if (places(own, from) != places(other, to) || from.graphs.size() != to.graphs.size())
      fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, &to);
    else if (to.address_range && to.address_range != from.address_range)
      fail(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, &to);
    for (size_t inner = 0; inner < to.graphs.size() && info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS; ++inner)
      info = difference(*from.graphs[inner], *to.graphs[inner]);
  }
  return info;
}

CUresult run(const GraphExec& exec, const Graph& graph, CUstream stream);

CUresult run_kernel(const GraphNode& node) {
  return in_context([&](Driver& driver, Context& context) {
    const CUDA_KERNEL_NODE_PARAMS& kernel = node.params.kernel;
    LaunchCall call{.launch = {.grid = {kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ},
                               .block = {kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ},
                               .dynamic_shared_bytes = kernel.sharedMemBytes},
                    .parameters = kernel.kernelParams};
    call.launch.cooperative = node.is_cooperative;
    call.launch.cluster = node.cluster;
    launch_kernel(driver, context, driver.function(kernel.func), call);
  });
}

CUresult run_memset(const CUDA_MEMSET_NODE_PARAMS& fill) {
  switch (fill.elementSize) {
    case 1: return cuMemsetD2D8_v2(fill.dst, fill.pitch, static_cast<uint8_t>(fill.value), fill.width, fill.height);
    case 2: return cuMemsetD2D16_v2(fill.dst, fill.pitch, static_cast<uint16_t>(fill.value), fill.width, fill.height);
    default: return cuMemsetD2D32_v2(fill.dst, fill.pitch, fill.value, fill.width, fill.height);
  }
}

CUresult run_allocation(const GraphExec& exec, const GraphNode& node) {
  const uint64_t address = node.params.alloc.dptr;
  return in_context([&](Driver& driver, Context& context) {
    if (const auto block = driver.blocks.find(address); block != driver.blocks.end()) {
      // A launch before this one has not freed it.
      require((exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0, CUDA_ERROR_INVALID_VALUE);
      driver.free(Block(block->second));
    }
    driver.add_block({.address = address,
                      .bytes = node.params.alloc.bytesize,
                      .kind = Block::Kind::device,
                      .context = &context,
                      .address_range = node.address_range},
                     false, fmt::format("allocation {} of a graph", driver.next_id));
    GraphMemory& memory = driver.graph_memory;
    memory.used += node.params.alloc.bytesize;
    memory.most_used = std::max(memory.most_used, memory.used);
    memory.reserved = std::max(memory.reserved, memory.used);
    memory.most_reserved = std::max(memory.most_reserved, memory.reserved);
  });
}

CUresult run_conditional(const GraphExec& exec, const GraphNode& node, CUstream stream) {
  const CUDA_CONDITIONAL_NODE_PARAMS& params = node.params.conditional;
  const auto value = [&] {
    unsigned read = 0;
    std::memcpy(&read, reinterpret_cast<const void*>(params.handle), sizeof read);
    return read;
  };
  if (params.type == CU_GRAPH_COND_TYPE_WHILE) {
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && value() != 0) result = run(exec, *node.graphs[0], stream);
    return result;
  }
  const size_t body = params.type == CU_GRAPH_COND_TYPE_SWITCH ? value() : value() != 0 ? 0 : 1;
  return body < node.graphs.size() ? run(exec, *node.graphs[body], stream) : CUDA_SUCCESS;
}

CUresult run(const GraphExec& exec, const GraphNode& node, CUstream stream) {
  switch (node.params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return run_kernel(node);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return cuMemcpy3D_v2(&node.params.memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET: return run_memset(node.params.memset);
    case CU_GRAPH_NODE_TYPE_HOST: return node.params.host.fn(node.params.host.userData), CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH: return run(exec, *node.graphs[0], stream);
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return cuEventRecord(node.params.event, stream);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return run_allocation(exec, node);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return cuMemFree_v2(node.params.free);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return run_conditional(exec, node, stream);
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

/// Runs the nodes, without the lock: functions of the host may wait for another thread.
CUresult run(const GraphExec& exec, const Graph& graph, CUstream stream) {
  for (const Graph::Condition& condition : graph.conditions)
    if (condition.is_set_at_launch)
      std::memcpy(reinterpret_cast<void*>(condition.handle), &condition.initial_value, sizeof condition.initial_value);
  for (const GraphNode* const node : graph.nodes) {
    const CUresult result = node->is_enabled ? run(exec, *node, stream) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode*, char*, size_t) {
  return instantiate(exec, graph, 0);
}
CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode*, char*, size_t) {
  return instantiate(exec, graph, 0);
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return instantiate(exec, graph, flags);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = instantiate(exec, graph, params->flags);
  params->hErrNode_out = nullptr;
  params->result_out = result == CUDA_SUCCESS               ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                       : result == CUDA_ERROR_INVALID_VALUE ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                                                            : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}
CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return with_exec(handle, [](Driver& driver, GraphExec& exec) {
    destroy_graph(driver, *exec.graph);
    driver.graph_execs.remove(exec);
  });
}
CUresult cuGraphExecGetFlags(CUgraphExec handle, uint64_t* flags) {
  return with_exec(handle, [&](Driver&, GraphExec& exec) {
    require_pointer(flags);
    *flags = exec.flags;
  });
}
CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  return with_exec(handle, [&](Driver& driver, GraphExec& exec) {
    require_pointer(info);
    Graph& clone = clone_graph(driver, driver.graphs.at(graph, CUDA_ERROR_INVALID_VALUE));
    clone.is_of_node = true;
    order(clone);
    *info = difference(*exec.graph, clone);
    if (info->errorNode) info->errorNode = const_cast<GraphNode*>(info->errorNode->original);
    const bool is_updated = info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (is_updated) {
      // Its nodes go on to be known by those of the first graph.
      for (size_t i = 0; i < clone.nodes.size(); ++i) {
        clone.nodes[i]->original = exec.graph->nodes[i]->original;
        clone.nodes[i]->is_enabled = exec.graph->nodes[i]->is_enabled;
      }
    }
    destroy_graph(driver, is_updated ? *std::exchange(exec.graph, &clone) : clone);
    require(is_updated, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  });
}
CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  return params ? set_exec_params(exec, node, *params) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  return params ? set_exec_params(exec, node, params_of(CU_GRAPH_NODE_TYPE_KERNEL, params, kernel_bytes_v1))
                : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  return params ? set_exec_params(exec, node, params_of(CU_GRAPH_NODE_TYPE_KERNEL, params, sizeof *params))
                : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* copy, CUcontext) {
  return copy ? set_exec_params(exec, node, copy_node_params(*copy)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params,
                                        CUcontext) {
  return params ? set_exec_params(exec, node, params_of(CU_GRAPH_NODE_TYPE_MEMSET, params, memset_bytes_v1))
                : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return params ? set_exec_params(exec, node, params_of(CU_GRAPH_NODE_TYPE_HOST, params, sizeof *params))
                : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode node, unsigned is_enabled) {
  return with_exec(handle, [&](Driver&, GraphExec& exec) { node_of(*exec.graph, node).is_enabled = is_enabled != 0; });
}
CUresult cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode node, unsigned* is_enabled) {
  return with_exec(handle, [&](Driver&, GraphExec& exec) {
    require_pointer(is_enabled);
    *is_enabled = node_of(*exec.graph, node).is_enabled ? 1 : 0;
  });
}
CUresult cuGraphUpload(CUgraphExec handle, CUstream stream) {
  return with_exec(handle, [&](Driver& driver, GraphExec&) { driver.require_stream(stream); });
}
CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream) {
  const GraphExec* exec = nullptr;
  const CUresult result = in_context([&](Driver& driver, Context&) {
    driver.require_stream(stream);
    GraphExec& own = driver.graph_execs.at(handle, CUDA_ERROR_INVALID_VALUE);
    own.graph->is_of_node = false;  // a capture clones it
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    params.graph.graph = own.graph;
    const bool is_captured = capture_node(driver, stream, params);
    own.graph->is_of_node = true;
    if (!is_captured) exec = &own;
  });
  return exec ? run(*exec, *exec->graph, stream) : result;
}

// The memory that graphs use, now and at most (0 and 1), and what is reserved for them until the next trim (2 and 3).
// Source: CUDA Driver API, CUgraphMem_attribute.
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, uint64_t* value) {
  return in_driver([&](Driver& driver) {
    require_pointer(value);
    require_device(device);
    require(attribute >= 0 && attribute < 4, CUDA_ERROR_INVALID_VALUE);
    const GraphMemory& memory = driver.graph_memory;
    *value = std::array{memory.used, memory.most_used, memory.reserved,
                        memory.most_reserved}[static_cast<size_t>(attribute)];
  });
}
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, const uint64_t* value) {
  return in_driver([&](Driver& driver) {
    require_pointer(value);
    require_device(device);
    require((attribute == 1 || attribute == 3) && *value == 0, CUDA_ERROR_INVALID_VALUE);
    GraphMemory& memory = driver.graph_memory;
    if (attribute == 1) memory.most_used = memory.used;
    else memory.most_reserved = memory.reserved;
  });
}
CUresult cuDeviceGraphMemTrim(CUdevice device) {
  return in_driver([&](Driver& driver) {
    require_device(device);
    driver.graph_memory.reserved = driver.graph_memory.used;
  });
}

}  // extern "C"
