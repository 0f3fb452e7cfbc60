// SPDX-License-Identifier: MIT
// The functions of the API that make graphs of nodes and edges, and say what these are.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "graph_calls.hpp"

using namespace bitmma::driver;

namespace {

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

CUresult set_params(CUgraphNode handle, const CUgraphNodeParams& params) {
  return with_node(handle, [&](Driver& driver, GraphNode& node) { replace_params(driver, node, params); });
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

}  // extern "C"
