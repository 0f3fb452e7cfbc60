// Calls of libraries that lab/record_products.py recorded on an H100 and an H200: data/products/recorded.tar.xz.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <regex>

#include "bitmma/acts/product_file.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "bitmma/gemm/find.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/documents.hpp"
#include "support/files.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;

namespace {

using Codes = std::vector<std::pair<ViolationCode, std::string>>;

/// The code and field of each violation with which a call is refused.
Codes codes(const std::function<void()>& call) {
  Codes violations;
  try {
    call();
  } catch (const Error& error) {
    for (const Violation& violation : error.violations()) violations.emplace_back(violation.code, violation.field);
  }
  return violations;
}

/// Every how many-th file is taken.
const size_t stride = test::amount<size_t>(23, 1, 1);

std::vector<std::string> recorded_files() {
  std::vector<std::string> files;
  for (const char* gpu : {"h100", "h200", "h200_random"}) {
    for (const auto& entry : std::filesystem::directory_iterator(test::oracle_path(gpu)))
      files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

/// The family of kernels, in few words.
std::string family_of(const std::string& kernel) {
  static const std::vector<std::pair<std::regex, std::string>> families = [] {
    std::vector<std::pair<std::regex, std::string>> rows;
    for (const auto& [pattern, name] : std::vector<std::pair<const char*, const char*>>{
             {"^triton", "Triton"},
             {"nvjet_\\S*(Ablk128|Avec128)", "nvjet, fp8, scales of blocks"},
             {"nvjet_\\S*_algo2\\S*splitK", "nvjet algo2, split-K"},
             {"nvjet_\\S*_algo2", "nvjet algo2"},
             {"nvjet_\\S*splitK", "nvjet, split-K"},
             {"nvjet_\\S*badd", "nvjet, added to C"},
             {"nvjet_", "nvjet"},
             {"segment_k_on", "xmma, segment-K"},
             {"xmma_gemm_f32f32_tf32", "xmma, tf32"},
             {"xmma_gemm_f16f16", "xmma, f16 accumulators"},
             {"d884|f64f64", "f64"},
             {"i16832|i8i32", "s8"},
             {"cutlass_\\S*_h\\d+gemm", "cutlass, f16 accumulators"},
             {"cutlass_80_tensorop_s1688gemm", "cutlass_80 s1688, tf32"},
             {"cutlass_\\d+_tensorop", "cutlass, 16 bit"},
             {"cutlass_\\d+_wmma", "cutlass wmma, 16 bit"}})
      rows.emplace_back(std::regex(pattern), name);
    return rows;
  }();
  for (const auto& [pattern, name] : families) {
    if (std::regex_search(kernel, pattern)) return name;
  }
  return "CUDA cores: sgemm, gemv, gemmSN, dot";
}

struct Tally {
  int calls = 0, same = 0, outputs = 0;
  std::map<std::string, int> plans;
};

std::string short_plan(const GemmPlan& plan) {
  std::string text = print_plan(plan);
  // Counts and units differ from call to call.
  text = std::regex_replace(text, std::regex("split-K \\d+ \\((\\w+), unit \\d+\\)"), "split-K ($1)");
  text = std::regex_replace(text, std::regex(", tile \\d+"), "");
  return text;
}

}  // namespace

TEST_CASE("every recorded call that has a plan is its plan's, bit for bit", "[rule:products]") {
  const std::vector<std::string> files = recorded_files();
  REQUIRE(files.size() == 2059);
  std::map<std::string, Tally> families;
  std::mutex mutex;
  std::string wrong;
  parallel_for((files.size() + stride - 1) / stride, 2, [&](size_t i) {
    const ProductFile product = read_product_file(files[i * stride]);
    const std::string* const text = product.file.find_metadata("plan");
    const std::string& kernel = *product.file.find_metadata("kernel");
    bool same = false;
    std::string plan_text;
    if (text) {
      const GemmPlan plan = parse_plan(*text);
      plan_text = short_plan(plan);
      same = gemm(plan, product.inputs) == *product.d;
    }
    const std::lock_guard lock(mutex);
    if (text && !same) wrong += files[i * stride] + "\n";
    Tally& tally = families[family_of(kernel)];
    ++tally.calls, tally.same += same, tally.outputs += static_cast<int>(product.d->size());
    if (same) ++tally.plans[plan_text];
  });
  CHECK(wrong.empty());
  if (stride > 1) return;
  std::string table = "| kernels | calls | every bit | outputs | most frequent plans |\n|---|---|---|---|---|\n";
  Tally all, tensor;
  for (const auto& [family, tally] : families) {
    std::vector<std::pair<int, std::string>> plans;
    for (const auto& [plan, count] : tally.plans) plans.emplace_back(-count, plan);
    std::ranges::sort(plans);
    std::string shown;
    for (size_t i = 0; i < std::min<size_t>(plans.size(), 2); ++i)
      shown += fmt::format("{}{} ({})", i == 0 ? "" : "; ", plans[i].second, -plans[i].first);
    table += fmt::format("| {} | {} | {} | {} | {} |\n", family, tally.calls, tally.same, tally.outputs, shown);
    all.calls += tally.calls, all.same += tally.same, all.outputs += tally.outputs;
    if (!family.starts_with("CUDA")) tensor.calls += tally.calls, tensor.same += tally.same;
  }
  table += fmt::format("| all | {} | {} | {} | |\n", all.calls, all.same, all.outputs);
  table += fmt::format("| on tensor cores | {} | {} | | |\n", tensor.calls, tensor.same);
  CHECK(tensor.same * 100 >= tensor.calls * 99);
  for (const char* page : {"README.md", "docs/evidence.md"})
    CHECK_THAT(test::read_text(test::source_path(page)),
               ContainsSubstring(fmt::format("{} of {} recorded calls", tensor.same, tensor.calls)));
  test::check_generated("docs/evidence.md", "<!-- recorded calls -->", "<!-- end of recorded calls -->", table);
}

TEST_CASE("the names of kernels lead to the plans of recorded calls", "[rule:products]") {
  const std::vector<std::string> files = recorded_files();
  const size_t every = 7 * stride;
  std::atomic<int> known{0};
  std::mutex mutex;
  std::string wrong;
  parallel_for((files.size() + every - 1) / every, 2, [&](size_t i) {
    const ProductFile product = read_product_file(files[i * every]);
    const std::string& kernel = *product.file.find_metadata("kernel");
    if (!product.file.find_metadata("plan") || product.file.find_metadata("plan_from") || kernel.starts_with("triton"))
      return;
    CatalogueOptions options{.alpha = product.alpha, .beta = product.beta};
    std::vector<GemmPlan> plans = plans_of_kernel(kernel, product.inputs, *product.output(), options);
    options.relu = true;
    for (GemmPlan& plan : plans_of_kernel(kernel, product.inputs, *product.output(), options)) plans.push_back(plan);
    const bool has_plan = !try_plans(plans, product.inputs, *product.d).all_bits.empty();
    ++known;
    const std::lock_guard lock(mutex);
    if (!has_plan) wrong += files[i * every] + "\n";
  });
  CHECK(wrong.empty());
  CHECK(known > static_cast<int>(150 / stride));
}

TEST_CASE("plans of recorded calls are found from their bits alone", "[rule:products][long]") {
  const std::vector<std::string> files = recorded_files();
  const size_t every = 101 * (stride > 1 ? 8 : 1);
  int with_plan = 0, tried = 0;
  for (size_t i = 50; i < files.size(); i += every) {
    const ProductFile product = read_product_file(files[i]);
    if (!product.file.find_metadata("plan")) continue;
    const PlanSearch search =
        find_plans(product.inputs, *product.d, {.threads = 2, .alpha = product.alpha, .beta = product.beta});
    INFO(files[i]);
    CHECK_FALSE(search.all_bits.empty());
    with_plan += !search.all_bits.empty(), ++tried;
  }
  CHECK(with_plan == tried);
  CHECK(tried >= (stride > 1 ? 1 : 10));
}

TEST_CASE("chunks of gemv2T follow from the numbers of its name, and numbers that were not measured are refused") {
  const GemmInputs inputs{.a = Matrix(Format::tf32, 1, 448), .b = Matrix(Format::tf32, 448, 8)};
  const auto plans = [&](std::string_view numbers) {
    return plans_of_kernel(
        fmt::format("void gemv2T_kernel_val<int, int, float, float, float, float, {}, cublasGemvParamsEx<int>>",
                    numbers),
        inputs, Format::f32);
  };
  for (const auto& [numbers, chunk] :
       {std::pair("128, 16, 4, 4, false, false", 32), {"128, 16, 2, 2, false, false", 16}}) {
    REQUIRE(plans(numbers).size() == 1);
    CHECK(plans(numbers).front().chain ==
          std::variant<TensorCoreChain, CudaCoreChain>(CudaCoreChain{.count = 16, .chunk = chunk}));
  }
  for (const char* numbers :
       {"128, 16, 8, 8, false, false", "128, 16, 4, 2, false, false", "128, 32, 4, 4, false, false",
        "256, 16, 4, 4, false, false", "128, 16, 4, 4, true, false"})
    CHECK_THROWS_AS(plans(numbers), Error);
}

Format format_or_fail(std::string_view name) {
  const std::optional<Format> format = format_named(name);
  REQUIRE(format);
  return *format;
}

/// Operands of the two types that a row of the catalogue names: "e4m3 x e5m2".
GemmInputs operands_named(const std::string& types, int k) {
  const auto format = [&](std::string_view name) { return name == "f32" ? Format::tf32 : format_or_fail(name); };
  const size_t at = types.find(" x ");
  return {.a = Matrix(format(types.substr(0, at)), 2, k), .b = Matrix(format(types.substr(at + 3)), k, 3)};
}

/// The types of a row in few words: "e4m3 x e4m3: f32, bf16 (measured: H100), f16".
std::string print_types(const CataloguePlan& row) {
  std::string text;
  for (size_t i = 0; i < row.types.size(); ++i) {
    const PlanTypes& types = row.types[i];
    const bool is_new = i == 0 || row.types[i - 1].operands != types.operands,
               is_last_of_evidence = i + 1 == row.types.size() || row.types[i + 1].operands != types.operands ||
                                     row.types[i + 1].evidence != types.evidence;
    if (is_new) text += fmt::format("{}{}", i == 0 ? "" : "; ", types.operands);
    if (!types.d.empty()) text += fmt::format("{} {}", is_new ? ":" : ",", types.d);
    if (is_last_of_evidence) text += fmt::format(" ({})", print(types.evidence));
  }
  return text;
}

TEST_CASE("a plan by name takes the types and GPUs of its row, and its evidence is that of both") {
  constexpr std::array some{Format::f16, Format::bf16, Format::tf32, Format::f64, Format::e4m3, Format::s8};
  const auto refused = [](const CataloguePlan& row, const GemmInputs& inputs, std::optional<Target> target,
                          std::string_view field) {
    try {
      plans_named(row.name, inputs, {}, {.target = target, .split_count = row.open_count ? 2 : 0});
    } catch (const Error& error) {
      const Violation& violation = error.violations().front();
      return violation.code == ViolationCode::contradiction && violation.field == field && !violation.legal.empty();
    }
    return false;
  };
  for (const CataloguePlan& row : catalogue()) {
    INFO(row.name);
    REQUIRE_FALSE(row.types.empty());
    const int k = row.most_k > 0 ? static_cast<int>(row.most_k) : 512;
    const auto how = [&](const GemmInputs& inputs, Format d, Target target) {
      return plans_named(row.name, inputs, d, {.target = target, .split_count = row.open_count ? 2 : 0})
          .front()
          .evidence.at("plan");
    };
    bool takes_any = false, has_strongest = false;
    std::vector<std::string> pairs;
    for (const PlanTypes& types : row.types) {
      if (types.operands == "any") takes_any = true;
      const bool is_strongest = types.evidence.level == row.evidence.level &&
                                (types.evidence.gpus == row.evidence.gpus || types.evidence.gpus.empty());
      if (is_strongest) has_strongest = true;
      if (types.operands.find(" x ") == std::string::npos) continue;
      pairs.push_back(types.operands);
      const GemmInputs inputs = operands_named(types.operands, k);
      INFO(types.operands << " " << types.d);
      if (types.d.empty() || types.d == "any") {
        const FieldEvidence evidence = how(inputs, Format::bf16, row.target);
        CHECK(((types.d.empty() && evidence.level == EvidenceLevel::model_choice) || evidence == types.evidence));
      } else {
        CHECK(how(inputs, format_or_fail(types.d), row.target) == types.evidence);
        if (types.d == "f32") {
          const FieldEvidence other = how(inputs, Format::e5m2, row.target);
          CHECK(other.level == EvidenceLevel::model_choice);
          CHECK(other.note.starts_with("D e5m2"));
        }
      }
    }
    CHECK(has_strongest);
    for (const Format type : some) {
      const std::string_view name = info(type == Format::tf32 ? Format::f32 : type).name;
      const bool known = std::ranges::find(pairs, fmt::format("{} x {}", name, name)) != pairs.end();
      if (known || takes_any) continue;
      INFO(name);
      CHECK(refused(row, {.a = Matrix(type, 2, k), .b = Matrix(type, k, 3)}, {}, "types"));
    }
    const GemmInputs own = operands_named(pairs.front(), k);
    const Format d = row.types.front().d == "any" ? Format::f32 : format_or_fail(row.types.front().d);
    const Target other = info(row.target).chip == Target::sm_90 ? Target::sm_89 : Target::sm_90a;
    if (!row.gpus.empty()) CHECK(refused(row, own, other, "target"));
    else CHECK(level_on(how(own, d, other), other) == EvidenceLevel::model_choice);
    if (row.gpus == "sm_90 and later")
      CHECK(level_on(how(own, d, Target::sm_100a), Target::sm_100a) == EvidenceLevel::model_choice);
    if (row.gpus == "sm_90") CHECK(refused(row, own, Target::sm_100a, "target"));
    if (row.most_k > 0) {
      const GemmInputs longer = operands_named(pairs.front(), k + 1);
      CHECK(how(longer, Format::f32, row.target).level == EvidenceLevel::model_choice);
    }
  }
  // mma.sync of fp8 does not add as wgmma does, which libraries take; that of f16 does.
  const GemmInputs fp8 = operands_named("e4m3 x e4m3", 512), f16 = operands_named("f16 x f16", 512);
  const auto on_sm_90 = [](const GemmInputs& inputs) {
    return print(plans_named("flat", inputs, {}, {.target = Target::sm_90}).front().evidence.at("plan"), Target::sm_90);
  };
  CHECK(on_sm_90(f16) == "measured: H100, H200");
  CHECK(on_sm_90(fp8) == "model choice on sm_90; on sm_90a measured: H100, H200");
  // CUDA cores need no tensor-core instruction of the operands.
  CHECK(plans_named("sgemm", operands_named("f32 x f32", 512), {}, {.target = Target::sm_70}).front().cuda_cores());
}

TEST_CASE("what the catalogue calls measured, a recorded call of that GPU has with these types",
          "[rule:products][long]") {
  const auto words = [](const std::string& text) { return std::regex_replace(text, std::regex(" 80GB HBM3"), ""); };
  // Of a plan what does not differ from call to call.
  const auto family = [](GemmPlan plan) {
    plan.name.clear(), plan.evidence.clear();
    const bool rounds =
        std::ranges::any_of(plan.epilogue, [](const EpilogueOp& op) { return op.kind == EpilogueKind::round; });
    plan.epilogue.clear();
    if (rounds) plan.epilogue.push_back({.kind = EpilogueKind::round});
    if (!plan.regions.empty() && plan.regions.front().first_tile == 0) {  // all tiles are cut
      plan.split_k = plan.regions.front().split_k, plan.reduction = plan.regions.front().reduction;
      plan.regions.clear();
    }
    plan.tile_mn = GemmPlan{}.tile_mn, plan.raster_n = false, plan.saturate.reset();
    if (plan.split_k.count <= 1) plan.split_k = {}, plan.reduction = {};
    else plan.split_k.count = 2, plan.split_k.unit = 1;
    return plan;
  };
  const std::map<std::string, std::regex> kernels{{"nvjet", std::regex("nvjet")},
                                                  {"cutlass", std::regex("cutlass|splitKreduce")},
                                                  {"xmma", std::regex("xmma")},
                                                  {"triton", std::regex("^triton")},
                                                  {"sgemm", std::regex("sgemm|f32f32_f32f32")},
                                                  {"gemv", std::regex("gem[vm]")}};
  std::map<std::string, int> seen;  // "row operands d GPU" -> calls
  std::vector<std::string> files = recorded_files();
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("data/products")))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
  for (const std::string& file : files) {
    const ProductFile product = read_product_file(file);
    const std::string* const text = product.file.find_metadata("plan");
    if (!text || !text->starts_with('{')) continue;
    const std::string& kernel = *product.file.find_metadata("kernel");
    const GemmPlan recorded = parse_plan(*text);
    const std::string gpu = words(*product.file.find_metadata("gpu"));
    for (const CataloguePlan& row : catalogue()) {
      if (row.evidence.level != EvidenceLevel::measured) continue;
      if ((row.fields.find("memory") != std::string::npos) == family(recorded).epilogue.empty()) continue;
      const auto rule = kernels.find(row.name.substr(0, row.name.find('-')));
      if (rule != kernels.end() && !std::regex_search(kernel, rule->second)) continue;
      std::vector<GemmPlan> plans;
      try {
        plans = plans_named(row.name, product.inputs, product.d->format(),
                            {.split_count = row.open_count ? 2 : 0, .alpha = product.alpha, .beta = product.beta});
      } catch (const Error&) {
        continue;  // other types, or K too short
      }
      const auto plan = family(plans.front());
      GemmPlan recorded_plan = family(recorded);
      if (row.most_k > 0 && recorded_plan.cuda_cores() && product.inputs.a.cols() <= row.most_k)
        std::get<CudaCoreChain>(recorded_plan.chain).chunk = 0;
      if (recorded_plan.tensor_cores() && recorded_plan.tensor().promotion &&
          row.fields.find("\"sb\"") == std::string::npos)
        recorded_plan.tensor().promotion->columns_of_sb = 0;  // the scales of the call say it
      const auto name = [](Format format) { return info(format == Format::tf32 ? Format::f32 : format).name; };
      if (plan == recorded_plan)
        ++seen[fmt::format("{}: {} x {} into {}, {}", row.name, name(product.inputs.a.format()),
                           name(product.inputs.b.format()), info(product.d->format()).name,
                           gpu.substr(gpu.rfind(' ') + 1))];
    }
  }
  std::string unseen, unsaid;
  std::map<std::string, int> claims;
  for (const CataloguePlan& row : catalogue()) {
    for (const PlanTypes& types : row.types) {
      for (const char* gpu : {"H100", "H200"}) {
        if (types.evidence.level != EvidenceLevel::measured || types.evidence.gpus.find(gpu) == std::string::npos)
          continue;
        const std::string claim = fmt::format("{}: {} into {}, {}", row.name, types.operands, types.d, gpu);
        claims[claim] = 1;
        if (!seen.contains(claim)) unseen += claim + "\n";
      }
    }
  }
  for (const auto& [claim, calls] : seen) {
    if (!claims.contains(claim)) unsaid += fmt::format("{} ({})\n", claim, calls);
  }
  CHECK(unseen == "");
  CHECK(unsaid == "");
  CHECK(claims.size() > 80);
}

