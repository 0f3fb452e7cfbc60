// Files that were made to waste time or memory, before every verb that reads a file: each ends soon, with a result or
// an error, or can be interrupted.
#include <fmt/format.h>
#include <signal.h>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <sstream>
#include <thread>

#include "cli/run.hpp"
#include "heartbeat.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

using namespace bitmma::test;

namespace {

std::string repeated(std::string_view text, size_t count) {
  std::string all;
  all.reserve(text.size() * count);
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

std::string safetensors(std::string_view header, std::string_view data = {}) {
  const uint64_t size = header.size();
  std::string file(sizeof size, '\0');
  std::memcpy(file.data(), &size, sizeof size);
  return file.append(header).append(data);
}

/// A tensor for a header. The name needs no escapes.
std::string tensor(std::string_view name, std::string_view dtype, std::string_view shape, size_t from, size_t bytes) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name, dtype, shape, from,
                     from + bytes);
}

/// A product of 64 x 16 and 16 x 8 zeros, with one key.
std::string product_with(std::string_view key, std::string_view value) {
  return safetensors(fmt::format(R"({{{},{},"__metadata__":{{"{}":"{}"}}}})", tensor("a", "F16", "64,16", 0, 2048),
                                 tensor("b", "F16", "16,8", 2048, 256), key, value),
                     std::string(2304, '\0'));
}

std::string numpy(std::string_view dtype, std::string_view shape, size_t bytes) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", dtype, shape);
  header.append(63 - (10 + header.size()) % 64, ' ').append("\n");
  const std::string size{static_cast<char>(header.size() % 256), static_cast<char>(header.size() / 256)};
  return std::string("\x93NUMPY\x01\x00", 8) + size + header + std::string(bytes, '\0');
}

std::string module_of(std::string_view body) {
  return fmt::format(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n{}}}\n",
                     body);
}

/// Launches of a kernel on four bytes of memory. The launch is the text of its keys after ptx.
std::string launches(const std::string& ptx, const std::string& launch, size_t count = 1) {
  const std::string entry = fmt::format(R"({{\"entry\":\"k\",\"ptx\":0,{}}})", launch);
  std::string list = repeated(entry + ",", count);
  list.pop_back();
  return safetensors(fmt::format(R"({{{},{},"__metadata__":{{"target":"sm_90a","launches":"[{}]"}}}})",
                                 tensor("ptx.0", "U8", std::to_string(ptx.size()), 0, ptx.size()),
                                 tensor("before.0.0", "U8", "4", ptx.size(), 4), list),
                     ptx + std::string(4, '\0'));
}

constexpr std::string_view grid_of_one = R"(\"grid\":[1],\"block\":[1],)",
                           its_memory = R"(\"arguments\":[{\"memory\":0}])";
const std::string one_launch = fmt::format("{}{}", grid_of_one, its_memory);

struct HostileFile {
  std::string name, bytes;
};

