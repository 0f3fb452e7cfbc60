// SPDX-License-Identifier: MIT
// Graphs by nodes and edges, executable graphs and their launches.
#include "graph.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "driver.hpp"

namespace bitmma::driver {
namespace {

constexpr bool is_known(CUgraphNodeType type) {
  return (type >= CU_GRAPH_NODE_TYPE_KERNEL && type <= CU_GRAPH_NODE_TYPE_EVENT_RECORD) ||
         type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
         type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

void release(Driver& driver, UserObject& object, uint64_t count) {
  require(count > 0 && count <= object.references, CUDA_ERROR_INVALID_VALUE);
  object.references -= count;
  if (object.references > 0) return;
  driver.unreferenced.push_back(object);
  driver.user_objects.remove(object);
}

void destroy_node(Driver& driver, GraphNode& node) {
  for (Graph* const graph : node.graphs) destroy_graph(driver, *graph);
  driver.graph_nodes.remove(node);
}

/// Copies parameters that a launch needs into the node.
void set_kernel(GraphNode& node, const PtxEntryInfo& info, std::vector<uint8_t> bytes) {
  node.parameter_bytes = std::move(bytes);
  node.parameters.clear();
  for (const PtxParameter& parameter : info.parameters)
    node.parameters.push_back(node.parameter_bytes.data() + parameter.offset);
  node.params.kernel.kernelParams = node.parameters.data();
  node.params.kernel.extra = nullptr;
}

/// What a program says about a node, of its type.
void set_params(Driver& driver, GraphNode& node, const CUgraphNodeParams& params) {
  require(is_known(params.type), CUDA_ERROR_INVALID_VALUE);
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS kernel = params.kernel;
      if (!kernel.func) kernel.func = kernel.kern;
      const PtxEntryInfo& info = driver.function(kernel.func).info;
      // Extents of 0 are taken, as a program may set others before the launch.
      std::vector<uint8_t> bytes =
          bytes_of_parameters(info, {.parameters = kernel.kernelParams, .extra = kernel.extra});
      node.params.kernel = kernel;
      return set_kernel(node, info, std::move(bytes));
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const unsigned bytes = params.memset.elementSize;
      require(bytes == 1 || bytes == 2 || bytes == 4, CUDA_ERROR_INVALID_VALUE);
      break;
    }
    case CU_GRAPH_NODE_TYPE_HOST: require(params.host.fn != nullptr, CUDA_ERROR_INVALID_VALUE); break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE: require(params.free != 0, CUDA_ERROR_INVALID_VALUE); break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: driver.events.at(params.event, CUDA_ERROR_INVALID_VALUE); break;
    default: break;
  }
  node.params = params;
}

/// Addresses for an allocation of a graph: each launch has its memory there.
std::shared_ptr<void> reserve_addresses(size_t bytes) {
  void* const address =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(address != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  return {address, [bytes](void* range) { munmap(range, bytes); }};
}

void append(Graph& graph, GraphNode& node, std::vector<GraphEdge> dependencies) {
  for (const GraphEdge& edge : dependencies)
    require(std::ranges::find(graph.nodes, edge.from) != graph.nodes.end(), CUDA_ERROR_INVALID_VALUE);
  node.graph = &graph;
  node.dependencies = std::move(dependencies);
  graph.nodes.push_back(&node);
}

/// The nodes, each after all that it depends on; otherwise in their order. Throws Failure for a cycle.
std::vector<GraphNode*> in_order_of_work(const Graph& graph) {
  std::vector<GraphNode*> ordered, left = graph.nodes;
  while (!left.empty()) {
    const auto next = std::ranges::find_if(left, [&](const GraphNode* node) {
      return std::ranges::none_of(
          node->dependencies, [&](const GraphEdge& edge) { return std::ranges::find(left, edge.from) != left.end(); });
    });
    require(next != left.end(), CUDA_ERROR_INVALID_VALUE);
    ordered.push_back(*next);
    left.erase(next);
  }
  return ordered;
}

void order(Graph& graph) {
  graph.nodes = in_order_of_work(graph);
  for (const GraphNode* const node : graph.nodes)
    for (Graph* const inner : node->graphs) order(*inner);
}

/// Of the graph, or of one that it is a part of.
bool has_condition(const Graph& graph, CUgraphConditionalHandle handle) {
  return std::ranges::find(graph.conditions, handle, &Graph::Condition::handle) != graph.conditions.end() ||
         (graph.parent && has_condition(*graph.parent, handle));
}

}  // namespace

Graph& make_graph(Driver& driver) { return driver.graphs.add(); }

void destroy_graph(Driver& driver, Graph& graph) {
  for (GraphNode* const node : graph.nodes) destroy_node(driver, *node);
  for (const auto& [object, count] : graph.objects) release(driver, *object, count);
  driver.graphs.remove(graph);
}

Graph& clone_graph(Driver& driver, const Graph& graph) {
  Graph& clone = make_graph(driver);
  clone.conditions = graph.conditions;
  clone.objects = graph.objects;
  for (const auto& [object, count] : clone.objects) object->references += count;
  std::map<const GraphNode*, GraphNode*> clones;
  for (const GraphNode* const node : graph.nodes) {
    GraphNode& copy = driver.graph_nodes.add(std::make_unique<GraphNode>(*node));
    clones[node] = &copy;
    copy.graph = &clone;
    copy.original = node;
    for (void*& parameter : copy.parameters)
      parameter = copy.parameter_bytes.data() + (static_cast<uint8_t*>(parameter) - node->parameter_bytes.data());
    for (Graph*& inner : copy.graphs)
      inner = &clone_graph(driver, *inner), inner->is_of_node = true, inner->parent = &clone;
    if (copy.params.type == CU_GRAPH_NODE_TYPE_KERNEL) copy.params.kernel.kernelParams = copy.parameters.data();
    if (copy.params.type == CU_GRAPH_NODE_TYPE_GRAPH) copy.params.graph.graph = copy.graphs.front();
    if (copy.params.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) copy.params.conditional.phGraph_out = copy.graphs.data();
    clone.nodes.push_back(&copy);
  }
  for (GraphNode* const node : clone.nodes)
    for (GraphEdge& edge : node->dependencies) edge.from = clones.at(edge.from);
  return clone;
}

GraphNode& add_node(Driver& driver, Graph& graph, std::vector<GraphEdge> dependencies, CUgraphNodeParams& params) {
  auto made = std::make_unique<GraphNode>();
  GraphNode& node = *made;
  node.params.type = params.type;
  set_params(driver, node, params);
  if (params.type == CU_GRAPH_NODE_TYPE_GRAPH) {
    Graph& child = driver.graphs.at(params.graph.graph, CUDA_ERROR_INVALID_VALUE);
    require(&child != &graph && !child.is_of_node, CUDA_ERROR_INVALID_VALUE);
    const bool is_moved = params.graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    node.graphs = {is_moved ? &child : &clone_graph(driver, child)};
    node.params.graph.graph = node.graphs.front();
  } else if (params.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    CUDA_CONDITIONAL_NODE_PARAMS& conditional = params.conditional;
    const size_t most = conditional.type == CU_GRAPH_COND_TYPE_WHILE ? 1
                        : conditional.type == CU_GRAPH_COND_TYPE_IF  ? 2
                                                                     : SIZE_MAX;
    require(conditional.size >= 1 && conditional.size <= most && has_condition(graph, conditional.handle),
            CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < conditional.size; ++i) node.graphs.push_back(&make_graph(driver));
    conditional.phGraph_out = node.params.conditional.phGraph_out = node.graphs.data();
  } else if (params.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    require(params.alloc.bytesize > 0, CUDA_ERROR_INVALID_VALUE);
    require(params.alloc.bytesize <= driver.limit_bytes - driver.used_bytes, CUDA_ERROR_OUT_OF_MEMORY);
    node.address_range = reserve_addresses(params.alloc.bytesize);
    params.alloc.dptr = node.params.alloc.dptr = reinterpret_cast<uint64_t>(node.address_range.get());
  }
  for (Graph* const inner : node.graphs) inner->is_of_node = true, inner->parent = &graph;
  append(graph, driver.graph_nodes.add(std::move(made)), std::move(dependencies));
  return node;
}

GraphNode& add_kernel_node(Driver& driver, Graph& graph, std::vector<GraphEdge> dependencies, Function& function,
                           const LaunchCall& call) {
  GraphNode& node = driver.graph_nodes.add();
  const Launch& launch = call.launch;
  const auto extent = [](const std::array<int64_t, 3>& extents, size_t i) { return static_cast<unsigned>(extents[i]); };
  node.params.type = CU_GRAPH_NODE_TYPE_KERNEL;
  node.params.kernel = {.func = &function,
                        .gridDimX = extent(launch.grid, 0),
                        .gridDimY = extent(launch.grid, 1),
                        .gridDimZ = extent(launch.grid, 2),
                        .blockDimX = extent(launch.block, 0),
                        .blockDimY = extent(launch.block, 1),
                        .blockDimZ = extent(launch.block, 2),
                        .sharedMemBytes = static_cast<unsigned>(launch.dynamic_shared_bytes),
                        .kernelParams = nullptr,
                        .extra = nullptr,
                        .kern = nullptr,
                        .ctx = nullptr};
  set_kernel(node, function.info, bytes_of_parameters(function.info, call));
  node.is_cooperative = launch.cooperative;
  node.cluster = launch.cluster;
  append(graph, node, std::move(dependencies));
  return node;
}

std::vector<GraphEdge> edges_from(const CUgraphNode* from, const CUgraphEdgeData* data, size_t count) {
  require(count == 0 || from, CUDA_ERROR_INVALID_VALUE);
  std::vector<GraphEdge> edges(count);
  for (size_t i = 0; i < count; ++i) edges[i] = {.from = from[i], .data = data ? data[i] : CUgraphEdgeData{}};
  return edges;
}

CUgraphNodeParams copy_node_params(const CUDA_MEMCPY3D& copy) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  params.memcpy.copyParams = copy;
  return params;
}

