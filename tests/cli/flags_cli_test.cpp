// What was given acts, or is refused: every flag of every verb, and every two flags of a verb, on command lines that
// work without them. A flag acts where it changes something that can be seen: the exit code, what is printed, or a
// file.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "bitmma/files/file.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "commands.hpp"
#include "run.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::Outcome;

namespace {

/// A command line that is done without any more flags.
struct Base {
  std::string verb, words;
};

const std::string wgmma_f16 = test::f16, cp = "tcgen05.cp.cta_group::1.128x256b";
const std::string tcgen05_f16 = "tcgen05.mma.cta_group::1.kind::f16";
const std::string nvfp4 = "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X";
const std::string mma_f16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";

const std::vector<Base> bases{
    {"simulate", "wrong.safetensors"},
    {"simulate", "plain.safetensors"},
    {"golden", wgmma_f16 + " -o made"},
    {"golden", tcgen05_f16 + " --cases 1 -o made"},
    {"golden", nvfp4 + " --cases 1 -o made"},
    {"golden", mma_f16 + " -o made"},
    {"golden", "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 -o made"},
    {"gemm", "product.safetensors --plan flat"},
    {"gemm", "product.safetensors --kernel nvjet_sm90_hss_64x8_64x16_4x1_v_bz_TNN"},
    {"gemm", "product.safetensors --library cublas-13.1 --gpu H100"},
    {"verify", "golden.safetensors"},
    {"compare", "golden.safetensors golden.safetensors"},
    {"decode", "0x4000004000010000"},
    {"decode", "0x08100010 --kind f16"},
    {"decode", "0x0003028000000000 --zero-column-mask"},
    {"decode", wgmma_f16},
    {"encode descriptor", "--start 128 --lbo 16 --sbo 1024 --swizzle 128"},
    {"encode idesc", "--kind f16 --m 128 --n 64"},
    {"encode idesc", "--kind mxf4nvf4 --m 128 --n 64"},
    {"encode mask", "--use 3 --skip 2"},
    {"encode instruction", "--n 64"},
    {"layout", "--cute (8,(8,2)):(8,(1,64))"},
    {"layout", "--cute (8,(8,2)):(8,(1,64)) --descriptor 0x4000004000010000"},
    {"layout smem", "--descriptor 0x4000004000010000"},
    {"layout smem", "--atom 64"},
    {"layout descriptor", "--type f16 --swizzle 128 --rows 64 --cols 64"},
    {"layout fragment", "--instruction " + wgmma_f16},
    {"layout fragment", "--instruction " + mma_f16 + " --operand a"},
    {"layout tmem", "--m 128 --n 16"},
    {"layout tmem", "--operand a --m 128"},
    {"layout tmem", "--operand metadata --m 128"},
    {"layout tmem-plan", "--instruction " + tcgen05_f16},
    {"layout scales", "--rows 32"},
    {"layout metadata", "--order sm80 --rows 32 --cols 64"},
    {"layout metadata", "--order sm90 --rows 64 --cols 128"},
    {"layout chain", wgmma_f16 + " " + wgmma_f16},
    {"layout chain", tcgen05_f16 + " " + tcgen05_f16 + " --m 128 --n 128"},
    {"layout ldst", "--shape 16x64b --num 2"},
    {"layout ldmatrix", "--num 2"},
    {"layout banks", "--addresses 0,128,256"},
    {"layout swizzles", ""},
    {"layout algebra", "coalesce (2,(1,6)):(1,(6,2))"},
    {"layout ldmatrix", "--fragment " + mma_f16},
    {"list", ""},
    {"list", "recipes"},
    {"explain", "golden.safetensors"},
    {"math", "ex2.approx.f32 0x3e99999a"},
    {"quantize", "product.safetensors --tensor a --recipe ocp_mxfp4 -o made"},
    {"quantize", "product.safetensors --tensor a --recipe deepgemm_1x128 -o made"},
    {"operator", "softmax operands.safetensors"},
    {"operator", "rms_norm operands.safetensors"},
    {"operator", "mean operands.safetensors"},
    {"operator", "silu operands.safetensors"},
    {"operator", "attention operands.safetensors"},
    {"diagnose", "golden.safetensors wrong.safetensors"},
    {"ptx", wgmma_f16},
};

// Verbs that need a GPU, a kernel or minutes, that print their own time, or that have no flags.
const std::set<std::string> without_bases{"gpu", "gpu run", "gpu campaign", "survey", "survey run", "survey read",
                                          "run", "bench",   "completion",   "encode", "replay",     "exec"};

/// Values of flags that differ from what is taken without them, several where one may say what holds anyway. Rows of
/// the verb are taken, or those of no verb.
struct Sample {
  std::string verb, flag, value;
};
const std::vector<Sample> samples{
    {"", "--output", "other.safetensors"},
    {"", "--recipe", "te_nvfp4"},
    {"", "--tensor", "b"},
    {"", "--torch-device", "cpu"},
    {"quantize", "--type", "f16"},
    {"operator", "--type", "f16"},
    {"operator", "--tensor", "q"},
    {"operator", "--tensor", "k"},
    {"operator", "--output-type", "f32"},
    {"operator", "--eps", "0.1"},
    {"operator", "--dim", "0"},
    {"operator", "--dim", "all"},
    {"operator", "--scale", "0.5"},
    {"operator", "--window", "3,2"},
    {"operator", "--splits", "1"},
    {"operator", "--backend", "efficient"},
    {"operator", "--against", "results.safetensors"},
    {"operator", "--against", "attended.safetensors"},
    {"operator", "--explain", "1,5"},
    {"operator", "--explain", "1"},
    {"operator", "--explain", "1,3,5"},
    {"layout scales", "--output", "other.bin"},
    {"ptx", "--output", "other.ptx"},
    {"", "--instruction", mma_f16},
    {"", "--target", "sm_100a"},
    {"", "--target", "sm_103a"},
    {"", "--target", "sm_80"},
    {"", "--a", "e4m3"},
    {"", "--b", "e5m2"},
    {"", "--d", "f16"},
    {"", "--scale-type", "ue4m3"},
    {"", "--layout-a", "k-major:64"},
    {"", "--layout-b", "mn-major:128"},
    {"", "--padding", "16"},
    {"", "--format", "csv"},
    {"", "--after", "golden.safetensors"},
    {"", "--case", "1"},
    {"verify", "--limit-memory", "65536"},
    {"verify", "--limit-instructions", "1000"},
    {"layout smem", "--code-bits", "4"},
    {"layout tmem", "--code-bits", "4"},
    {"layout smem", "--rows", "16"},
    {"layout smem", "--warp", "ld.b128"},
    {"layout smem", "--warp-lines", "8"},
    {"layout tmem", "--selector", "1"},
    {"layout metadata", "--order", "sm100"},
    {"layout metadata", "--tile-k", "64"},
    {"layout metadata", "--chunk", "1"},
    {"layout metadata", "--rows", "64"},
    {"layout metadata", "--cols", "128"},
    {"layout metadata", "--cols", "256"},
    {"layout chain", "--m", "64"},
    {"layout chain", "--m", "256"},
    {"layout chain", "--n", "64"},
    {"layout descriptor", "--rows", "128"},
    {"", "--rows", "3"},
    {"layout descriptor", "--cols", "128"},
    {"", "--cols", "3"},
    {"", "--cases", "1"},
    {"", "--seed", "3"},
    {"", "--distribution", "integers"},
    {"", "--m", "64"},
    {"", "--m", "256"},
    {"", "--n", "32"},
    {"", "--k", "96"},
    {"", "--sparsity-version", "1"},
    {"", "--max-shift", "1"},
    {"", "--zero-column-mask", "0x0003028000000000"},
    {"", "--a-source", "registers"},
    {"", "--a-source", "smem"},
    {"", "--imm-scale-a", "-1"},
    {"", "--imm-scale-b", "-1"},
    {"", "--scale-d", "0"},
    {"", "--sparsity-selector", "1"},
    {"", "--scale-input-d", "2"},
    {"", "--scale-a-id", "1"},
    {"", "--scale-b-id", "1"},
    {"", "--thread-id-a", "1"},
    {"", "--thread-id-b", "1"},
    {"", "--half-split-offset", "8"},
    {"", "--plan", "nvjet-algo2"},
    {"", "--kernel", "nvjet_sm90_hss_64x8_64x16_4x1_v_bz_splitK_TNN"},
    {"", "--split-k", "3"},
    {"", "--output-type", "f16"},
    {"gemm", "--library", "cublas-13.1"},
    {"gemm", "--gpu", "H200"},
    {"gemm", "--layout", "nn"},
    {"", "--major", "mn"},
    {"", "--kind", "tf32"},
    {"", "--start", "256"},
    {"", "--lbo", "32"},
    {"", "--sbo", "512"},
    {"", "--swizzle", "64"},
    {"", "--base-offset", "1"},
    {"", "--use", "1"},
    {"", "--skip", "1"},
    {"", "--column-shift", "2"},
    {"", "--cute", "8:1"},
    {"", "--descriptor", "0x4000004000010004"},
    {"", "--element-bits", "8"},
    {"", "--byte", "18"},
    {"", "--max-lines", "2"},
    {"", "--row", "1"},
    {"", "--col", "1"},
    {"", "--svg", "picture.svg"},
    {"", "--atom", "32"},
    {"", "--type", "bf16"},
    {"", "--stages", "2"},
    {"", "--instruction-rows", "8"},
    {"", "--instruction-k", "32"},
    {"", "--operand", "b"},
    {"", "--byte-id", "1"},
    {"", "--thread-id", "1"},
    {"", "--thread", "5"},
    {"", "--register", "1"},
    {"", "--bit", "16"},
    {"", "--element", "d1"},
    {"", "--max-cols", "4"},
    {"", "--cta-group", "2"},
    {"", "--address", "0x200010"},
    {"", "--cta", "0"},
    {"", "--lane", "3"},
    {"", "--column", "1"},
    {"", "--accumulators", "2"},
    {"", "--k-blocks", "2"},
    {"", "--ctas", "2"},
    {"", "--blocks", "2"},
    {"", "--id", "1"},
    {"", "--block", "0"},
    {"", "--pack", "bytes.bin"},
    {"", "--unpack", "bytes.bin"},
    {"", "--shape", "16x128b"},
    {"", "--num", "1"},
    {"", "--split", "4"},
    {"", "--matrix", "1"},
    {"", "--fragment", mma_f16},
    {"", "--findings", "1"},
    {"ptx", "--columns", "64"},
    {"", "--a-desc", "0x4000004000010004"},
    {"", "--b-desc", "0x4000004000010004"},
    {"", "--s-desc", "0x4000004000010000"},
    {"", "--d-tmem", "0x40"},
    {"", "--a-tmem", "0x40"},
    {"", "--metadata-tmem", "0x40"},
    {"", "--scale-a-tmem", "0x50"},
    {"", "--scale-b-tmem", "0x40"},
    {"", "--taddr", "0x40"},
    {"", "--warp", "1"},
    {"", "--timeout", "5"},
    {"", "--only-rows", "0..3"},
    {"", "--only-cols", "0..3"},
    {"", "--tma", "128"},
    {"", "--box", "64x16"},
    {"", "--conflicts", "ldmatrix"},
    {"", "--addresses", "0,4,8"},
    {"", "--bytes", "8"},
    {"", "--image-bytes", "4096"},
    {"", "--inputs", "state"},
    {"", "--inputs", "matrices"},
    {"", "--fault", "a.zero"},
    {"", "--set", "a[0,0]=0x3c00"},
    {"quantize", "--compare", "te_nvfp4 flashinfer_nvfp4"},
    {"gemm", "--choices", "4096 4096"},
    {"gemm", "--type", "f16"},
};

/// What can be seen of a run: files by their bytes.
struct Seen {
  Outcome outcome;
  std::map<std::string, std::string> files;