TEST_CASE("the catalogue's plans are legal where they say, and its names and patterns can be used") {
  for (const CataloguePlan& row : catalogue()) {
    INFO(row.name);
    CHECK_FALSE(row.about.empty());
    CHECK_FALSE(row.source.empty());
    const bool scaled = row.fields.find("scale") != std::string::npos;
    GemmInputs inputs = operands_named(row.types.front().operands, 512);
    if (scaled) inputs.scale_a = Matrix(Format::f32, 2, 4), inputs.scale_b = Matrix(Format::f32, 4, 3);
    const bool one_column = row.fields.find("\"sb\":[128,128]") != std::string::npos;
    if (one_column) inputs.scale_b = Matrix(Format::f32, 4, 1);
    const std::vector<GemmPlan> plans = plans_named(row.name, inputs, Format::f16, {.target = row.target});
    REQUIRE_FALSE(plans.empty());
    CHECK((plans.size() > 1) == row.open_count);
    for (const GemmPlan& plan : plans) REQUIRE(violations_of(plan).empty());
    CHECK_NOTHROW(gemm(plans.front(), inputs));
  }
  const GemmInputs inputs{.a = Matrix(Format::bf16, 1, 4096), .b = Matrix(Format::bf16, 4096, 1)};
  std::string table = "| name | what | GPUs | operands: D (evidence) | source |\n|---|---|---|---|---|\n";
  for (const CataloguePlan& row : catalogue())
    table += fmt::format("| `{}`{} | {}; `{}` | {} | {} | {} |\n", row.name, row.open_count ? ", slices open" : "",
                         row.about, row.fields, row.gpus.empty() ? "all" : row.gpus, print_types(row), row.source);
  test::check_table("plan_names", table);
  table = "| pattern | what | fields | evidence |\n|---|---|---|---|\n";
  for (const KernelPattern& row : kernel_patterns()) {
    const std::string pattern = std::regex_replace(row.pattern, std::regex("\\|"), "\\|");
    const std::string names = "`" + pattern + "`" + (row.unless.empty() ? "" : ", without `" + row.unless + "`");
    table += fmt::format("| {} | {} | `{}` | {} |\n", names, row.about, row.fields, print(row.evidence));
  }
  test::check_table("kernel_patterns", table);
  table = "| pattern | what | A | B | D | evidence |\n|---|---|---|---|---|---|\n";
  for (const TypePattern& row : type_patterns()) {
    const std::string pattern = std::regex_replace(row.pattern, std::regex("\\|"), "\\|");
    table += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", pattern, row.about, row.a, row.b, row.d,
                         print(row.evidence));
  }
  test::check_table("type_patterns", table);
  CHECK_THROWS_AS(plans_named("nvjets", inputs, Format::f32), Error);
  CHECK_THROWS_AS(plans_of_kernel("ampere_sgemm", inputs, Format::f32), Error);
  const auto plans =
      plans_of_kernel("nvjet_sm90_tst_64x32_64x16_4x2_h_bz_splitK_TNT", inputs, Format::bf16, {.split_count = 3});
  REQUIRE(plans.size() == 1);
  CHECK(print_plan(plans.front()) == "split-K 3 (nvjet, unit 64)");
}

