// SPDX-License-Identifier: MIT
// Captures of streams into graphs. Events bring further streams into a capture. Calls that CUDA forbids in every thread
// while a stream of it is captured, as cuMemAlloc, are done.
#include <algorithm>
#include <set>

#include "driver.hpp"
#include "graph.hpp"

namespace bitmma::driver {
namespace {

/// Nodes that come before these, and these.
std::set<const GraphNode*> with_predecessors(const std::vector<GraphEdge>& edges) {
  std::set<const GraphNode*> all;
  std::vector<GraphEdge> left = edges;
  while (!left.empty()) {
    const GraphEdge edge = left.back();
    left.pop_back();
    if (!all.insert(edge.from).second) continue;
    left.insert(left.end(), edge.from->dependencies.begin(), edge.from->dependencies.end());
  }
  return all;
}

void add_dependencies(Stream& stream, const std::vector<GraphEdge>& edges) {
  for (const GraphEdge& edge : edges)
    if (std::ranges::find(stream.dependencies, edge.from, &GraphEdge::from) == stream.dependencies.end())
      stream.dependencies.push_back(edge);
}

void begin(Driver& driver, CUstream handle, Graph& graph, std::vector<GraphEdge> dependencies, bool is_of_program,
           int mode) {
  Stream* const stream = own_stream(handle);
  require(stream != nullptr, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);  // CUDA does not capture the legacy stream
  require(mode >= 0 && mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
  require(!stream->capture, CUDA_ERROR_ILLEGAL_STATE);
  Capture& capture = driver.captures.add();
  capture = {.id = driver.next_id++,
             .graph = &graph,
             .origin = handle,
             .mode = mode,
             .thread = std::this_thread::get_id(),
             .is_of_program = is_of_program};
  stream->capture = &capture;
  stream->dependencies = std::move(dependencies);
}

/// Ends the capture of all its streams. Events remain, of a capture that has ended.
void leave(Driver& driver, Capture& capture) {
  for (Stream* const stream : driver.streams.all())
    if (stream->capture == &capture) stream->capture = nullptr, stream->dependencies.clear();
  for (Event* const event : driver.events.all())
    if (event->capture == &capture) event->capture = nullptr, event->dependencies.clear();
  driver.captures.remove(capture);
}

bool has_unjoined_work(Driver& driver, const Capture& capture) {
  const std::set<const GraphNode*> joined = with_predecessors(capture.origin->dependencies);
  return std::ranges::any_of(driver.streams.all(), [&](const Stream* stream) {
    return stream->capture == &capture && std::ranges::any_of(stream->dependencies, [&](const GraphEdge& edge) {
             return !joined.contains(edge.from);
           });
  });
}

}  // namespace

Capture* capture_of(Driver& driver, CUstream handle) {
  driver.require_stream(handle);
  const Stream* const stream = own_stream(handle);
  if (!stream || !stream->capture) return nullptr;
  require(!stream->capture->is_invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  return stream->capture;
}

bool capture_node(Driver& driver, CUstream stream, CUgraphNodeParams params) {
  const Capture* const capture = capture_of(driver, stream);
  if (!capture) return false;
  stream->dependencies = {{.from = &add_node(driver, *capture->graph, stream->dependencies, params)}};
  return true;
}

void forbid_capture(Driver& driver, CUstream stream) {
  Capture* const capture = capture_of(driver, stream);
  if (!capture) return;
  capture->is_invalid = true;
  throw Failure{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED};
}

void capture_event(Driver& driver, Event& event, CUstream stream) {
  event.capture = capture_of(driver, stream);
  event.dependencies = event.capture ? stream->dependencies : std::vector<GraphEdge>{};
}

void capture_wait(Driver& driver, Event& event, CUstream handle, bool is_external) {
  const Capture* const capture = capture_of(driver, handle);
  Stream* const stream = own_stream(handle);
  if (is_external && capture) {
    capture_node(driver, handle, event_node_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, &event));
  } else if (event.capture) {
    require(stream != nullptr, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    require(!capture || capture == event.capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    stream->capture = event.capture;
    add_dependencies(*stream, event.dependencies);
  } else if (capture) {
    require(!event.is_recorded, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
}

}  // namespace bitmma::driver

using namespace bitmma::driver;

namespace {

/// Writes what a program asks about a capture; nothing for a null pointer.
CUresult get_info(CUstream handle, int* status, uint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
                  const CUgraphEdgeData** edges, size_t* count) {
  return in_driver([&](Driver& driver) {
    require_pointer(status);
    driver.require_stream(handle);
    Stream* const stream = own_stream(handle);
    const Capture* const capture = stream ? stream->capture : nullptr;
    *status = !capture              ? CU_STREAM_CAPTURE_STATUS_NONE
              : capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (id) *id = capture ? capture->id : 0;
    if (!capture) return;
    stream->listed_nodes.clear(), stream->listed_edges.clear();
    for (const GraphEdge& edge : stream->dependencies) {
      stream->listed_nodes.push_back(edge.from);
      stream->listed_edges.push_back(edge.data);
    }
    if (graph) *graph = capture->graph;
    if (nodes) *nodes = stream->listed_nodes.data();
    if (edges) *edges = stream->listed_edges.data();
    if (count) *count = stream->dependencies.size();
  });
}

CUresult update_dependencies(CUstream stream, const CUgraphNode* from, const CUgraphEdgeData* data, size_t count,
                             unsigned flags) {
  return in_driver([&](Driver& driver) {
    const Capture* const capture = capture_of(driver, stream);
    require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    const std::vector<GraphEdge> edges = edges_from(from, data, count);
    for (const GraphEdge& edge : edges)
      require(driver.graph_nodes.at(edge.from, CUDA_ERROR_INVALID_VALUE).graph == capture->graph,
              CUDA_ERROR_INVALID_VALUE);
    constexpr unsigned set = 1;  // CU_STREAM_SET_CAPTURE_DEPENDENCIES
    if (flags == set) stream->dependencies.clear();
    add_dependencies(*stream, edges);
  });
}

}  // namespace

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  return in_context([&](Driver& driver, Context&) {
    driver.require_stream(stream);
    begin(driver, stream, make_graph(driver), {}, false, mode);
  });
}
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* from,
                                     const CUgraphEdgeData* data, size_t count, int mode) {
  return in_context([&](Driver& driver, Context&) {
    driver.require_stream(stream);
    begin(driver, stream, driver.graphs.at(graph, CUDA_ERROR_INVALID_VALUE), edges_from(from, data, count), true, mode);
  });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return in_driver([&](Driver& driver) {
    driver.require_stream(stream);
    Capture* const capture = own_stream(stream) ? stream->capture : nullptr;
    require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    require(capture->origin == stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    require(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->thread == std::this_thread::get_id(),
            CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    const CUresult result = capture->is_invalid                   ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                            : has_unjoined_work(driver, *capture) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                                                  : CUDA_SUCCESS;
    Graph* const captured = capture->graph;
    const bool is_discarded = result != CUDA_SUCCESS && !capture->is_of_program;
    leave(driver, *capture);
    if (is_discarded) destroy_graph(driver, *captured);
    if (graph) *graph = result == CUDA_SUCCESS ? captured : nullptr;
    return result;
  });
}

CUresult cuStreamIsCapturing(CUstream stream, int* status) {
  return get_info(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int* status, uint64_t* id, CUgraph* graph,
                                   const CUgraphNode** nodes, size_t* count) {
  return get_info(stream, status, id, graph, nodes, nullptr, count);
}
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, int* status, uint64_t* id, CUgraph* graph,
                                   const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
  return get_info(stream, status, id, graph, nodes, edges, count);
}
CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* from, size_t count, unsigned flags) {
  return update_dependencies(stream, from, nullptr, count, flags);
}
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* from, const CUgraphEdgeData* data,
                                              size_t count, unsigned flags) {
  return update_dependencies(stream, from, data, count, flags);
}
CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  return in_driver([&](Driver&) {
    require_pointer(mode);
    thread_local int current = 0;
    std::swap(current, *mode);
  });
}

}  // extern "C"
