// The whole command line with any arguments. It writes only into the fuzzer's folder, and ends with 0, 1 or 2.
#include <filesystem>
#include <sstream>

#include "bitmma/acts/product_file.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/statement.hpp"
#include "cli.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

constexpr std::string_view mnemonics[] = {
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
    "wgmma.mma_async.sp.sync.aligned.m64n8k64.f32.e4m3.e5m2",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
    "tcgen05.mma.cta_group::1.kind::f16",
    "tcgen05.mma.ws.cta_group::1.kind::f16",
    "tcgen05.mma.cta_group::2.kind::f8f6f4",
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X",
    "tcgen05.ld.sync.aligned.16x64b.x4.b32",
    "tcgen05.st.sync.aligned.16x32bx2.x8.unpack::16b.b32",
    "tcgen05.cp.cta_group::1.32x128b.warpx4",
    "tcgen05.shift.cta_group::1.down"};

constexpr std::string_view verbs[] = {"simulate", "gemm", "golden",  "verify",   "compare", "decode",  "encode",
                                      "layout",   "list", "explain", "diagnose", "ptx",     "operator"};

constexpr std::string_view flags[] = {"--help",
                                      "--version",
                                      "--instruction",
                                      "--target",
                                      "--arch",
                                      "--layout-a",
                                      "--layout-b",
                                      "--padding",
                                      "--case",
                                      "--rows",
                                      "--cols",
                                      "--hex",
                                      "--lint",
                                      "--json",
                                      "--threads",
                                      "--plan",
                                      "--kernel",
                                      "--split-k",
                                      "--output-type",
                                      "--error",
                                      "--cases",
                                      "--seed",
                                      "--distribution",
                                      "--m",
                                      "--n",
                                      "--d",
                                      "--a",
                                      "--b",
                                      "--satfinite",
                                      "--scale-type",
                                      "--k96",
                                      "--max-shift",
                                      "--zero-column-mask",
                                      "--a-source",
                                      "--imm-scale-a",
                                      "--imm-scale-b",
                                      "--scale-d",
                                      "--sparsity-selector",
                                      "--scale-input-d",
                                      "--scale-a-id",
                                      "--scale-b-id",
                                      "--thread-id-a",
                                      "--thread-id-b",
                                      "--half-split-offset",
                                      "--columns",
                                      "--image-bytes",
                                      "--cute",
                                      "--descriptor",
                                      "--major",
                                      "--element-bits",
                                      "--max-lines",
                                      "--byte",
                                      "--csv",
                                      "--row",
                                      "--col",
                                      "--operand",
                                      "--thread",
                                      "--register",
                                      "--bit",
                                      "--max-cols",
                                      "--cta-group",
                                      "--ws",
                                      "--sparse",
                                      "--address",
                                      "--cta",
                                      "--lane",
                                      "--column",
                                      "--blocks",
                                      "--id",
                                      "--block",
                                      "--shape",
                                      "--num",
                                      "--split",
                                      "--trans",
                                      "--store",
                                      "--matrix",
                                      "--fragment",
                                      "--start",
                                      "--lbo",
                                      "--sbo",
                                      "--swizzle",
                                      "--base-offset",
                                      "--kind",
                                      "--negate-a",
                                      "--transpose-b",
                                      "--saturate",
                                      "--use",
                                      "--skip",
                                      "--start-0",
                                      "--first-1",
                                      "--column-shift",
                                      "--no-mask",
                                      "--sp",
                                      "--findings",
                                      "--no-pairs",
                                      "--list",
                                      "--mnemonics",
                                      "--markdown"};
/// Flags whose value is a file to write, or a file to read.
constexpr std::string_view file_flags[] = {"-o", "--output", "--svg", "--pack", "--unpack"};

