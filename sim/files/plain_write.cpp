// SPDX-License-Identifier: MIT
// In place of write_whole.cpp, where files have no permissions, owners and second names, and are no pipes:
// BITMMA_HOSTED=OFF.
#include <fstream>
#include <iostream>
#include <sstream>

#include "bitmma/files/file.hpp"
#include "system.hpp"

namespace bitmma {
namespace {

/// Text in memory; a position behind its end is reached through zeros, as in a file.
class WholeFile : public std::stringbuf {
 protected:
  pos_type seekpos(pos_type position, std::ios_base::openmode mode) override {
    for (std::streamoff end = seekoff(0, std::ios::end, std::ios::out); end < position; ++end) sputc('\0');
    return std::stringbuf::seekpos(position, mode & std::ios::out);
  }
};

}  // namespace

// `write` has ended before a byte is written: an exception of it leaves the file as it was.
void write_whole(const std::string& path, const std::function<void(std::ostream&)>& write, uint64_t) {
  require_name(path);
  FileObserver::report(path, FileUse::write);
  WholeFile whole;
  std::ostream stream(&whole);
  stream.exceptions(std::ios::badbit);
  write(stream);
  std::cout.flush();  // earlier output must come first if the file is the standard output
  std::ofstream file(path, std::ios::binary);
  file << whole.view();
  file.close();
  if (!file) refuse_by_errno(path);
}

}  // namespace bitmma