TEST_CASE("the names of all recorded kernels tell their types, and refuse data and D of others", "[long]") {
  int known = 0;
  std::map<std::string, std::pair<std::string, KernelTypes>> families;  // a name of each
  for (const std::string& file : recorded_files()) {
    const ProductFile product = read_product_file(file);
    const std::string& kernel = *product.file.find_metadata("kernel");
    if (kernel.starts_with("triton") || kernel.find("dot_kernel") != std::string::npos) {
      CHECK_FALSE(types_of_kernel(kernel));  // their names tell none
      continue;
    }
    INFO(kernel);
    const std::optional<KernelTypes> types = types_of_kernel(kernel);
    REQUIRE(types);
    ++known;
    const auto data = [](Format format) { return format == Format::f32 ? Format::tf32 : format; };
    const Format a = product.inputs.a.format(), b = product.inputs.b.format();
    const bool fits = (a == data(types->a) && b == data(types->b)) || (a == data(types->b) && b == data(types->a));
    CHECK(fits);
    CHECK(product.d->format() == types->d);
    // Their names tell types but no plan: the lanes of the float kernel depend on N, those of double were not measured.
    const auto is_gemvx = [&](std::string_view arguments) {
      return kernel.find(fmt::format("gemvx::kernel<int, int, {}", arguments)) != std::string::npos;
    };
    if (is_gemvx("float, float, float, float, false, true, true, false, 9,") || is_gemvx("double,")) {
      CHECK(codes([&] { plans_of_kernel(kernel, product.inputs); }) ==
            Codes{{ViolationCode::unknown_kernel, "kernel"}});
      continue;
    }
    families.try_emplace(
        fmt::format("{} {} {} {}", family_of(kernel), info(types->a).name, info(types->b).name, info(types->d).name),
        kernel, *types);
  }
  CHECK(known == 2059 - 102 - 16);
  CHECK(families.size() > 20);
  constexpr std::array inputs{Format::f16,  Format::bf16, Format::tf32, Format::f64,
                              Format::e4m3, Format::e5m2, Format::s8};
  constexpr std::array outputs{Format::f32, Format::f16, Format::bf16, Format::f64, Format::e4m3, Format::s32};
  for (const auto& [family, row] : families) {
    const auto& [kernel, types] = row;
    INFO(kernel);
    for (const Format a : inputs) {
      const GemmInputs wrong{.a = Matrix(a, 2, 512), .b = Matrix(a, 512, 3)};
      const auto data = [](Format format) { return format == Format::f32 ? Format::tf32 : format; };
      if (a == data(types.a) && a == data(types.b)) continue;
      CHECK(codes([&] { plans_of_kernel(kernel, wrong); }) == Codes{{ViolationCode::contradiction, "a, b"}});
    }
    const auto data = [](Format format) { return format == Format::f32 ? Format::tf32 : format; };
    const GemmInputs right{.a = Matrix(data(types.a), 2, 512), .b = Matrix(data(types.b), 512, 3)};
    for (const Format d : outputs) {
      if (d == types.d) continue;
      CHECK(codes([&] { plans_of_kernel(kernel, right, d); }) == Codes{{ViolationCode::contradiction, "d"}});
    }
  }
  // Letters that were not recorded are not guessed.
  for (const char* name : {"nvjet_sm90_xsx_64x32_64x16_4x2_h_bz_TNT", "nvjet_sm90_hhh_64x32_64x16_4x2_h_bz_TNT",
                           "nvjet", "cutlass_80_tensorop_s1688gemm_tf32_128x128_32x3_tn_align4"})
    CHECK(codes([&] { plans_of_kernel(name, {.a = Matrix(Format::f16, 2, 512), .b = Matrix(Format::f16, 512, 3)}); }) ==
          Codes{{ViolationCode::unknown_kernel, "kernel"}});
}