CUgraphNodeParams event_node_params(CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams params{};
  params.type = type;
  params.event = event;
  return params;
}

}  // namespace bitmma::driver

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

/// Runs body(driver), then the functions of user objects that it has left without references. These run without the
/// lock: they may wait for another thread.
template <typename Body>
CUresult in_driver_and_release(const Body& body) {
  std::vector<UserObject> unreferenced;
  const CUresult result = in_driver([&](Driver& driver) {
    body(driver);
    unreferenced = std::exchange(driver.unreferenced, {});
  });
  for (const UserObject& object : unreferenced) object.destroy(object.data);
  return result;
}

template <typename Body>
CUresult with_graph(CUgraph graph, const Body& body) {
  return in_driver_and_release(
      [&](Driver& driver) { body(driver, driver.graphs.at(graph, CUDA_ERROR_INVALID_VALUE)); });
}
template <typename Body>
CUresult with_node(CUgraphNode node, const Body& body) {
  return in_driver_and_release(
      [&](Driver& driver) { body(driver, driver.graph_nodes.at(node, CUDA_ERROR_INVALID_VALUE)); });
}
template <typename Body>
CUresult with_exec(CUgraphExec exec, const Body& body) {
  return in_driver_and_release(
      [&](Driver& driver) { body(driver, driver.graph_execs.at(exec, CUDA_ERROR_INVALID_VALUE)); });
}

