// SPDX-License-Identifier: MIT
// How functions of the API begin that take a graph, a node or an executable graph.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "driver.hpp"

namespace bitmma::driver {

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

/// Parameters of a type from a structure of it, of which an older version may have fewer bytes.
inline CUgraphNodeParams params_of(CUgraphNodeType type, const void* params, size_t bytes) {
  CUgraphNodeParams all{};
  all.type = type;
  if (params) std::memcpy(all.reserved1, params, bytes);
  return all;
}
// The first versions of two structures are shorter.
constexpr size_t kernel_bytes_v1 = offsetof(CUDA_KERNEL_NODE_PARAMS, kern),
                 memset_bytes_v1 = offsetof(CUDA_MEMSET_NODE_PARAMS, ctx);

}  // namespace bitmma::driver