TEST_CASE("names of kernels for GPUs before Hopper, as profilers print them, give types, chain and the oldest GPU") {
  struct Row {
    const char* kernel;
    Format operands;  // tf32: float32
    const char* plan;
    Format d;
    Target target;
  };
  for (const Row& row : {
           Row{"ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn", Format::bf16, "flat", Format::bf16,
               Target::sm_80},
           Row{"ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_relu_f2f_stages_64x5_tn", Format::bf16,
               "tile 64, sliced-K 2", Format::bf16, Target::sm_80},
           Row{"ampere_s16816gemm_fp16_128x128_ldg8_stages_32x5_nn", Format::f16, "flat", Format::f32, Target::sm_80},
           Row{"ampere_h16816gemm_128x128_ldg8_stages_32x5_nn", Format::f16, "f16 accumulators", Format::f16,
               Target::sm_80},
           Row{"turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_stages_32x1_nn", Format::f16, "flat", Format::f16,
               Target::sm_75},
           Row{"volta_s884gemm_fp16_128x128_ldg8_f2f_tn", Format::f16, "flat", Format::f32, Target::sm_70},
           Row{"ampere_sgemm_128x64_nn", Format::tf32, "CUDA cores", Format::f32, Target::sm_80},
           Row{"sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32_stage4", Format::f16, "flat", Format::f16,
               Target::sm_90a},
           Row{"sm86_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x64_stage3", Format::tf32, "inputs tf32_rne",
               Format::f32, Target::sm_86},
           // cuBLAS 11 and 12 print relu for kernels that can clamp.
           Row{"cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_nn_align8", Format::bf16,
               "residue first, tile 32", Format::bf16, Target::sm_90a},
           Row{"cutlass_80_tensorop_s1688gemm_relu_128x256_16x3_tn_align4", Format::tf32,
               "inputs tf32_rne, residue first, tile 16", Format::f32, Target::sm_90a},
       }) {
    INFO(row.kernel);
    const GemmInputs inputs{.a = Matrix(row.operands, 2, 128), .b = Matrix(row.operands, 128, 3)};
    const GemmPlan plan = only_plan(plans_for({.kernel = row.kernel}, inputs));
    CHECK(print_plan(plan) == row.plan);
    CHECK(plan.output == row.d);
    CHECK(plan.target == row.target);
    CHECK_THAT(plan.epilogue, Catch::Matchers::Equals(std::vector<EpilogueOp>{}));
    CHECK_NOTHROW(gemm(plan, inputs));
  }
  const GemmInputs f16{.a = Matrix(Format::f16, 2, 128), .b = Matrix(Format::f16, 128, 3)};
  const auto code_of = [&](const char* kernel, Target target) {
    return codes([&] { plans_for({.kernel = kernel, .options = {.target = target}}, f16); });
  };
  const char* const turing = "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn";
  CHECK(code_of(turing, Target::sm_70) == Codes{{ViolationCode::contradiction, "kernel"}});
  CHECK(code_of("cutlass_80_tensorop_f16_s16816gemm_f16_64x64_32x6_nn_align8", Target::sm_75) ==
        Codes{{ViolationCode::contradiction, "kernel"}});
  // The tile of K is not in the name.
  CHECK(code_of("turing_fp16_s1688gemm_fp16_128x64_sliced1x2_ldg8_f2f_tn", Target::sm_75) ==
        Codes{{ViolationCode::unknown_kernel, "kernel"}});
  // On a GPU whose instruction is longer the steps are those of the kernel.
  CHECK(print_plan(plans_for({.kernel = turing, .options = {.target = Target::sm_86}}, f16).front()) == "steps of 8");
}