  bool operator==(const Seen& other) const {
    return outcome.code == other.outcome.code && outcome.out == other.outcome.out && outcome.err == other.outcome.err &&
           files == other.files;
  }
  bool refused() const { return outcome.code == 2; }
};

class Bench {
 public:
  Bench() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path("."));
    REQUIRE(
        test::run({"golden", wgmma_f16, "--distribution", "normal", "--cases", "2", "-o", "golden.safetensors"}).code ==
        0);
    TensorFile whole = read_tensor_file("golden.safetensors"), plain;
    plain.metadata = whole.metadata;
    for (const char* name : {"a", "b", "c"}) plain.set(*whole.find(name));
    write_tensor_file("plain.safetensors", plain);
    Tensor wrong = *whole.find("d_regs");
    std::vector<uint8_t> bytes = wrong.bytes.copy();
    bytes[bytes.size() - 3] ^= 0x20;
    wrong.bytes = TensorBytes(std::move(bytes));
    whole.set(wrong);
    write_tensor_file("wrong.safetensors", whole);
    std::filesystem::copy(test::source_path("data/products/nvjet_flat_f16_k1024.safetensors"), "product.safetensors");
    test::write_text("bytes.bin", std::string(512, 'x'));
    TensorFile operands;
    for (const auto& [name, shape] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
             {"x", {4, 40}}, {"weight", {40}}, {"q", {2, 6, 16}}, {"k", {1, 300, 16}}, {"v", {1, 300, 16}}}) {
      std::vector<uint8_t> codes;
      for (int64_t i = 0; i < shape[0] * (shape.size() > 1 ? shape[1] : 1) * (shape.size() > 2 ? shape[2] : 1); ++i)
        codes.push_back(static_cast<uint8_t>(i * 37)), codes.push_back(static_cast<uint8_t>(0x30 + i * 5 % 16));
      operands.set(Tensor::from_bytes(name, "F16", shape, std::move(codes)));
    }
    write_tensor_file("operands.safetensors", operands);
    REQUIRE(test::run_line("operator softmax operands.safetensors -o results.safetensors").code == 0);
    REQUIRE(test::run_line("operator attention operands.safetensors -o attended.safetensors").code == 0);
    given_ = files();
  }
  ~Bench() { std::filesystem::current_path(before_); }

  /// Runs `bitmma VERB WORDS`, and takes away what it wrote.
  Seen run(const std::string& verb, const std::string& words) {
    Seen seen{.outcome = test::run_line(verb + " " + words), .files = {}};
    for (const std::string& name : files()) {
      if (given_.contains(name)) continue;
      seen.files[name] = read_whole(name);
      std::filesystem::remove(name);
    }
    return seen;
  }

 private:
  static std::set<std::string> files() {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(".")) names.insert(entry.path().filename().string());
    return names;
  }

  const test::TemporaryFolder folder_;
  const std::filesystem::path before_;
  std::set<std::string> given_;
};

