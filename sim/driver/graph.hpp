// SPDX-License-Identifier: MIT
// CUDA graphs: nodes with what each does and which nodes come before it. A captured stream appends the work of its
// calls to a graph in place of doing it. Source: CUDA Driver API, graph management, stream management.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "cuda.hpp"

namespace bitmma::driver {

class Driver;
struct LaunchCall;

struct GraphEdge {
  GraphNode* from = nullptr;
  CUgraphEdgeData data = {};
};

struct GraphNode {
  Graph* graph = nullptr;
  CUgraphNodeParams params = {};  // its pointers are to what the node itself has
  std::vector<GraphEdge> dependencies = {};
  bool is_enabled = true;
  const GraphNode* original = nullptr;  // of a clone
  // Of a kernel: the bytes of its parameters, a pointer to each, and what attributes of the launch say.
  std::vector<uint8_t> parameter_bytes = {};
  std::vector<void*> parameters = {};
  bool is_cooperative = false;
  std::optional<std::array<int64_t, 3>> cluster = {};
  std::vector<Graph*> graphs = {};           // of a child graph or a conditional node
  std::shared_ptr<void> address_range = {};  // of an allocation
};

/// References to these objects keep them; without any `destroy` is called.
struct UserObject {
  CUhostFn destroy = nullptr;
  void* data = nullptr;
  uint64_t references = 0;
};

struct Graph {
  struct Condition {
    CUgraphConditionalHandle handle = 0;  // the address of its value
    unsigned initial_value = 0;
    bool is_set_at_launch = false;
  };
  std::vector<GraphNode*> nodes =
      {};                   // in the order in which they were added; of an executable graph, the order of work
  bool is_of_node = false;  // or of an executable graph: the program does not destroy it
  Graph* parent = nullptr;  // has the node
  std::map<UserObject*, unsigned> objects = {};
  std::vector<Condition> conditions = {};
};

struct GraphExec {
  Graph* graph = nullptr;
  uint64_t flags = 0;
};

/// A sequence of calls that becomes a graph.
struct Capture {
  uint64_t id = 0;
  Graph* graph = nullptr;
  CUstream origin = nullptr;
  int mode = 0;
  std::thread::id thread = {};
  bool is_of_program = false;  // the graph, of cuStreamBeginCaptureToGraph
  bool is_invalid = false;
};

Graph& make_graph(Driver& driver);
void destroy_graph(Driver& driver, Graph& graph);
Graph& clone_graph(Driver& driver, const Graph& graph);
void destroy_node(Driver& driver, GraphNode& node);
std::vector<GraphEdge> edges_from(const CUgraphNode* from, const CUgraphEdgeData* data, size_t count);

/// Adds a node with copies of what `params` points to, and writes what CUDA returns in `params`. Throws Failure.
GraphNode& add_node(Driver& driver, Graph& graph, std::vector<GraphEdge> dependencies, CUgraphNodeParams& params);
GraphNode& add_kernel_node(Driver& driver, Graph& graph, std::vector<GraphEdge> dependencies, Function& function,
                           const LaunchCall& call);
/// What a program says about a node, of its type.
void set_params(Driver& driver, GraphNode& node, const CUgraphNodeParams& params);
/// Of a node that exists. Throws Failure for another type, and for nodes with graphs or addresses of their own.
void replace_params(Driver& driver, GraphNode& node, const CUgraphNodeParams& params);
/// The node of a clone that was made of this node. Throws Failure without one.
GraphNode& node_of(const Graph& graph, const GraphNode* original);
/// The nodes, each after all that it depends on; otherwise in their order. Throws Failure for a cycle.
std::vector<GraphNode*> in_order_of_work(const Graph& graph);
/// Gives the nodes that order, in graphs of nodes too.
void order(Graph& graph);
/// Takes references from an object; Driver::unreferenced gets one without any.
void release(Driver& driver, UserObject& object, uint64_t count);
CUgraphNodeParams copy_node_params(const CUDA_MEMCPY3D& copy);
CUgraphNodeParams event_node_params(CUgraphNodeType type, CUevent event);

/// The capture that the stream is in; nullptr if it is in none. Throws Failure if that has become invalid.
Capture* capture_of(Driver& driver, CUstream stream);
/// Adds a node to the stream's capture, after those before it in the stream; false if the stream is in none.
bool capture_node(Driver& driver, CUstream stream, CUgraphNodeParams params);
/// Of a call that waits for the stream: makes its capture invalid, and throws Failure, if it is in one.
void forbid_capture(Driver& driver, CUstream stream);
/// An event of a captured stream stands for the stream's last nodes.
void capture_event(Driver& driver, Event& event, CUstream stream);
/// A wait for such an event brings the stream into the capture.
void capture_wait(Driver& driver, Event& event, CUstream stream, bool is_external);

}  // namespace bitmma::driver
