#include "system.hpp"

#include <unistd.h>

#include <utility>

namespace bitmma {

Descriptor::~Descriptor() { close(); }

bool Descriptor::close() {
  const int number = std::exchange(number_, -1);
  // After EINTR Linux has closed it all the same.
  return number < 0 || ::close(number) == 0 || errno == EINTR;
}

}  // namespace bitmma