/// A flag as it may be written, "--json" or "--row 1".
struct TriedFlag {
  std::string name;
  std::vector<std::string> words;
};

/// The flags of a verb; of those that say how and not what, none.
std::vector<TriedFlag> flags_of(const std::string& verb, const CLI::App& command, std::string& failed) {
  static const std::set<std::string> not_what{"--help", "--help-all", "--threads", "--cpu-target"};
  std::vector<TriedFlag> flags;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() || option->get_lnames().empty()) continue;
    TriedFlag flag{.name = "--" + option->get_lnames().front(), .words = {}};
    if (not_what.contains(flag.name)) continue;
    if (option->get_items_expected_max() == 0) flag.words = {flag.name};
    for (const std::string& of : {verb, std::string()}) {
      for (const Sample& sample : samples) {
        const bool is_meant =
            "--" + option->get_lnames().front() == sample.flag || "--" + option->get_lnames().back() == sample.flag;
        if (sample.verb == of && is_meant && option->get_items_expected_max() > 0) {
          flag.words.push_back(flag.name + " " + sample.value);
        }
      }
      if (!flag.words.empty()) break;
    }
    if (flag.name.starts_with("--start-") || flag.name.starts_with("--first-")) flag.words = {flag.name + " 1"};
    if (flag.words.empty()) failed += verb + " " + flag.name + ": this test has no value for it\n";
    else flags.push_back(std::move(flag));
  }
  return flags;
}