TEST_CASE("a kernel's name that leaves open whether K is cut is taken as one slice, with that evidence") {
  const GemmInputs inputs{.a = Matrix(Format::bf16, 2, 1024), .b = Matrix(Format::bf16, 1024, 3)};
  const char* const kernel = "cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_nn_align8";
  CHECK(plans_for({.kernel = kernel}, inputs).size() > 1);
  const GemmPlan plan = only_plan(plans_for({.kernel = kernel}, inputs));
  CHECK(plan.split_k.count == 1);
  CHECK(plan.evidence.at("split_k").level == EvidenceLevel::model_choice);
  CHECK(codes([&] { only_plan(plans_for({.plan = "nvjet-splitK"}, inputs)); }) ==
        Codes{{ViolationCode::missing_argument, "split_k"}});
}

TEST_CASE("TF32 of cuBLAS 11 rounds ties away from zero: 1024.5 becomes 1025, as three reports of sm_86 say") {
  GemmInputs inputs{.a = Matrix(Format::tf32, 1, 1), .b = Matrix(Format::tf32, 1, 1)};
  inputs.a.set_code(0, 0, 0x44801000), inputs.b.set_code(0, 0, 0x3F800000);
  const GemmPlan away = plans_for({.plan = "xmma-tf32-rna"}, inputs).front();
  CHECK(away.target == Target::sm_86);
  CHECK(gemm(away, inputs).code(0, 0) == 0x44802000);  // 1025
  CHECK(gemm(plans_for({.plan = "xmma-tf32"}, inputs).front(), inputs).code(0, 0) == 0x44800000);
}

