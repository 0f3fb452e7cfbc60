// Rules about the project itself that a compiler does not check.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "bitmma/acts/benchmark.hpp"
#include "bitmma/analysis/list_forms.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "cli.hpp"
#include "support/catch.hpp"
#include "support/documents.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

/// A component: its folders, lowest first, and the components that it may use, as cmake/components.cmake says.
struct Component {
  std::string name;
  std::vector<std::string> folders;
  std::set<std::string> uses;
};

/// The components of cmake/components.cmake, lowest first, each with what those that it uses may use.
std::vector<Component> components() {
  std::vector<Component> all;
  std::istringstream lines(test::read_text(test::source_path("cmake/components.cmake")));
  const std::string begin = "bitmma_component(";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(begin)) continue;
    std::istringstream words(line.substr(begin.size(), line.find(')') - begin.size()));
    Component component;
    words >> component.name;
    bool is_folder = false;
    for (std::string word; words >> word;) {
      if (word == "FOLDERS" || word == "USES") {
        is_folder = word == "FOLDERS";
      } else if (is_folder) {
        component.folders.push_back(word);
      } else {
        component.uses.insert(word);
        for (const Component& below : all) {
          if (below.name == word) component.uses.insert(below.uses.begin(), below.uses.end());
        }
      }
    }
    all.push_back(component);
  }
  return all;
}