/// What is so by its nature: a permission that is not needed, a name that two things share, a form that an answer has
/// anyway.
struct Harmless {
  std::string verb, flag, why;
};
const std::vector<Harmless> harmless{
    {"golden", "--target", "says on which GPU it must be legal"},
    {"encode idesc", "--target", "says on which GPU it must be legal"},
    {"decode", "--target", "says on which GPU it must be legal"},
    {"layout", "--target", "two GPUs may read a descriptor alike"},
    {"layout smem", "--target", "two GPUs may read a descriptor alike"},
    {"layout fragment", "--target", "says on which GPU it must be legal"},
    {"encode descriptor", "--mask-address", "changes addresses beyond the window alone"},
    {"golden", "--sparsity-selector", "stands in the descriptor, which text does not show"},
    {"layout tmem", "--code-bits", "changes the bits that a question names"},
    {"layout tmem", "--ws", "two instructions may have one layout"},
    {"layout tmem", "--sparse", "two instructions may have one layout"},
    {"layout scales", "--m", "two instructions may have one layout"},
    {"layout scales", "--cta-group", "two instructions may have one layout"},
    {"layout scales", "--operand", "two operands may have one layout"},
    {"layout scales", "--image", "--byte asks of the image anyway"},
    {"layout ldmatrix", "--store", "stmatrix has the registers of ldmatrix"},
    {"layout fragment", "--bit", "an element may have all bits of its register"},
    {"layout smem", "--rows", "an extent, of which a question may see nothing"},
    {"layout smem", "--box", "two boxes may have one verdict"},
    {"layout smem", "--major", "two operands may have one verdict"},
    {"layout smem", "--element-bits", "two types may have one verdict"},
    {"layout metadata", "--element-bits", "two types may have one verdict"},
    {"layout metadata", "--tile-k", "two tiles may have one verdict"},
    {"layout tmem-plan", "--exclusive", "another allocation of the same pieces"},
    {"", "--csv", "the answer to a question is CSV"},
    {"", "--replace-d", "a permission"},
    {"", "--max-lines", "a limit"},
    {"", "--limit-memory", "a limit"},
    {"", "--limit-instructions", "a limit"},
    {"", "--max-cols", "a limit"},
    {"diagnose", "--cases", "a limit"},
    {"diagnose", "--findings", "a limit"},
    {"diagnose", "--no-pairs", "pairs are tried only if no fault explains all"},
    {"", "--inputs", "equal copies give the same"},
};
bool is_harmless(const std::string& verb, const std::string& flag) {
  return std::ranges::any_of(
      harmless, [&](const Harmless& row) { return (row.verb.empty() || row.verb == verb) && row.flag == flag; });
}

