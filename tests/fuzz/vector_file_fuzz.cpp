// Any bytes as a vector file. What is accepted is computed, compared and explained.
#include "analyses.hpp"
#include "bitmma/files/vector_file.hpp"
#include "raw_file.hpp"

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  const Point point = any_point(in);
  const std::string original = path("vectors");
  write(original, raw_file(in));
  VectorFile vectors;
  if (accepts([&] { vectors = read_vector_file(original); })) analyse(vectors, point);
}