struct Edge {
  GraphNode *from, *to;
  CUgraphEdgeData data;
};
std::vector<Edge> edges_of(const Graph& graph) {
  std::vector<Edge> edges;
  for (GraphNode* const node : graph.nodes)
    for (const GraphEdge& edge : node->dependencies) edges.push_back({edge.from, node, edge.data});
  return edges;
}

/// As CUDA lists: the count alone without arrays; what an array has room for, and zeros behind it.
void list_edges(const std::vector<Edge>& edges, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                size_t* count) {
  require_pointer(count);
  if (!from && !to) {
    *count = edges.size();
    return;
  }
  for (size_t i = 0; i < *count; ++i) {
    const Edge edge = i < edges.size() ? edges[i] : Edge{};
    require(data || edge.data == CUgraphEdgeData{}, CUDA_ERROR_LOSSY_QUERY);
    if (from) from[i] = edge.from;
    if (to) to[i] = edge.to;
    if (data) data[i] = edge.data;
  }
  *count = std::min(*count, edges.size());
}

void list_nodes(const std::vector<GraphNode*>& nodes, CUgraphNode* to, size_t* count) {
  std::vector<Edge> edges;
  for (GraphNode* const node : nodes) edges.push_back({node, nullptr, {}});
  list_edges(edges, to, nullptr, nullptr, count);
}