TEST_CASE("D of a named kernel has the name's type, and float32 without a plan is refused with the choices") {
  const GemmInputs bf16{.a = Matrix(Format::bf16, 2, 512), .b = Matrix(Format::bf16, 512, 3)};
  CHECK(plans_for({.kernel = "nvjet_sm90_tst_64x32_64x16_4x2_h_bz_TNT"}, bf16).front().output == Format::bf16);
  CHECK(plans_for({.kernel = "nvjet_sm90_tss_64x32_64x16_4x2_h_bz_TNT"}, bf16).front().output == Format::f32);
  const GemmInputs f32{.a = Matrix(Format::tf32, 2, 512), .b = Matrix(Format::tf32, 512, 3)};
  try {
    plans_for({}, f32);
    FAIL("no plan is needed");
  } catch (const Error& error) {
    CHECK(error.violations().front().legal == std::vector<std::string>{"sgemm", "xmma-tf32", "xmma-tf32-rna", "flat"});
  }
  for (const char* name : {"sgemm", "xmma-tf32", "xmma-tf32-rna", "flat"})
    CHECK(plans_for({.plan = name}, f32).size() == 1);
  // What contradicts a plan, or would not act on it.
  const GemmPlan plan = flat_plan(Target::sm_90a, Format::bf16, Format::bf16, Format::f32);
  CHECK(plans_for({.value = plan, .output = Format::f32, .options = {.target = Target::sm_90a}}, bf16).front() == plan);
  CHECK_THROWS_AS(plans_for({.value = plan, .output = Format::bf16}, bf16), Error);
  CHECK_THROWS_AS(plans_for({.value = plan, .options = {.target = Target::sm_80}}, bf16), Error);
  CHECK_THROWS_AS(plans_for({.value = plan, .options = {.split_count = 2}}, bf16), Error);
  CHECK_THROWS_AS(plans_for({.value = plan, .options = {.alpha = 2}}, bf16), Error);
  CHECK_THROWS_AS(plans_for({.plan = "flat", .options = {.split_count = 2}}, bf16), Error);
  CHECK_THROWS_AS(plans_for({.plan = "flat", .kernel = "nvjet_sm90_tst_64x32"}, bf16), Error);
  const GemmPlan moved = on_target(plans_for({}, bf16).front(), Target::sm_80);
  CHECK(level_on(moved.evidence.at("plan"), moved.target) == EvidenceLevel::model_choice);
}