/// Sources and headers below `folder`, as paths relative to the project.
std::vector<std::string> sources_below(const std::string& folder) {
  std::vector<std::string> paths;
  const std::filesystem::path root = test::source_path("");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_path(folder))) {
    const std::string extension = entry.path().extension().string();
    const bool is_source = extension == ".cpp" || extension == ".hpp" || extension == ".h" || extension == ".c";
    if (!entry.is_regular_file() || !is_source) continue;
    paths.push_back(std::filesystem::relative(entry.path(), root).string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// The project's own files that `path` includes: in quotes, by bitmma/ or relative to the file or to sim.
std::vector<std::string> includes_of(const std::string& path) {
  std::vector<std::string> includes;
  std::istringstream lines(test::read_text(test::source_path(path)));
  for (std::string line; std::getline(lines, line);) {
    const std::string start = "#include \"";
    if (!line.starts_with(start)) continue;
    const std::string name = line.substr(start.size(), line.find('"', start.size()) - start.size());
    const auto folder = std::filesystem::path(path).parent_path();
    for (const auto& candidate :
         {std::filesystem::path("include") / name, folder / name, std::filesystem::path("sim") / name}) {
      const std::string normal = candidate.lexically_normal().string();
      if (!std::filesystem::exists(test::source_path(normal))) continue;
      includes.push_back(normal);
      break;
    }
  }
  return includes;
}

/// The folder of a file below sim or include/bitmma: "memory" of "include/bitmma/memory/smem.hpp".
std::string folder_of(const std::string& path) {
  if (path == "include/bitmma.h") return "c_api";
  const std::string rest = path.substr(path.starts_with("sim/") ? 4 : std::string("include/bitmma/").size());
  return rest.substr(0, rest.find('/'));
}

/// The component that has `folder`. Fails the test if none has.
const Component& component_of(const std::vector<Component>& all, const std::string& folder) {
  for (const Component& component : all) {
    if (std::ranges::find(component.folders, folder) != component.folders.end()) return component;
  }
  FAIL("no component of cmake/components.cmake has the folder " << folder);
  return all.front();
}

}  // namespace

TEST_CASE("a file includes its own component and those that it uses, and of its own component folders below its own") {
  const std::vector<Component> all = components();
  REQUIRE(all.size() == 9);
  int files = 0, includes = 0;
  for (const char* root : {"include/bitmma", "sim"}) {
    for (const std::string& path : sources_below(root)) {
      if (path == "include/bitmma/bitmma.hpp") continue;  // where a user begins: it names all
      ++files;
      const std::string folder = folder_of(path);
      const Component& component = component_of(all, folder);
      for (const std::string& included : includes_of(path)) {
        INFO(path << " includes " << included);
        const std::string other = folder_of(included);
        if (component_of(all, other).name == component.name) {
          CHECK(std::ranges::find(component.folders, other) <= std::ranges::find(component.folders, folder));
        } else {
          CHECK(component.uses.contains(component_of(all, other).name));
        }
        CHECK_FALSE((path.starts_with("include/") && included.starts_with("sim/")));
        ++includes;
      }
    }
  }
  CHECK(files > 100);
  CHECK(includes > 300);
}

TEST_CASE("a test includes what its component may use, and each component has its page and its tests") {
  const std::vector<Component> all = components();
  for (const Component& component : all) {
    INFO(component.name);
    CHECK(test::read_text(test::source_path("docs/components/" + component.name + ".md")).size() > 500);
    if (component.name == "c_api") continue;  // its tests call it from outside
    std::vector<std::string> tested = component.folders;
    if (component.name == "acts") tested.push_back("recorded");
    int files = 0;
    for (const std::string& folder : tested) {
      for (const std::string& path : sources_below("tests/" + folder)) {
        ++files;
        for (const std::string& included : includes_of(path)) {
          if (!included.starts_with("sim/") && !included.starts_with("include/bitmma/")) continue;
          INFO(path << " includes " << included);
          const std::string& other = component_of(all, folder_of(included)).name;
          CHECK((other == component.name || component.uses.contains(other)));
        }
      }
    }
    CHECK(files > 0);
  }
}

TEST_CASE("no headers include each other in a circle") {
  std::map<std::string, int> colour;  // 1: on the way, 2: done
  const std::function<void(const std::string&)> visit = [&](const std::string& path) {
    colour[path] = 1;
    for (const std::string& included : includes_of(path)) {
      INFO(path << " includes " << included);
      REQUIRE(colour[included] != 1);
      if (colour[included] == 0) visit(included);
    }
    colour[path] = 2;
  };
  for (const char* root : {"include/bitmma", "sim", "tools/bitmma"}) {
    for (const std::string& path : sources_below(root)) {
      if (colour[path] == 0) visit(path);
    }
  }
  CHECK(colour.size() > 100);
}

TEST_CASE("no public header names Eigen, fmt or JSON") {
  for (const std::string& path : sources_below("include")) {
    INFO(path);
    const std::string text = test::read_text(test::source_path(path));
    for (const char* name : {"<Eigen", "<fmt", "<nlohmann", "<CLI"}) CHECK(text.find(name) == std::string::npos);
  }
}

// One function takes an Instruction apart (family::dispatch), and calls what every family supplies. Whoever asks which
// family an instruction is of would have to be changed for the next one.
TEST_CASE("outside the folders of the families fewer than 21 lines ask which family an instruction is of",
          "[unsanitized]") {
  const std::regex question(
      R"re((holds_alternative|get_if|get)<(Wgmma|MmaSync|Tcgen05Mma|TmemMove|OwnerOf)|std::visit\(.*[iI]nstruction)re"
      R"re(|[Ff]amily(_of\([^()]*\)|\(\))? [!=]= |[!=]= (\w+(\.|->|::))*(Family::|family\b)|is_tcgen05|has_images|vectors\.move)re");
  const std::vector<std::string> families{"wgmma", "mma_sync", "tcgen05", "tmem_move"};
  std::vector<std::string> questions;
  for (const char* root : {"sim", "tools", "lab"}) {
    for (const std::string& path : sources_below(root)) {
      const bool of_family = std::any_of(families.begin(), families.end(), [&](const std::string& family) {
        // A survey's question is about one instruction, as a kernel is.
        return path.starts_with("sim/instruction/" + family + "/") || path.starts_with("sim/hardware/kernels/") ||
               path.starts_with("sim/survey/questions");
      });
      if (of_family) continue;
      std::istringstream lines(test::read_text(test::source_path(path)));
      for (std::string line; std::getline(lines, line);) {
        const std::string code = line.substr(0, line.find("//"));
        if (std::regex_search(code, question)) questions.push_back(path + ": " + line);
      }
    }
  }
  std::string all;
  for (const std::string& line : questions) all += line + "\n";
  INFO(all);
  CHECK(questions.size() < 21);
}

TEST_CASE("the library is a guest: each header of POSIX has its files, and no call is Linux' or changes the process",
          "[unsanitized]") {
  // Files and child processes, and the driver that is loaded. Everything else is standard C++.
  const std::map<std::string, std::set<std::string>> users{
      {"dlfcn.h", {"sim/hardware/driver.cpp"}},
      {"fcntl.h", {"sim/files/input_file.cpp", "sim/files/write_whole.cpp", "sim/hardware/child.cpp"}},
      {"poll.h", {"sim/files/input_file.cpp", "sim/files/write_whole.cpp"}},
      {"regex.h", {"sim/gemm/name_pattern.hpp"}},
      {"spawn.h", {"sim/hardware/child.cpp"}},
      {"sys/resource.h", {"sim/files/write_whole.cpp"}},
      {"sys/stat.h", {"sim/files/input_file.cpp", "sim/files/write_whole.cpp"}},
      {"sys/wait.h", {"sim/hardware/child.cpp"}},
      {"unistd.h",
       {"sim/files/system.hpp", "sim/hardware/child.cpp", "sim/survey/process.cpp", "sim/survey/run_survey.cpp"}},
  };
  const std::set<std::string> everywhere{"fmt/format.h", "fmt/ranges.h", "stddef.h",   "stdint.h",
                                         "stdio.h",      "immintrin.h",  "arm_neon.h", "bitmma.h"};
  const std::regex include(R"(#include <([\w/.]+\.h)>)"),
      foreign(R"(\b(mmap|munmap|mremap|madvise|fallocate|prctl|memfd_create|sigaction|signal)\(|O_TMPFILE|/proc/self)");
  std::map<std::string, std::set<std::string>> actual_users;
  for (const char* root : {"include", "sim"}) {
    for (const std::string& path : sources_below(root)) {
      const std::string text = test::read_text(test::source_path(path));
      if (path.starts_with("sim/driver/")) continue;  // a library that takes another's place in a process on Linux
      for (std::sregex_iterator at(text.begin(), text.end(), include), end; at != end; ++at)
        if (everywhere.count((*at)[1]) == 0) actual_users[(*at)[1]].insert(path);
      INFO(path);
      CHECK_FALSE(std::regex_search(text, foreign));
    }
  }
  CHECK(actual_users == users);
}

TEST_CASE("every file that computes with the host's floats sets their environment, or a file that calls it does",
          "[unsanitized]") {
  // A file with float operations but no environment, and the file whose environment its callers are in.
  const std::map<std::string, std::string> callers{
      {"sim/acts/run_operator.cpp", "sim/operators/row_lanes.cpp"},
      {"sim/arithmetic/kernels/fma_chain.hpp", "sim/arithmetic/kernels/dispatch.cpp"},
      {"sim/arithmetic/kernels/vector.hpp", "sim/arithmetic/kernels/dispatch.cpp"},
      {"sim/arithmetic/kernels/warp.hpp", "sim/arithmetic/kernels/dispatch.cpp"},
      {"sim/arithmetic/what_if.cpp", "sim/analysis/explain.cpp"},
      {"sim/arithmetic/what_if.hpp", "sim/analysis/explain.cpp"},
      {"sim/core/fmt.cpp", "sim/formats/format.cpp"},
      {"sim/core/json_reader.hpp", "sim/core/json_reader.cpp"},
      {"sim/formats/sixteen_bits.hpp", "sim/arithmetic/warp_product.cpp"},
      {"sim/gemm/cuda_core.cpp", "sim/gemm/gemm.cpp"},
      {"sim/gemm/exact_sum.hpp", "sim/gemm/accuracy.cpp"},
      {"sim/gemm/f32.hpp", "sim/gemm/gemm.cpp"},
      {"sim/hardware/child.cpp", "sim/core/seconds.hpp"},
      {"sim/hardware/child.hpp", "sim/core/seconds.hpp"},
      {"sim/hardware/describe.cpp", "sim/core/seconds.hpp"},
      {"sim/hardware/word_campaign.cpp", "sim/core/seconds.hpp"},
      {"sim/kernel/float_loops.cpp", "sim/kernel/launch.cpp"},
      {"sim/kernel/ops_float.cpp", "sim/kernel/launch.cpp"},
      {"sim/kernel/ops_system.cpp", "sim/kernel/launch.cpp"},
      {"sim/operators/c_function_code.hpp", "sim/operators/c_function.cpp"},
      {"sim/math/math_instruction.cpp", "sim/kernel/fold.cpp"},
      {"sim/operators/attention_steps.hpp", "sim/operators/attention_steps.cpp"},
      {"sim/operators/norms.cpp", "sim/operators/row_lanes.cpp"},
      {"sim/operators/reduce.cpp", "sim/operators/row_lanes.cpp"},
      {"sim/operators/softmax.cpp", "sim/operators/row_lanes.cpp"},
      {"sim/survey/process.cpp", "sim/core/seconds.hpp"},
      {"sim/survey/process.hpp", "sim/core/seconds.hpp"},
  };
  const std::regex host_float(R"(\b(float|double)\b|std::(ldexp|nearbyint|log2|exp2|sqrt|ilogb|fma|frexp|pow)\()"),
      environment(R"(IeeeEnvironment|in_ieee_environment|BITMMA_IN_ENVIRONMENT|guarded\()"),
      not_code(R"re(//[^\n]*|"(\\.|[^"\\\n])*")re");
  std::set<std::string> without;
  for (const std::string& path : sources_below("sim")) {
    const std::string text = test::read_text(test::source_path(path));
    const std::string code = std::regex_replace(text, not_code, "");
    if (std::regex_search(code, host_float) && !std::regex_search(text, environment)) without.insert(path);
  }
  std::set<std::string> known;
  for (const auto& [path, caller] : callers) {
    known.insert(path);
    INFO(path << " is called by " << caller);
    CHECK(std::regex_search(test::read_text(test::source_path(caller)), environment));
  }
  CHECK(without == known);
}

TEST_CASE("every function of the C API that returns a status runs in the environment of IEEE 754", "[unsanitized]") {
  const std::regex declared(R"(bitmma_status (bitmma_\w+)\()"),
      guarded(R"(bitmma_status (bitmma_\w+)\([^{]*\) \{\s*return guarded\()");
  const auto names = [](const std::string& text, const std::regex& pattern) {
    std::set<std::string> matches;
    for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) matches.insert((*at)[1]);
    return matches;
  };
  std::set<std::string> without = names(test::read_text(test::source_path("include/bitmma.h")), declared);
  REQUIRE(without.size() > 50);
  for (const std::string& path : sources_below("sim/c_api")) {
    for (const std::string& name : names(test::read_text(test::source_path(path)), guarded)) without.erase(name);
  }
  CHECK(without == std::set<std::string>{"bitmma_error_at"});  // returns a recorded error
}

TEST_CASE("code decides by codes and values, never by the sentences of messages", "[unsanitized]") {
  const std::regex compares_sentence(R"re(\.(seen|expected|fix|legal|text|what)\s*[!=]= ")re"
                                     R"re(|\.(seen|expected|fix|what)\.(find|contains|starts_with|ends_with)\()re"
                                     R"re(|print\([^()]*\)\.(find|contains|starts_with|ends_with)\()re"
                                     R"re(|\.(seen|legal|fix|text)(\.endswith\(| [!=]= "))re");
  std::string sentences;
  for (const char* root : {"include", "sim", "tools", "lab", "python"}) {
    std::vector<std::string> paths = sources_below(root);
    if (std::string(root) == "python") {
      for (const auto& entry : std::filesystem::directory_iterator(test::source_path("python/bitmma"))) {
        if (entry.path().extension() == ".py") paths.push_back("python/bitmma/" + entry.path().filename().string());
      }
      REQUIRE(paths.size() > 15);
    }
    for (const std::string& path : paths) {
      std::istringstream lines(test::read_text(test::source_path(path)));
      for (std::string line; std::getline(lines, line);) {
        if (std::regex_search(line, compares_sentence)) sentences += path + ": " + line + "\n";
      }
    }
  }
  CHECK(sentences == "");
}