CUresult get_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  return with_graph(handle, [&](Driver&, Graph& graph) { list_edges(edges_of(graph), from, to, data, count); });
}

CUresult get_dependencies(CUgraphNode handle, CUgraphNode* from, CUgraphEdgeData* data, size_t* count) {
  return with_node(handle, [&](Driver&, GraphNode& node) {
    std::vector<Edge> edges;
    for (const GraphEdge& edge : node.dependencies) edges.push_back({edge.from, &node, edge.data});
    list_edges(edges, from, nullptr, data, count);
  });
}

CUresult get_dependents(CUgraphNode handle, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  return with_node(handle, [&](Driver&, GraphNode& node) {
    std::vector<Edge> edges = edges_of(*node.graph);
    std::erase_if(edges, [&](const Edge& edge) { return edge.from != &node; });
    list_edges(edges, nullptr, to, data, count);
  });
}

CUresult add_dependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                          size_t count) {
  return with_graph(handle, [&](Driver& driver, Graph& graph) {
    const std::vector<GraphEdge> edges = edges_from(from, data, count);
    require(count == 0 || to, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; ++i) {
      GraphNode& node = driver.graph_nodes.at(to[i], CUDA_ERROR_INVALID_VALUE);
      require(node.graph == &graph && driver.graph_nodes.at(from[i], CUDA_ERROR_INVALID_VALUE).graph == &graph &&
                  &node != from[i] &&
                  std::ranges::find(node.dependencies, from[i], &GraphEdge::from) == node.dependencies.end(),
              CUDA_ERROR_INVALID_VALUE);
      node.dependencies.push_back(edges[i]);
    }
  });
}

/// From a graph that allocates or frees memory nothing may be removed.
void require_no_memory_nodes(const Graph& graph) {
  require(std::ranges::none_of(graph.nodes,
                               [](const GraphNode* node) {
                                 return node->params.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
                                        node->params.type == CU_GRAPH_NODE_TYPE_MEM_FREE;
                               }),
          CUDA_ERROR_INVALID_VALUE);
}

CUresult remove_dependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return with_graph(handle, [&](Driver& driver, Graph& graph) {
    require(count == 0 || (from && to), CUDA_ERROR_INVALID_VALUE);
    require_no_memory_nodes(graph);
    for (size_t i = 0; i < count; ++i) {
      GraphNode& node = driver.graph_nodes.at(to[i], CUDA_ERROR_INVALID_VALUE);
      const auto edge = std::ranges::find(node.dependencies, from[i], &GraphEdge::from);
      require(edge != node.dependencies.end(), CUDA_ERROR_INVALID_VALUE);
      node.dependencies.erase(edge);
    }
  });
}

