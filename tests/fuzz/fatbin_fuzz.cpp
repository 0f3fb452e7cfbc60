// Any bytes as a fat binary, and as PTX modules to be joined: what is accepted keeps the promises of its lengths.
#include "driver/fatbin.hpp"
#include "driver/link_ptx.hpp"
#include "fuzz.hpp"

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  if (one_in(in, 4)) {
    const std::string first = in.ConsumeRandomLengthString(), second = in.ConsumeRemainingBytesAsString();
    require(driver::join_ptx({first, second}).find(".address_size 64") != std::string::npos, "a module has a header");
    return;
  }
  const Target device = any_target(in);
  const std::vector<uint8_t> container = in.ConsumeRemainingBytes<uint8_t>();
  std::vector<driver::FatbinEntry> entries;
  if (!accepts([&] { entries = driver::fatbin_entries(container); })) return;
  for (const driver::FatbinEntry& entry : entries) {
    require(entry.payload.size() <= container.size(), "a payload is a part of the container");
    std::string payload;
    if (accepts([&] { payload = driver::fatbin_payload(entry); }))
      require(payload.size() <= entry.uncompressed_bytes, "a payload has the bytes of its entry");
  }
  accepts([&] { (void)driver::fatbin_ptx(container, device); });
}