TEST_CASE("each section of tests/messages.txt is of a test file that exists") {
  std::istringstream lines(test::read_text(test::source_path("tests/messages.txt")));
  int sections = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("== ")) continue;
    INFO(line);
    ++sections;
    CHECK(std::filesystem::exists(test::source_path("tests/" + line.substr(3, line.find(": ") - 3))));
  }
  CHECK(sections > 100);
}

TEST_CASE("the named sets of targets are defined in core/target.hpp alone", "[unsanitized]") {
  const std::regex defined(R"re(\b(hopper|tcgen05|rubin|consumer_blackwell)\s*\{\s*(Target::)?sm_)re");
  std::set<std::string> files;
  for (const char* root : {"include/bitmma", "sim"}) {
    for (const std::string& path : sources_below(root)) {
      if (std::regex_search(test::read_text(test::source_path(path)), defined)) files.insert(path);
    }
  }
  CHECK(files == std::set<std::string>{"include/bitmma/core/target.hpp"});
}

// Debian 12 has clang-format 14; another version lays some lines out differently.
TEST_CASE("every source is laid out as .clang-format says", "[unsanitized]") {
  // Debian calls it clang-format-14; where it is the only one, clang-format.
  std::string program = "clang-format-14";
  std::string version = test::output_of_command(program + " --version 2>/dev/null");
  if (version.empty()) version = test::output_of_command((program = "clang-format") + " --version 2>/dev/null");
  if (version.find("version 14.") == std::string::npos) {
    WARN("NOT checked: clang-format 14 is not installed (" << (version.empty() ? "none found" : version) << ")");
    return;
  }
  std::string files;
  int count = 0;
  for (const char* root : {"include", "sim", "tools", "lab", "tests", "python"}) {
    for (const std::string& path : sources_below(root)) files += " " + test::source_path(path), ++count;
  }
  REQUIRE(count > 150);
  const std::string complaints = test::output_of_command(program + " --dry-run --Werror" + files + " 2>&1");
  INFO("run clang-format -i on these files");
  CHECK(complaints == "");
}