std::vector<HostileFile> hostile_files() {
  const std::string statement = f16 + " {%f0, %f1, %f2, %f3}, %rd0, %rd1, 1, 1, 1, 0, 0;\n";
  std::string tensors, equal, keys;
  for (int i = 0; i < 15'000; ++i) {
    tensors += (i == 0 ? "" : ",") + tensor(fmt::format("t{}", i), "U8", "0", 0, 0);
    equal += (i == 0 ? "" : ",") + tensor("a", "U8", "0", 0, 0);
    keys += fmt::format("{}\"k{}\":\"v\"", i == 0 ? "" : ",", i);
  }
  const std::string grid = fmt::format(R"({},\"block\":[1],\"grid\":)", its_memory);
  return {
      {"deep_list.safetensors", safetensors("{\"a\":" + repeated("[", 400'000) + repeated("]", 400'000) + "}")},
      {"deep_object.safetensors", safetensors(repeated("{\"a\":", 150'000) + "1" + repeated("}", 150'000))},
      {"many_tensors.safetensors", safetensors("{" + tensors + "}")},
      {"equal_tensors.safetensors", safetensors("{" + equal + "}")},
      {"many_keys.safetensors", safetensors("{\"__metadata__\":{" + keys + "}}")},
      {"long_number.safetensors",
       safetensors(R"({"a":{"dtype":"U8","data_offsets":[0,0],"shape":[)" + repeated("9", 900'000) + "]}}")},
      {"many_extents.safetensors",
       safetensors(R"({"a":{"dtype":"U8","data_offsets":[0,0],"shape":[)" + repeated("1,", 400'000) + "0]}}")},
      {"no_elements.safetensors", safetensors(fmt::format("{{{},{}}}", tensor("a", "F16", "1073741824,0", 0, 0),
                                                          tensor("b", "F16", "0,1073741824", 0, 0)))},
      {"no_cases.safetensors",
       safetensors(fmt::format(R"({{{},{},{},"__metadata__":{{"target":"sm_90a","instruction":"{}"}}}})",
                               tensor("a", "F16", "0,64,16", 0, 0), tensor("b", "F16", "0,16,8", 0, 0),
                               tensor("d", "F32", "0,64,8", 0, 0), f16))},
      {"empty_cases.safetensors",
       safetensors(fmt::format(R"({{{},{},{},"__metadata__":{{"target":"sm_90a","instruction":"{}"}}}})",
                               tensor("a", "F16", "1099511627776,64,0", 0, 0),
                               tensor("b", "F16", "1099511627776,0,8", 0, 0),
                               tensor("d", "F32", "1099511627776,0,8", 0, 0), f16))},
      {"long_mnemonic.safetensors", product_with("instruction", "wgmma" + repeated(".f16", 150'000))},
      {"long_plan.safetensors", product_with("plan", repeated("a", 900'000))},
      {"deep_plan.safetensors", product_with("plan", repeated(R"({\"a\":)", 100'000))},
      {"long_kernel.safetensors", product_with("kernel", "nvjet_" + repeated("64x32_", 100'000))},
      {"many_launches.safetensors", launches(module_of("ret;\n"), one_launch, 8'000)},
      {"deep_launch.safetensors", launches(module_of("ret;\n"), repeated("[", 400'000))},
      {"large_grid.safetensors", launches(module_of("ret;\n"), grid + "[2147483647,65535,65535]")},
      {"large_shared.safetensors",
       launches(module_of("ret;\n"), fmt::format(R"({}{},\"shared_bytes\":2147483647)", grid_of_one, its_memory))},
      {"large_scratch.safetensors",
       launches(module_of("ret;\n"), fmt::format(R"({}\"arguments\":[{{\"scratch\":7516192768}}])", grid_of_one))},
      {"many_scratches.safetensors",
       launches(module_of("ret;\n"), fmt::format(R"({}\"arguments\":[{}{{\"memory\":0}}])", grid_of_one,
                                                 repeated(R"({\"scratch\":1073741824},)", 4'000)))},
      {"list.json", repeated("[", 900'000)},
      {"object.json", repeated("{\"a\":", 180'000)},
      {"statements.ptx", module_of(repeated(statement, 4'000))},
      {"braces.ptx", repeated("{", 900'000)},
      {"parentheses.ptx", repeated("(", 900'000)},
      {"comment.ptx", repeated("/*", 450'000)},
      {"lines.ptx", repeated("\n", 900'000)},
      {"semicolons.ptx", repeated(";", 900'000)},
      {"quotes.cu", repeated("asm volatile(\"", 65'000)},
      {"rows.csv", "step,line,register,bits,statement\n" + repeated("1,1,r1,0x0,mov\n", 50'000)},
      {"commas.csv", repeated(",", 900'000)},
      {"quotes.csv", repeated("\"", 900'000)},
      {"no_rows.npy", numpy("<f4", "0, 1000000000", 0)},
      {"no_columns.npy", numpy("<f4", "1000000000, 0", 0)},
      {"many_axes.npy", numpy("<f4", repeated("1, ", 20'000), 4)},
      {"column.npy", numpy("<f4", "250000, 1", 1'000'000)},
      {"row.npy", numpy("<f4", "1, 250000", 1'000'000)},
  };
}

/// Every verb that reads a file; FILE is the file, OUT a new one.
const std::vector<std::string> verbs{
    "simulate FILE",
    "simulate FILE -o OUT",
    "simulate FILE --lint",
    "gemm FILE",
    "gemm FILE --find --timeout 2",
    "gemm FILE --plan FILE",
    "verify FILE",
    "compare FILE FILE",
    "decode FILE",
    "decode FILE --json",
    "explain FILE",
    "diagnose FILE",
    "quantize FILE --recipe ocp_mxfp4 -o OUT",
    "operator softmax FILE",
    "operator sum FILE",
    "run FILE --list",
    "run FILE",
    "run FILE --arg zeros:u8[4]",
    "ptx FILE",
    "layout scales --pack FILE -o OUT",
    "survey read FILE",
    "gpu run FILE -o OUT",
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

TEST_CASE("every verb ends soon with a file that was made to waste time", "[unsanitized]") {
  const TemporaryFolder folder;
  constexpr double most_seconds = 5;
  for (const HostileFile& file : hostile_files()) {
    const std::string path = folder.path(file.name), out = folder.path("out.safetensors");
    write_text(path, file.bytes);
    for (const std::string& verb : verbs) {
      std::vector<std::string> words = shell_words(verb);
      for (std::string& word : words) word = word == "FILE" ? path : word == "OUT" ? out : word;
      const double begun = cpu_seconds();
      const Outcome outcome = run(words);
      INFO(verb << " with " << file.name << "\n" << outcome.err.substr(0, 400));
      CHECK(outcome.code <= 2);
      CHECK(cpu_seconds() - begun < most_seconds);
      CHECK(outcome.err.find("not enough memory") == std::string::npos);
      CHECK(outcome.err.size() < 20'000);
    }
    std::filesystem::remove(path);
  }
}

TEST_CASE("one file of launches that asks for too much does not keep the others from being verified") {
  const TemporaryFolder folder;
  for (const HostileFile& file : hostile_files()) {
    if (file.name.starts_with("large_")) write_text(folder.path(file.name), file.bytes);
  }
  write_text(folder.path("good.safetensors"), launches(module_of("ret;\n"), one_launch));
  const Outcome outcome = run({"verify", folder.path("."), "--json"});
  INFO(outcome.out << outcome.err);
  CHECK(outcome.code == 2);
  for (const char* name :
       {"large_grid.safetensors", "large_shared.safetensors", "large_scratch.safetensors", "good.safetensors"})
    CHECK_THAT(outcome.out, ContainsSubstring(name));
  CHECK_THAT(outcome.out,
             ContainsSubstring("launches[0].grid") && ContainsSubstring("launches[0].arguments[0].scratch"));
}

TEST_CASE("a kernel that does not end is interrupted by Ctrl-C") {
  const TemporaryFolder folder;
  // The counter keeps the loop from repeating a state, which would be a fault.
  const std::string endless = module_of(".reg .b64 %rd1;\nmov.u64 %rd1, 0;\n$L: add.u64 %rd1, %rd1, 1;\nbra $L;\n"),
                    path = folder.path("k.ptx"), recorded = folder.path("launches.safetensors");
  write_text(path, endless);
  write_text(recorded, launches(endless, one_launch));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", path, "--arg", "zeros:u8[4]"}, {"verify", recorded}}) {
    Process process(program_with(words));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    process.signal(SIGINT);
    CHECK(process.wait().signal == SIGINT);
    std::vector<std::string> limited = words;
    limited.insert(limited.end(), {"--limit-instructions", "1e5"});
    CHECK(run(limited).code == 2);
  }
}

TEST_CASE("a terminal shows that a long command is running, until it prints something") {
  for (const bool is_terminal : {false, true}) {
    std::ostringstream out, err;
    const bitmma::cli::Terminal terminal{.out = out, .err = err, .progress = is_terminal};
    bitmma::cli::Heartbeat heartbeat(terminal, "bitmma\x1b");
    std::this_thread::sleep_for(std::chrono::milliseconds(2300));
    heartbeat.stop();
    const std::string printed = err.str();
    CHECK(printed.empty() != is_terminal);
    CHECK(printed.find("bitmma\x1b") == std::string::npos);
    if (is_terminal) CHECK(printed.ends_with("\r\033[K"));  // the line is erased
    heartbeat.stop();
    CHECK(err.str() == printed);
  }
}