constexpr std::string_view values[] = {"0",
                                       "1",
                                       "2",
                                       "4",
                                       "8",
                                       "16",
                                       "32",
                                       "64",
                                       "96",
                                       "128",
                                       "256",
                                       "512",
                                       "-1",
                                       "-8",
                                       "2147483647",
                                       "-2147483648",
                                       "4294967296",
                                       "9223372036854775807",
                                       "18446744073709551615",
                                       "0x4000004000010000",
                                       "0x4000404000010080",
                                       "0xffffffffffffffff",
                                       "0x08100010",
                                       "1e308",
                                       "nan",
                                       "",
                                       "k",
                                       "mn",
                                       "sm_90a",
                                       "sm_100a",
                                       "sm_103a",
                                       "sm_120a",
                                       "sm_80",
                                       "a",
                                       "b",
                                       "c",
                                       "d",
                                       "metadata",
                                       "32x32b",
                                       "16x64b",
                                       "16x256b",
                                       "16x32bx2",
                                       "f16",
                                       "tf32",
                                       "f8f6f4",
                                       "i8",
                                       "mxf8f6f4",
                                       "mxf4",
                                       "mxf4nvf4",
                                       "f32",
                                       "bf16",
                                       "e4m3",
                                       "e5m2",
                                       "e2m1",
                                       "e3m2",
                                       "s8",
                                       "s32",
                                       "ue8m0",
                                       "ue4m3",
                                       "none",
                                       "128-atom32",
                                       "k-major:128",
                                       "mn-major:64",
                                       "mn-major:128@48",
                                       "k-major:32@-16",
                                       "bits",
                                       "ties",
                                       "special",
                                       "smem",
                                       "registers",
                                       "tmem",
                                       "0..3,7",
                                       "flat",
                                       "nvjet-splitK",
                                       "nvjet-algo2",
                                       "triton",
                                       "gemv-32",
                                       "Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))",
                                       "((8,8),(8,2)):((64,512),(1,8))",
                                       "(65536,16):(4294967296,1)",
                                       "nvjet_sm90_tst_64x32_splitK_TNT"};

/// Vector files of some families and two products, made once.
const std::vector<std::string>& inputs() {
  static const std::vector<std::string> paths = [] {
    std::vector<std::string> made;
    for (const std::string_view mnemonic : mnemonics) {
      const std::string to = path("in" + std::to_string(made.size()));
      accepts([&] {
        const Instruction instruction = parse_instruction(mnemonic);
        write_golden(to, {.instruction = instruction, .cases = 2}, 1);
        made.push_back(to);
      });
    }
    for (const std::string_view dtype : {"F16", "F8_E4M3"}) {
      const auto size = static_cast<std::size_t>(dtype_bytes(dtype));
      TensorFile product;
      product.set(Tensor::from_bytes("a", std::string(dtype), {4, 64}, std::vector<uint8_t>(4 * 64 * size, 0x38)));
      product.set(Tensor::from_bytes("b", std::string(dtype), {64, 4}, std::vector<uint8_t>(64 * 4 * size, 0x39)));
      product.set(Tensor::from_bytes("d", "F32", {4, 4}, std::vector<uint8_t>(64, 0)));
      made.push_back(path("in" + std::to_string(made.size())));
      write_tensor_file(made.back(), product);
    }
    return made;
  }();
  return paths;
}

std::string any_value(Bytes& in) {
  switch (between(in, 0, 9)) {
    case 0: return in.ConsumeRandomLengthString(20);
    case 1: return std::to_string(in.ConsumeIntegral<int64_t>());
    case 2: return std::to_string(between(in, -2, 300));
    case 3: return pick(in, inputs());
    case 4: return std::string(pick(in, mnemonics));
    case 5: return print(statement_of(listed_instruction(in)));
    default: return std::string(pick(in, values));
  }
}