namespace {

/// Lines of `bitmma list --markdown`, with its heading, of instructions that begin with `name` or that do not.
std::string listed(const std::string& name, bool begins) {
  std::ostringstream out, err;
  REQUIRE(cli::run({"list", "--markdown"}, {.out = out, .err = err}) == 0);
  std::istringstream lines(out.str());
  std::string text;
  int number = 0;
  for (std::string line; std::getline(lines, line); ++number) {
    if (number < 2 || line.starts_with("| " + name) == begins) text += line + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("the site's tables of instructions are what `bitmma list` prints") {
  test::check_table("forms", listed("mma.s", false));
  test::check_table("mma_sync_forms", listed("mma.s", true));
}

TEST_CASE("docs/evidence.md and bitmma.h say what each level of evidence means", "[rule:evidence][unsanitized]") {
  std::string table = "| level | meaning |\n|---|---|\n";
  for (const EvidenceInfo& level : evidence_levels) table += fmt::format("| {} | {} |\n", level.name, level.meaning);
  test::check_generated("docs/evidence.md", "<!-- levels of evidence -->", "<!-- end of the levels -->", table);
}

TEST_CASE("the site's table of the campaigns of mma.sync is what the campaigns printed") {
  struct Row {
    int64_t outputs[2] = {0, 0}, hard = 0, mismatches = 0;
  };
  std::map<std::string, Row> rows;
  Row total;
  int gpu = 0;
  for (const char* path : {"data/evidence/mma_sync_campaign_h200.json", "data/evidence/mma_sync_campaign_h100.json"}) {
    const auto campaign = nlohmann::json::parse(test::read_text(test::source_path(path)));
    CHECK(campaign["rows"].size() == 198 + 1);
    for (const auto& measured : campaign["rows"]) {
      const std::string name = measured["instruction"].get<std::string>();
      const auto add = [&](Row& row) {
        row.outputs[gpu] += measured["outputs"].get<int64_t>();
        row.hard += measured["hard_outputs"].get<int64_t>();
        row.mismatches += measured["mismatches"].get<int64_t>();
      };
      if (name == "total") {
        add(total);
        continue;
      }
      const Instruction instruction = parse_instruction(name);
      const Mma mma = mma_of(instruction);
      add(rows[fmt::format("{} {}.{}.{}", find_form(instruction)->name, info(mma.d).name, info(mma.a).name,
                           info(mma.b).name)]);
    }
    ++gpu;
  }
  std::string text =
      "| instruction | outputs, H200 | outputs, H100 | of both special, subnormal, ties | mismatches |\n"
      "|---|---|---|---|---|\n";
  rows["total"] = total;
  for (const auto& [name, row] : rows)
    text += fmt::format("| {} | {} | {} | {} | {} |\n", name, row.outputs[0], row.outputs[1], row.hard, row.mismatches);
  CHECK(total.mismatches == 0);
  CHECK(total.outputs[0] >= 2'000'000'000);
  CHECK(total.outputs[1] >= 2'000'000'000);
  test::check_table("mma_sync_campaigns", text);
}

TEST_CASE("the site's table of the H200's campaign of wgmma is what the campaign printed") {
  const auto campaign =
      nlohmann::json::parse(test::read_text(test::source_path("data/evidence/wgmma_campaign_h200.json")));
  CHECK(campaign["rows"].size() == 34);
  std::string text =
      "| instruction | cases | outputs | special, subnormal, ties | mismatches |\n|---|---|---|---|---|\n";
  for (const auto& row : campaign["rows"]) {
    CHECK(row["mismatches"] == 0);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", row["instruction"].get<std::string>(),
                        row["cases"].get<int64_t>(), row["outputs"].get<int64_t>(), row["hard_outputs"].get<int64_t>(),
                        row["mismatches"].get<int64_t>());
  }
  test::check_table("wgmma_campaign_h200", text);
  const auto total = campaign["rows"].back()["outputs"].get<int64_t>();
  CHECK(total >= 10'000'000'000);
  CHECK(campaign["rows"].back()["hard_outputs"].get<int64_t>() >= 100'000'000);
}

namespace {

/// 11130318848 as 11,130,318,848.
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

/// The last row of a campaign, which sums up the others.
nlohmann::json total_of(const std::string& name) {
  const auto campaign = nlohmann::json::parse(test::read_text(test::source_path("data/evidence/" + name + ".json")));
  REQUIRE(campaign["rows"].back()["instruction"] == "total");
  return campaign["rows"].back();
}

}  // namespace

/// Where a word of the matrix of evidence is the first, which is the surest of a cell:
/// "`wgmma.mma_async`, `mma.sync`: H100, H200; `mma.sp`: RTX 50".
std::string places_in(const std::vector<std::vector<std::string>>& matrix, const std::string& word) {
  std::vector<std::pair<std::string, std::string>> places;  // names of instructions, GPUs
  for (size_t column = 1; column < matrix[0].size(); ++column) {
    std::string gpus;
    for (size_t row = 1; row < matrix.size(); ++row) {
      if (matrix[row][column].starts_with(word)) gpus += (gpus.empty() ? "" : ", ") + matrix[row][0];
    }
    if (gpus.empty()) continue;
    const std::string name = "`" + std::regex_replace(matrix[0][column], std::regex(", "), "`, `") + "`";
    const auto same = std::ranges::find(places, gpus, &std::pair<std::string, std::string>::second);
    if (same == places.end()) places.emplace_back(name, gpus);
    else same->first += ", " + name;
  }
  std::string text;
  for (const auto& [names, gpus] : places) text += (text.empty() ? "" : "; ") + names + ": " + gpus;
  return text;
}

TEST_CASE(
    "README says how each rule is known, with the outputs of the campaigns, and docs/evidence.md has the matrix") {
  std::ostringstream out, err;
  REQUIRE(cli::run({"list", "--matrix", "--markdown"}, {.out = out, .err = err}) == 0);
  test::check_generated("docs/evidence.md", "<!-- matrix -->", "<!-- end of the matrix -->", out.str());
  int64_t outputs = 0;
  for (const std::string name :
       {"wgmma_campaign_h200", "wgmma_campaign_h100", "mma_sync_campaign_h200", "mma_sync_campaign_h100"}) {
    const auto total = total_of(name);
    CHECK(total["mismatches"] == 0);
    outputs += total["outputs"].get<int64_t>();
  }
  const std::vector<std::pair<std::string, std::string>> words{
      {"measured", fmt::format("this project compared {} random outputs; [none differed]"
                               "(docs/evidence.md#what-this-project-measured)",
                               grouped(outputs))},
      {"results",
       "agrees with results that others measured on a GPU of the target "
       "([which](docs/evidence.md#results-of-others-that-agree): "
       "for A40 and RTX 30 an A2, for RTX 40 an L40S and an RTX Ada)"},
      {"model", "follows a published model or the PTX ISA"},
      {"assumed", "no source decides it: bitmma's choice"}};
  const auto matrix = evidence_matrix_of(list_of({}));
  std::string text = "| rule | how it is known, at best | instructions and GPUs |\n|---|---|---|\n";
  for (const auto& [word, meaning] : words)
    text += fmt::format("| {} | {} | {} |\n", word, meaning, places_in(matrix, word));
  test::check_generated("README.md", "<!-- evidence -->", "<!-- end of evidence -->", text);
}

TEST_CASE("docs/evidence.md has the counts of the campaigns and of the statements, and commands that exist",
          "[unsanitized]") {
  struct Campaign {
    std::string file, what, gpu, command;
  };
  const std::vector<Campaign> campaigns{
      {"wgmma_campaign_h200", "`wgmma`, dense and sparse", "H200", "--seed 2026 --units 8592 --unit-outputs 1300000"},
      {"wgmma_campaign_h100", "`wgmma`, dense and sparse", "H100", "--seed 777 --outputs 2e9"},
      {"mma_sync_campaign_h200", "`mma.sync`, `mma.sp`", "H200",
       "--family mma.sync --seed 2026 --units 2178 --unit-outputs 1000000"},
      {"mma_sync_campaign_h100", "`mma.sync`, `mma.sp`", "H100",
       "--family mma.sync --seed 4711 --units 2178 --unit-outputs 1000000"}};
  std::string table = "| instructions | GPU | outputs | differing | repeat it |\n|---|---|---|---|---|\n";
  for (const Campaign& campaign : campaigns) {
    const auto total = total_of(campaign.file);
    table +=
        fmt::format("| {} | {} | {} | {} | `bitmma gpu campaign {}` |\n", campaign.what, campaign.gpu,
                    grouped(total["outputs"].get<int64_t>()), total["mismatches"].get<int64_t>(), campaign.command);
  }
  test::check_generated("docs/evidence.md", "<!-- measured -->", "<!-- end of measured -->", table);

  // Who states a measurement, on which GPU, with how many words.
  std::map<std::string, std::pair<int64_t, int64_t>> words_and_mismatches;
  std::istringstream lines(test::read_text(test::source_path("data/published/statements.csv")));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("measured_by_others,")) continue;
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    auto& [words, mismatches] = words_and_mismatches[fmt::format("| {} | {} | `{}`", cells[1], cells[2], cells[4])];
    words += std::stoll(cells[13]), mismatches += std::stoll(cells[14]);
  }
  table = "| source | GPU | instructions | words | differing |\n|---|---|---|---|---|\n";
  for (const auto& [name, counts] : words_and_mismatches)
    table += fmt::format("{} | {} | {} |\n", name, grouped(counts.first), grouped(counts.second));
  CHECK(words_and_mismatches.size() >= 3);
  test::check_generated("docs/evidence.md", "<!-- statements -->", "<!-- end of statements -->", table);

  std::string tests;
  for (const std::string& path : sources_below("tests")) tests += test::read_text(test::source_path(path));
  const std::string page = test::read_text(test::source_path("docs/evidence.md"));
  const std::regex command(R"re(build/test/tests/bitmma_\w+_tests "\*([^"*]+)\*")re");
  int commands = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), command), end; at != end; ++at, ++commands) {
    INFO((*at)[1]);
    CHECK(std::regex_search(tests, std::regex("TEST_CASE\\(\\s*\"[^\"]*" + (*at)[1].str())));
  }
  CHECK(commands >= 5);
}

TEST_CASE("README has at most 90 lines") {
  const std::string text = test::read_text(test::source_path("README.md"));
  CHECK(std::count(text.begin(), text.end(), '\n') <= 90);
}

TEST_CASE("docs/performance.md has a line for every case that the benchmark measures", "[unsanitized]") {
  const std::string text = test::read_text(test::source_path("docs/performance.md"));
  size_t lines = 0;
  for (const BenchCase& bench_case : bench_cases()) {
    CHECK_THAT(text, ContainsSubstring("\n| " + bench_case.name + " | "));
    CHECK_NOTHROW(BenchMachine(bench_case.instruction).simulate());
    ++lines;
  }
  CHECK(lines == 36 + 40);  // mma.sync without scales: a line for every row
  for (const BenchProduct& product : bench_products())
    CHECK_THAT(text, ContainsSubstring("\n| " + product.name + " | "));
}
