// SPDX-License-Identifier: MIT
// Graphs as what they are made of: nodes with what each does, and edges.
#include "graph.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "driver.hpp"

namespace bitmma::driver {
namespace {

constexpr bool is_known(CUgraphNodeType type) {
  return (type >= CU_GRAPH_NODE_TYPE_KERNEL && type <= CU_GRAPH_NODE_TYPE_EVENT_RECORD) ||
         type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
         type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
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

/// Addresses for an allocation of a graph: each launch has its memory there.
std::shared_ptr<void> reserve_addresses(size_t bytes) {
  void* const address =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(address != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  return {address, [bytes](void* range) { munmap(range, bytes); }};
}

/// Throws Failure for an edge from another graph, before there is a node.
void require_own(const Graph& graph, const std::vector<GraphEdge>& dependencies) {
  for (const GraphEdge& edge : dependencies)
    require(std::ranges::find(graph.nodes, edge.from) != graph.nodes.end(), CUDA_ERROR_INVALID_VALUE);
}

void append(Graph& graph, GraphNode& node, std::vector<GraphEdge> dependencies) {
  node.graph = &graph;
  node.dependencies = std::move(dependencies);
  graph.nodes.push_back(&node);
}

/// Of the graph, or of one that it is a part of.
bool has_condition(const Graph& graph, CUgraphConditionalHandle handle) {
  return std::ranges::find(graph.conditions, handle, &Graph::Condition::handle) != graph.conditions.end() ||
         (graph.parent && has_condition(*graph.parent, handle));
}

}  // namespace

void release(Driver& driver, UserObject& object, uint64_t count) {
  require(count > 0 && count <= object.references, CUDA_ERROR_INVALID_VALUE);
  object.references -= count;
  if (object.references > 0) return;
  driver.unreferenced.push_back(object);
  driver.user_objects.remove(object);
}

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

void destroy_node(Driver& driver, GraphNode& node) {
  for (Graph* const graph : node.graphs) destroy_graph(driver, *graph);
  driver.graph_nodes.remove(node);
}

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
  require_own(graph, dependencies);
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
  require_own(graph, dependencies);
  std::vector<uint8_t> bytes = bytes_of_parameters(function.info, call);
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
  set_kernel(node, function.info, std::move(bytes));
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

void replace_params(Driver& driver, GraphNode& node, const CUgraphNodeParams& params) {
  require(node.params.type == params.type, CUDA_ERROR_INVALID_VALUE);
  require(node.graphs.empty() && !node.address_range, CUDA_ERROR_NOT_SUPPORTED);
  set_params(driver, node, params);
}
GraphNode& node_of(const Graph& graph, const GraphNode* original) {
  const auto node = std::ranges::find(graph.nodes, original, &GraphNode::original);
  require(node != graph.nodes.end(), CUDA_ERROR_INVALID_VALUE);
  return **node;
}
}  // namespace bitmma::driver