TEST_CASE("what sm_90a does not multiply is taken for the first target that does") {
  GemmInputs fp4{.a = Matrix(Format::e2m1, 2, 64), .b = Matrix(Format::e2m1, 64, 3)};
  fp4.sfa = Matrix(Format::ue4m3, 2, 4), fp4.sfb = Matrix(Format::ue4m3, 4, 3);
  CHECK(default_target(fp4) == Target::sm_100a);
  CHECK(plans_for({}, fp4).front().target == Target::sm_100a);
  CHECK(default_target({.a = Matrix(Format::f16, 2, 64), .b = Matrix(Format::f16, 64, 3)}) == Target::sm_90a);
  CHECK_THROWS_AS(plans_for({.options = {.target = Target::sm_90a}}, fp4), Error);
  fp4.sfa.reset(), fp4.sfb.reset();  // forgotten, perhaps
  CHECK_THROWS_AS(plans_for({}, fp4), Error);
}

TEST_CASE("the plan of every recorded call is found from its bits", "[rule:products]") {
  for (const char* name :
       {"nvjet_split3_bf16_k4096", "nvjet_algo2_e4m3_k1024", "cutlass80_split6_bf16_k1000", "cutlass75_bf16_k264",
        "cutlass80_tf32_k264", "xmma_tf32_k1024", "nvjet_fast_e4m3_bf16_k1024"}) {
    const ProductFile product =
        read_product_file(test::source_path(std::string("data/products/") + name + ".safetensors"));
    const PlanSearch search = find_plans(product.inputs, *product.d, {.threads = 2});
    INFO(name);
    REQUIRE_FALSE(search.all_bits.empty());
    CHECK(gemm(search.all_bits.front(), product.inputs) == *product.d);
  }
}