void for_each_verb(const CLI::App& command, const std::string& path, const auto& visit) {
  for (const CLI::App* below : command.get_subcommands([](const CLI::App* app) { return !app->get_group().empty(); })) {
    const std::string name = path.empty() ? below->get_name() : path + " " + below->get_name();
    visit(name, *below);
    for_each_verb(*below, name, visit);
  }
}

}  // namespace

TEST_CASE("every flag of a verb acts or is refused, alone and beside every other", "[long]") {
  std::ostringstream out, err;
  cli::Command program("", "bitmma");
  cli::Context context{.terminal = {.out = out, .err = err}, .program = &program};
  cli::add_commands(program, context);
  Bench bench;
  std::string failed;
  int alone = 0, pairs = 0;
  for_each_verb(program, "", [&](const std::string& verb, const CLI::App& command) {
    if (without_bases.contains(verb)) return;
    const std::vector<TriedFlag> flags = flags_of(verb, command, failed);
    bool has_base = false;
    for (const Base& base : bases) {
      if (base.verb != verb) continue;
      has_base = true;
      const Seen nothing = bench.run(verb, base.words);
      if (nothing.refused()) failed += verb + " " + base.words + ": " + nothing.outcome.err;
      struct Tried {
        std::string name, words;
        Seen seen;
      };
      std::vector<Tried> tried;
      for (const TriedFlag& flag : flags) {
        const bool is_given = (" " + base.words + " ").find(" " + flag.name + " ") != std::string::npos;
        if (is_given || (flag.name == "--output" && base.words.find(" -o ") != std::string::npos)) continue;
        ++alone;
        // A value that changes something, or else one that is refused.
        std::optional<Tried> best;
        for (const std::string& words : flag.words) {
          Seen seen = bench.run(verb, base.words + " " + words);
          if (seen.refused() && (!seen.files.empty() || !seen.outcome.out.empty()))
            failed += verb + " " + base.words + " " + words + ": refused behind a result\n";
          if (seen == nothing || (best && !best->seen.refused())) continue;
          if (!best || !seen.refused()) best = Tried{flag.name, words, std::move(seen)};
        }
        if (best) tried.push_back(std::move(*best));
        else if (!is_harmless(verb, flag.name))
          failed += verb + " " + base.words + " " + flag.words.front() + ": does nothing\n";
      }
      for (size_t i = 0; i < tried.size(); ++i) {
        for (size_t j = i + 1; j < tried.size(); ++j) {
          const std::string line = base.words + " " + tried[i].words + " " + tried[j].words;
          const Seen both = bench.run(verb, line);
          ++pairs;
          if (both.refused() && (!both.files.empty() || !both.outcome.out.empty()))
            failed += verb + " " + line + ": refused behind a result\n";
          if (both.refused()) continue;
          for (const auto& [flag, other_flag] : {std::pair(i, j), std::pair(j, i)}) {
            if (both == tried[other_flag].seen && !is_harmless(verb, tried[flag].name))
              failed += verb + " " + line + ": " + tried[flag].name + " does nothing\n";
          }
        }
      }
    }
    if (!has_base) failed += verb + ": this test has no command line for it\n";
  });
  INFO(failed);
  CHECK(failed.empty());
  CHECK(alone > 300);
  CHECK(pairs > 2000);
}