CUresult add(CUgraphNode* to, CUgraph graph, const CUgraphNode* from, const CUgraphEdgeData* data, size_t count,
             CUgraphNodeParams& params) {
  return with_graph(graph, [&](Driver& driver, Graph& own) {
    require_pointer(to);
    *to = &add_node(driver, own, edges_from(from, data, count), params);
  });
}

/// Parameters of a type from a structure of it, of which an older version may have fewer bytes.
CUgraphNodeParams params_of(CUgraphNodeType type, const void* params, size_t bytes) {
  CUgraphNodeParams all{};
  all.type = type;
  if (params) std::memcpy(all.reserved1, params, bytes);
  return all;
}
constexpr size_t kernel_bytes_v1 = offsetof(CUDA_KERNEL_NODE_PARAMS, kern),
                 memset_bytes_v1 = offsetof(CUDA_MEMSET_NODE_PARAMS, ctx);

CUresult add(CUgraphNode* to, CUgraph graph, const CUgraphNode* from, size_t count, CUgraphNodeType type,
             const void* params, size_t bytes) {
  if (!params && bytes > 0) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams all = params_of(type, params, bytes);
  return add(to, graph, from, nullptr, count, all);
}

CUresult get_params(CUgraphNode handle, CUgraphNodeType type, void* to, size_t bytes) {
  return with_node(handle, [&](Driver&, GraphNode& node) {
    require_pointer(to);
    require(node.params.type == type, CUDA_ERROR_INVALID_VALUE);
    std::memcpy(to, node.params.reserved1, bytes);
  });
}

void replace_params(Driver& driver, GraphNode& node, const CUgraphNodeParams& params) {
  require(node.params.type == params.type, CUDA_ERROR_INVALID_VALUE);
  require(node.graphs.empty() && !node.address_range, CUDA_ERROR_NOT_SUPPORTED);
  set_params(driver, node, params);
}
CUresult set_params(CUgraphNode handle, const CUgraphNodeParams& params) {
  return with_node(handle, [&](Driver& driver, GraphNode& node) { replace_params(driver, node, params); });
}

/// The node of an executable graph that was made of this node of its graph. Throws Failure without one.
GraphNode& node_of(const Graph& graph, const GraphNode* original) {
  const auto node = std::ranges::find(graph.nodes, original, &GraphNode::original);
  require(node != graph.nodes.end(), CUDA_ERROR_INVALID_VALUE);
  return **node;
}
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

CUresult cuGraphCreate(CUgraph* graph, unsigned) {
  return in_driver([&](Driver& driver) {
    require_pointer(graph);
    *graph = &make_graph(driver);
  });
}
CUresult cuGraphClone(CUgraph* clone, CUgraph graph) {
  return with_graph(graph, [&](Driver& driver, Graph& own) {
    require_pointer(clone);
    *clone = &clone_graph(driver, own);
  });
}
CUresult cuGraphDestroy(CUgraph graph) {
  return with_graph(graph, [](Driver& driver, Graph& own) {
    require(!own.is_of_node, CUDA_ERROR_INVALID_VALUE);
    destroy_graph(driver, own);
  });
}

CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, size_t count,
                        CUgraphNodeParams* params) {
  return params ? add(node, graph, from, nullptr, count, *params) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, const CUgraphEdgeData* data,
                           size_t count, CUgraphNodeParams* params) {
  return params ? add(node, graph, from, data, count, *params) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS* params) {
  return add(node, graph, from, count, CU_GRAPH_NODE_TYPE_KERNEL, params, kernel_bytes_v1);
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* params) {
  return add(node, graph, from, count, CU_GRAPH_NODE_TYPE_KERNEL, params, sizeof *params);
}
CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, size_t count,
                              const CUDA_MEMCPY3D* copy, CUcontext) {
  if (!copy) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = copy_node_params(*copy);
  return add(node, graph, from, nullptr, count, params);
}
CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return add(node, graph, from, count, CU_GRAPH_NODE_TYPE_MEMSET, params, memset_bytes_v1);
}
CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, size_t count,
                            const CUDA_HOST_NODE_PARAMS* params) {
  return add(node, graph, from, count, CU_GRAPH_NODE_TYPE_HOST, params, sizeof *params);
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, size_t count,
                                  CUgraph child) {
  return add(node, graph, from, count, CU_GRAPH_NODE_TYPE_GRAPH, &child, sizeof child);
}
CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, size_t count) {
  return add(node, graph, from, count, CU_GRAPH_NODE_TYPE_EMPTY, nullptr, 0);
}
CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, size_t count,
                                   CUevent event) {
  return add(node, graph, from, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &event, sizeof event);
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, size_t count,
                                 CUevent event) {
  return add(node, graph, from, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &event, sizeof event);
}
CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams all = params_of(CU_GRAPH_NODE_TYPE_MEM_ALLOC, params, sizeof *params);
  const CUresult result = add(node, graph, from, nullptr, count, all);
  params->dptr = all.alloc.dptr;
  return result;
}
CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, size_t count,
                               CUdeviceptr address) {
  return add(node, graph, from, count, CU_GRAPH_NODE_TYPE_MEM_FREE, &address, sizeof address);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  return get_params(node, CU_GRAPH_NODE_TYPE_KERNEL, params, kernel_bytes_v1);
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  return get_params(node, CU_GRAPH_NODE_TYPE_KERNEL, params, sizeof *params);
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D* copy) {
  return with_node(handle, [&](Driver&, GraphNode& node) {
    require_pointer(copy);
    require(node.params.type == CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_ERROR_INVALID_VALUE);
    *copy = node.params.memcpy.copyParams;
  });
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
  return get_params(node, CU_GRAPH_NODE_TYPE_MEMSET, params, memset_bytes_v1);
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
  return get_params(node, CU_GRAPH_NODE_TYPE_HOST, params, sizeof *params);
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  return get_params(node, CU_GRAPH_NODE_TYPE_GRAPH, graph, sizeof *graph);
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return get_params(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, sizeof *event);
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return get_params(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, sizeof *event);
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return get_params(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params, sizeof *params);
}
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* address) {
  return get_params(node, CU_GRAPH_NODE_TYPE_MEM_FREE, address, sizeof *address);
}
CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return params ? set_params(node, *params) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  return params ? set_params(node, params_of(CU_GRAPH_NODE_TYPE_KERNEL, params, kernel_bytes_v1))
                : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* copy) {
  return copy ? set_params(node, copy_node_params(*copy)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  return params ? set_params(node, params_of(CU_GRAPH_NODE_TYPE_MEMSET, params, memset_bytes_v1))
                : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return params ? set_params(node, params_of(CU_GRAPH_NODE_TYPE_HOST, params, sizeof *params))
                : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  return params ? set_params(node, params_of(CU_GRAPH_NODE_TYPE_KERNEL, params, sizeof *params))
                : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  return with_node(handle, [&](Driver&, GraphNode& node) {
    require_pointer(type);
    *type = node.params.type;
  });
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return with_graph(graph, [&](Driver&, Graph& own) { list_nodes(own.nodes, nodes, count); });
}
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return with_graph(graph, [&](Driver&, Graph& own) {
    std::vector<GraphNode*> roots = own.nodes;
    std::erase_if(roots, [](const GraphNode* node) { return !node->dependencies.empty(); });
    list_nodes(roots, nodes, count);
  });
}
CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return get_edges(graph, from, to, nullptr, count);
}
CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  return get_edges(graph, from, to, data, count);
}
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* from, size_t* count) {
  return get_dependencies(node, from, nullptr, count);
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* from, CUgraphEdgeData* data, size_t* count) {
  return get_dependencies(node, from, data, count);
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* to, size_t* count) {
  return get_dependents(node, to, nullptr, count);
}
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  return get_dependents(node, to, data, count);
}
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return add_dependencies(graph, from, to, nullptr, count);
}
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* data, size_t count) {
  return add_dependencies(graph, from, to, data, count);
}
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return remove_dependencies(graph, from, to, count);
}
CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData*, size_t count) {
  return remove_dependencies(graph, from, to, count);
}
CUresult cuGraphDestroyNode(CUgraphNode handle) {
  return with_node(handle, [](Driver& driver, GraphNode& node) {
    require_no_memory_nodes(*node.graph);
    std::erase(node.graph->nodes, &node);
    for (GraphNode* const other : node.graph->nodes)
      std::erase_if(other->dependencies, [&](const GraphEdge& edge) { return edge.from == &node; });
    destroy_node(driver, node);
  });
}
CUresult cuGraphNodeFindInClone(CUgraphNode* node, CUgraphNode original, CUgraph clone) {
  return with_graph(clone, [&](Driver&, Graph& own) {
    require_pointer(node);
    *node = &node_of(own, original);
  });
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph graph, CUcontext, unsigned value,
                                        unsigned flags) {
  return in_context([&](Driver& driver, Context& context) {
    require_pointer(handle);
    Graph& own = driver.graphs.at(graph, CUDA_ERROR_INVALID_VALUE);
    *handle = driver.allocate(sizeof value, Block::Kind::managed, &context).address;
    own.conditions.push_back({.handle = *handle, .initial_value = value, .is_set_at_launch = (flags & 1) != 0});
  });
}