/// What a verb cannot do without.
void add_required(Bytes& in, std::vector<std::string>& arguments) {
  const std::string verb = arguments[0];
  const auto add = [&](std::initializer_list<std::string_view> more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  };
  if (verb == "layout") {
    constexpr std::string_view kinds[] = {"smem", "fragment", "tmem", "scales", "ldst", "ldmatrix", "--cute"};
    arguments.emplace_back(pick(in, kinds));
    if (arguments[1] == "smem") add({"--descriptor", "0x4000004000010000"});
    if (arguments[1] == "fragment") add({"--instruction", pick(in, mnemonics)});
    if (arguments[1] == "--cute") add({"((8,8),(8,2)):((64,512),(1,8))"});
  } else if (verb == "encode") {
    constexpr std::string_view kinds[] = {"descriptor", "idesc", "mask", "instruction"};
    arguments.emplace_back(pick(in, kinds));
    if (arguments[1] == "idesc") add({"--kind", "f16", "--m", "128", "--n", "64"});
    if (arguments[1] == "instruction") add({"--n", "64"});
  } else if (verb == "golden") {
    add({pick(in, mnemonics), "-o", "out", "--cases", "1"});
  } else if (verb == "ptx") {
    add({pick(in, mnemonics)});
  } else if (verb == "decode") {
    arguments.push_back(any_value(in));
  } else if (verb != "list") {
    arguments.push_back(pick(in, inputs()));
    if (verb == "compare" || verb == "diagnose") arguments.push_back(pick(in, inputs()));
  }
}

bool writes_files(const std::string& argument) {
  // CLI11 also takes -oNAME, --output=NAME and, of letters together, -xoNAME.
  if (argument.starts_with("-o") || (argument.size() > 1 && argument[0] == '-' && argument[1] != '-'))
    return argument != "-o";
  return std::ranges::any_of(file_flags,
                             [&](std::string_view flag) { return argument.starts_with(std::string(flag) + "="); });
}

/// Everything that is written goes to the folder; nothing runs for long.
bool tame(std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool asks_a_gpu = arguments[i] == "gpu" || (i > 0 && arguments[i - 1] == "survey" && arguments[i] != "read");
    if (asks_a_gpu || arguments[i] == "bench" || writes_files(arguments[i]) ||
        arguments[i].find('\0') != std::string::npos)
      return false;
    for (const std::string_view bounded : {"--cases=", "--threads=", "--rows=", "--cols=", "--blocks=", "--find"}) {
      if (arguments[i].starts_with(bounded)) return false;
    }
    if (i == 0) continue;
    if (std::ranges::find(file_flags, arguments[i - 1]) != std::end(file_flags) && !arguments[i].starts_with(path("")))
      arguments[i] = path("out");
    const bool is_count = arguments[i - 1] == "--cases" || arguments[i - 1] == "--threads";
    if (is_count && arguments[i].size() > 1 && arguments[i].find_first_not_of("0123456789") == std::string::npos)
      arguments[i] = "3";
  }
  // What comes last may be the value of nothing; a flag alone is refused by CLI11.
  return true;
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  std::vector<std::string> arguments{std::string(pick(in, verbs))};
  (void)inputs();
  if (arguments[0] == "list" && !one_in(in, 32)) return;  // it reads nothing and takes long
  if (!one_in(in, 16)) add_required(in, arguments);
  const bool color = in.ConsumeBool();
  for (int more = between(in, 0, 8); more > 0 && in.remaining_bytes() > 0; --more) {
    if (one_in(in, 12)) arguments.emplace_back(pick(in, file_flags)), arguments.push_back(path("out"));
    else if (in.ConsumeBool()) arguments.emplace_back(pick(in, flags));
    else arguments.push_back(any_value(in));
  }
  if (!tame(arguments)) return;
  std::ostringstream out, err;
  const int code = cli::run(arguments, {.out = out, .err = err, .color = color, .progress = false});
  const std::string message = err.str();
  bool holds = code >= 0 && code <= 2 && (code != 2 || !message.empty());
  // A message of the standard library or of JSON is no answer, and no file's or user's bytes reach a terminal raw.
  for (const std::string_view bare :
       {"std::", "vector::", "basic_string", "[json.exception", "filesystem error", "map::at", "stoi", "stol"}) {
    holds &= !message.starts_with("error: " + std::string(bare));
  }
  const auto is_control = [](char c) { return (c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == '\x7F'; };
  holds &= is_utf8(message) && (color || std::ranges::none_of(message, is_control));
  if (!holds) {
    std::fprintf(stderr, "exit code %d: %s\narguments:", code, message.c_str());
    for (const std::string& argument : arguments) std::fprintf(stderr, " '%s'", argument.c_str());
    std::fprintf(stderr, "\n");
  }
  require(holds, "a command ends with 0, 1, or 2 and the reason");
  std::error_code ignored;
  std::filesystem::remove(path("out"), ignored);
}
