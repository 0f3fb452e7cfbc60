// `bitmma exec`: the program itself, which runs cases on a real GPU, gets the simulated one.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "run.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

using namespace bitmma;
namespace fs = std::filesystem;

namespace {

const std::string golden = test::source_path("data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors");

/// `bitmma exec FLAGS -- COMMAND`.
test::Finished exec(std::vector<std::string> flags, const std::vector<std::string>& command,
                    const test::ProcessOptions& options = {}) {
  flags.insert(flags.begin(), "exec");
  flags.push_back("--");
  flags.insert(flags.end(), command.begin(), command.end());
  return test::run_program(flags, options);
}

bool is_built() { return fs::exists(fs::path(test::program_with({}).front()).parent_path() / "cuda/libcuda.so.1"); }

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("exec runs a command with its own words, folder and exit code, and adds the folder of the libraries",
          "[unsanitized]") {  // the programs have no sanitizer, which a preloaded library of this build needs
  if (!is_built()) {
    WARN("NOT checked: component driver is not built");
    return;
  }
  const test::Finished done = exec(
      {"--gpu", "H200", "--memory", "2G"},
      {"sh", "-c", "echo \"$BITMMA_EXEC_GPU $BITMMA_EXEC_MEMORY $LD_LIBRARY_PATH $*\"; exit 7", "-", "--help", "-"},
      {.environment = {{"LD_LIBRARY_PATH", "/nowhere"}, {"LD_PRELOAD", ""}}});
  CHECK(done.code == 7);
  CHECK_THAT(done.out, Catch::StartsWith("H200 2147483648 /"));
  CHECK_THAT(done.out, Catch::EndsWith("/cuda:/nowhere --help -\n"));
  CHECK(done.err.empty());
}

TEST_CASE("a program that uses a GPU gets the simulated one, and the reports say what it did", "[unsanitized]") {
  if (!is_built()) {
    WARN("NOT checked: component driver is not built");
    return;
  }
  const test::TemporaryFolder folder;
  const std::string json = folder.path("report.json"), launches = folder.path("launches.safetensors");
  const test::Finished done =
      exec({"--gpu", "H200", "--json", "report.json", "--record", "launches.safetensors"},
           test::program_with({"gpu", "run", golden, "-o", "out.safetensors"}), {.folder = folder.path(".")});
  CHECK(done.code == 0);
  CHECK_THAT(done.out, Catch::Contains("NVIDIA H200 (sm_90"));
  CHECK_THAT(done.out, Catch::Contains("0 differ from the model"));
  CHECK_THAT(done.err, Catch::Contains("1 launch of 1 kernel on a simulated NVIDIA H200"));
  const nlohmann::json report = read_json(json);
  CHECK(report["gpu"] == "NVIDIA H200");
  CHECK(report["kernels"].size() == 1);
  CHECK(report["kernels"][0]["launches"] == 1);
  CHECK(report["kernels"][0]["thread_instructions"] > 1000);
  CHECK(report["faults"].empty());
  CHECK(test::run_program({"verify", launches}).code == 0);
}

TEST_CASE("processes below the command have reports of their own, and --quiet prints none", "[unsanitized]") {
  if (!is_built()) {
    WARN("NOT checked: component driver is not built");
    return;
  }
  const test::TemporaryFolder folder;
  const std::string run = test::program_with({}).front() + " gpu run " + golden + " -o out.safetensors > /dev/null";
  const test::Finished done =
      exec({"--quiet", "--json", folder.path("r.json")}, {"sh", "-c", run + "; " + run}, {.folder = folder.path(".")});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  int reports = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path("."))) {
    const std::string name = entry.path().filename().string();
    if (name == "out.safetensors") continue;
    ++reports;
    CHECK((name.starts_with("r.") && name.ends_with(".json") && name != "r.json"));
    CHECK(read_json(entry.path())["kernels"].size() == 1);
  }
  CHECK(reports == 2);
}

TEST_CASE("exec refuses a missing command, one that cannot be run, and sizes that are none") {
  CHECK(test::run_program({"exec"}).code == 2);
  CHECK(test::run_program({"exec", "--"}).code == 2);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"exec", "true"}, std::vector<std::string>{"exec", "true", "--", "true"}}) {
    const test::Finished before = test::run_program(words);
    CHECK(before.code == 2);
    CHECK_THAT(before.err, Catch::Contains("bitmma exec -- true"));
  }
  if (!is_built()) {
    WARN("NOT checked: component driver is not built");
    return;
  }
  const test::Finished done = exec({}, {"/nowhere/program"});
  CHECK(done.code == 2);
  CHECK_THAT(done.err, Catch::Contains("/nowhere/program"));
  for (const char* size : {"0", "4X", "G", "-1", "4GB", "99999999T"})
    CHECK(exec({"--memory", size}, {"true"}).code == 2);
  CHECK(exec({"--gpu", "H300"}, {"true"}).code == 2);
  for (const char* const flag : {"--json", "--record"}) {
    const test::Finished nowhere = exec({flag, "/nowhere/file"}, {"true"});
    CHECK(nowhere.code == 2);
    CHECK_THAT(nowhere.err, Catch::Contains(flag));
  }
}