namespace {

/// What is taken without the flag, where help does not say it.
const std::vector<Sample> defaults{
    {"", "--scale-type", "ue8m0"},
    {"", "--scale-a-id", "0"},
    {"", "--scale-b-id", "0"},
    {"", "--thread-id-a", "0"},
    {"", "--thread-id-b", "0"},
    {"", "--sparsity-version", "0"},
    {"", "--max-shift", "0"},
    {"", "--sparsity-selector", "0"},
    {"", "--scale-input-d", "0"},
    {"", "--imm-scale-a", "1"},
    {"", "--imm-scale-b", "1"},
    {"", "--scale-d", "1"},
    {"", "--half-split-offset", "2"},
    {"", "--split", "0"},
    {"", "--instruction-rows", "0"},
    {"", "--instruction-k", "0"},
    {"", "--address", "0"},
    {"", "--max-lines", "32"},
    {"", "--case", "0"},
    {"", "--a-source", "smem"},
};

/// The flag with its default; empty where it has none.
std::string with_default(const CLI::Option& option) {
  if (option.get_lnames().empty() || option.get_items_expected_max() == 0) return "";
  const std::string name = "--" + option.get_lnames().front();
  if (!option.get_default_str().empty()) return name + " " + option.get_default_str();
  const auto row = std::ranges::find(defaults, name, &Sample::flag);
  return row == defaults.end() ? "" : name + " " + row->value;
}

/// Other values than those of `samples`, which a flag may have there.
const std::vector<Sample> more_samples{
    {"golden", "--a-source", "tmem"},
    {"golden", "--layout-b", "k-major:64"},
    {"encode idesc", "--scale-a-id", "2"},
    {"encode idesc", "--scale-b-id", "2"},
    {"encode instruction", "--a", "bf16 --b bf16"},
    {"encode instruction", "--b", "bf16 --a bf16"},
    {"layout fragment", "--operand", "c"},
    {"layout tmem", "--operand", "a"},
    {"layout tmem", "--address", "16"},
    {"layout scales", "--address", "16"},
};

/// Flags of quantities that have one legal value there: ids of .scale_vec::4X, D beside --n.
const std::set<std::string> with_one_value{"golden --scale-a-id", "golden --scale-b-id", "layout tmem --operand"};

}  // namespace

TEST_CASE("a flag that has no place is refused with its default as with any other value") {
  std::ostringstream out, err;
  cli::Command program("", "bitmma");
  cli::Context context{.terminal = {.out = out, .err = err}, .program = &program};
  cli::add_commands(program, context);
  Bench bench;
  std::string failed;
  const int every = test::amount(13, 1, 1);
  int tried = 0, refused = 0, taken = 0;
  for_each_verb(program, "", [&](const std::string& verb, const CLI::App& command) {
    std::string unknown;
    const std::vector<TriedFlag> flags = flags_of(verb, command, unknown);
    for (const Base& base : bases) {
      if (base.verb != verb) continue;
      for (const TriedFlag& flag : flags) {
        const std::string standard = with_default(*command.get_option(flag.name));
        if (standard.empty() || (" " + base.words + " ").find(" " + flag.name + " ") != std::string::npos) continue;
        if (tried++ % every != 0) continue;
        std::vector<std::string> others = flag.words;
        for (const Sample& sample : more_samples)
          if (sample.verb == verb && sample.flag == flag.name) others.push_back(flag.name + " " + sample.value);
        const bool is_refused = std::ranges::all_of(others, [&](const std::string& words) {
          return words == standard || bench.run(verb, base.words + " " + words).refused();
        });
        const Seen seen = bench.run(verb, base.words + " " + standard);
        (seen.refused() ? refused : taken) += 1;
        if (is_refused && !seen.refused() && !with_one_value.contains(verb + " " + flag.name))
          failed += verb + " " + base.words + " " + standard + ": taken, where no other value is\n";
        if (seen.refused() && !seen.files.empty()) failed += verb + " " + standard + ": refused behind a file\n";
      }
    }
  });
  INFO(failed);
  CHECK(failed.empty());
  CHECK(refused > test::amount(0, 50, 50));
  CHECK(taken > test::amount(0, 50, 50));
}