CUresult cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned count, unsigned) {
  return in_driver([&](Driver& driver) {
    require(object && destroy && count > 0, CUDA_ERROR_INVALID_VALUE);
    *object = &driver.user_objects.add();
    **object = {.destroy = destroy, .data = data, .references = count};
  });
}
CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
  return in_driver(
      [&](Driver& driver) { driver.user_objects.at(object, CUDA_ERROR_INVALID_VALUE).references += count; });
}
CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  return in_driver_and_release(
      [&](Driver& driver) { release(driver, driver.user_objects.at(object, CUDA_ERROR_INVALID_VALUE), count); });
}
CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  return with_graph(graph, [&](Driver& driver, Graph& own) {
    UserObject& user = driver.user_objects.at(object, CUDA_ERROR_INVALID_VALUE);
    own.objects[&user] += count;
    constexpr unsigned move = 1;  // CU_GRAPH_USER_OBJECT_MOVE
    if ((flags & move) == 0) user.references += count;
  });
}
CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  return with_graph(graph, [&](Driver& driver, Graph& own) {
    const auto held = own.objects.find(object);
    require(held != own.objects.end() && count <= held->second, CUDA_ERROR_INVALID_VALUE);
    release(driver, *object, count);
    held->second -= count;
    if (held->second == 0) own.objects.erase(held);
  });
}

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

/// A file for Graphviz.
CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned) {
  return with_graph(graph, [&](Driver&, Graph& own) {
    require_pointer(path);
    std::ofstream file(path);
    file << "digraph {\n";
    for (const GraphNode* const node : own.nodes)
      file << fmt::format("  \"{}\" [label=\"type {}\"];\n", fmt::ptr(node), static_cast<int>(node->params.type));
    for (const Edge& edge : edges_of(own))
      file << fmt::format("  \"{}\" -> \"{}\";\n", fmt::ptr(edge.from), fmt::ptr(edge.to));
    file << "}\n";
    require(file.good(), CUDA_ERROR_INVALID_VALUE);
  });
}

// The memory that graphs use, now and at most (0 and 1), and what is reserved for them until the next trim (2 and 3).
// Source: CUDA Driver API, CUgraphMem_attribute.
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, uint64_t* value) {
  return in_driver([&](Driver& driver) {
    require_pointer(value);
    require_device(device);
    require(attribute >= 0 && attribute < 4, CUDA_ERROR_INVALID_VALUE);
    const GraphMemory& memory = driver.graph_memory;
    *value = std::array{memory.used, memory.most_used, memory.reserved, memory.most_reserved}[attribute];
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
