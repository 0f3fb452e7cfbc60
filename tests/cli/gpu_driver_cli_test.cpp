// The program with a driver that is not a GPU's: tests/fake_cuda, which fails where it is told to.
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bitmma/files/compare.hpp"
#include "bitmma/hardware/campaign.hpp"
#include "bitmma/instruction/execute.hpp"
#include "cli/run.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"
#include "support/process.hpp"

using namespace bitmma;

namespace {

const std::string golden = test::source_path("data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors");

struct Ended : test::Finished {
  std::string trace = {};  // what the fake driver was asked
};

using Environment = std::map<std::string, std::string>;

/// Runs the program with these arguments; its CUDA driver comes from `library`. What is in `shell` runs before it.
Ended run(const test::TemporaryFolder& folder, const std::string& arguments, Environment environment = {},
          const std::string& library = BITMMA_FAKE_CUDA, const std::string& shell = "") {
  const char* const before = std::getenv("LD_LIBRARY_PATH");
  const std::string trace = folder.path("trace");
  test::write_text(trace, "");
  environment["LD_LIBRARY_PATH"] = library + ":" + (before ? before : "");
  environment["FAKE_CUDA_TRACE"] = trace;
  std::vector<std::string> words = test::program_with(test::shell_words(arguments));
  if (!shell.empty()) words.insert(words.begin(), {"sh", "-c", shell + "; exec \"$0\" \"$@\""});
  return {test::run_process(words, {.environment = environment}), test::read_text(trace)};
}

/// How often each call was used.
std::map<std::string, int> uses_of(const std::string& trace) {
  std::map<std::string, int> uses;
  std::istringstream lines(trace);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("cu")) ++uses[line];
  }
  return uses;
}

constexpr int units = 3, seed = 7, outputs = 1000;
const std::string campaign = fmt::format(
    "gpu campaign --family mma.sync --seed {} --units {} --unit-outputs {} --threads 1", seed, units, outputs);

/// Adds D of the state as the kernel writes it, padded to its bytes per case.
void append_answer(std::string& answers, const Instruction& instruction, const State& after) {
  const std::span<const uint32_t> words = after.words(Field::accumulator);
  answers.append(reinterpret_cast<const char*>(words.data()), words.size_bytes());
  const Kernel kernel = ptx_kernel(instruction, kernel_shape_of({&after, 1}));
  REQUIRE(kernel.output.bytes_per_case == static_cast<int64_t>(words.size_bytes()));
}

/// What a GPU answers in the campaign, as a file for the fake driver.
Environment right_answers(const test::TemporaryFolder& folder) {
  std::string answers;
  for (int64_t unit = 0; unit < units; ++unit) {
    CampaignUnit work = campaign_unit(seed, unit, outputs, Family::mma_sync);
    for (CampaignCase& each : work.cases) {
      execute(work.instruction, work.target, each.state);
      append_answer(answers, work.instruction, each.state);
    }
  }
  test::write_text(folder.path("answers"), answers);
  return {{"FAKE_CUDA_ANSWERS", folder.path("answers")}};
}

/// The same of the file, with what the H200 answered.
Environment right_answers_of_file(const test::TemporaryFolder& folder) {
  std::string answers;
  const VectorFile file = read_vector_file(golden);
  for (int64_t index = 0; index < file.cases; ++index) {
    const Case this_case = case_at(file, index);
    append_answer(answers, this_case.instruction, this_case.after.value());
  }
  test::write_text(folder.path("answers_of_file"), answers);
  return {{"FAKE_CUDA_ANSWERS", folder.path("answers_of_file")}};
}

Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

/// What the driver was given back when the program ended.
void check_nothing_left(const Ended& ended) {
  CHECK_THAT(ended.trace, ContainsSubstring("left: 0 allocations, 0 modules, 0 streams"));
}

/// The campaign's command, saving into an empty folder.
std::string saving(const test::TemporaryFolder& folder) {
  std::filesystem::create_directories(folder.path("save"));
  return fmt::format("{} --save '{}'", campaign, folder.path("save"));
}

}  // namespace

TEST_CASE("with a driver that answers right, files and campaigns agree, and with one that answers 0, they do not") {
  const test::TemporaryFolder folder;
  const std::string out = folder.path("out"), file = fmt::format("gpu run '{}' -o '{}'", golden, out);
  const Ended right = run(folder, file, right_answers_of_file(folder));
  INFO(right.err);
  CHECK(right.code == 0);
  CHECK(right.err.empty());
  CHECK_THAT(right.out, ContainsSubstring("Fake H200 (sm_90") && ContainsSubstring(", 0 differ from the model"));
  CHECK(compare(read_vector_file(golden), read_vector_file(out)).mismatches == 0);
  CHECK(read_vector_file(out).source() == "Fake H200");
  check_nothing_left(right);
  const Ended zeros = run(folder, file);
  CHECK(zeros.code == 1);
  CHECK_THAT(zeros.out, ContainsSubstring("differ from the model, first"));
  const auto comparison = nlohmann::json::parse(run(folder, file + " --json").out);
  CHECK(comparison["gpu"] == "Fake H200");
  CHECK(comparison["mismatches"] > 0);
  REQUIRE(comparison["files"].size() == 1);
  CHECK(comparison["files"][0]["file"] == golden);
  CHECK(comparison["files"][0]["mismatches"] == comparison["mismatches"]);
  CHECK(comparison["files"][0]["first_mismatch"].is_object());
  CHECK(comparison["files"][0]["refused"].empty());

  const Ended agreed = run(folder, saving(folder), right_answers(folder));
  INFO(agreed.err);
  CHECK(agreed.code == 0);
  CHECK(agreed.err.empty());
  CHECK_THAT(agreed.out, ContainsSubstring("units 0..2 of about 1000 outputs") && ContainsSubstring("total"));
  CHECK(std::filesystem::is_empty(folder.path("save")));
  check_nothing_left(agreed);
  const Ended differs = run(folder, saving(folder) + " --json --max-saved 2");
  CHECK(differs.code == 1);
  const auto json = nlohmann::json::parse(differs.out);
  CHECK(json["rows"].back()["mismatches"] > 0);
  CHECK(json["ended_by"] == "done");
  REQUIRE(json["saved"].size() == 2);
  CHECK(verify(read_vector_file(json["saved"][0].get<std::string>()), 1).mismatches > 0);
}

TEST_CASE("a driver's call that fails, at its first use or its last, is named with its error and what to do",
          "[unsanitized]") {
  const test::TemporaryFolder folder;
  const std::string out = folder.path("out"), save = folder.path("save");
  struct Command {
    std::string arguments;
    Environment right;
    bool is_campaign;
  };
  std::map<std::string, int> seen;
  for (const Command& command :
       {Command{fmt::format("gpu run '{}' -o '{}'", golden, out), right_answers_of_file(folder), false},
        Command{saving(folder), right_answers(folder), true}}) {
    const Ended whole = run(folder, command.arguments, command.right);
    REQUIRE(whole.code == 0);
    std::filesystem::remove(out);
    for (const auto& [call, uses] : uses_of(whole.trace)) {
      for (const int use : {1, uses}) {
        INFO(call << " use " << use << " of " << uses << " in " << command.arguments);
        const Ended ended =
            run(folder, command.arguments, with(command.right, "FAKE_CUDA_FAIL", fmt::format("{}:{}:700", call, use)));
        INFO(ended.out << ended.err);
        ++seen[call];
        test::note_message(ended.err);
        // After the results are there, what the driver does not take back is a warning: no result depends on it. The
        // second use of cuStreamSynchronize of a launch is of that kind.
        const bool gives_back = call == "cuMemFree_v2" || call == "cuModuleUnload" || call == "cuStreamDestroy_v2" ||
                                call == "cuDevicePrimaryCtxRelease_v2" ||
                                (call == "cuStreamSynchronize" && use == uses);
        if (gives_back) {
          CHECK(ended.code == 0);
          CHECK(ended.err.starts_with("warning: "));
          CHECK(std::filesystem::exists(out) != command.is_campaign);
          std::filesystem::remove(out);
          continue;
        }
        CHECK(ended.code == 2);
        CHECK(ended.err.starts_with("error: "));
        CHECK_FALSE(std::filesystem::exists(out));
        if (command.is_campaign) CHECK(std::filesystem::is_empty(save));
        // The last use of a call that is used again in each unit leaves the table of the units before.
        const bool had_begun = command.is_campaign && use > 1 && uses >= units && call != "cuDeviceGetAttribute";
        if (had_begun) {
          CHECK_THAT(ended.out, ContainsSubstring("units 0..1 of about") && ContainsSubstring("total") &&
                                    ContainsSubstring("to continue, use --first-unit 2\n"));
        } else {
          CHECK(ended.out.empty());
        }
        if (had_begun || call.starts_with("cuM") || call.starts_with("cuStream") || call == "cuLaunchKernel")
          check_nothing_left(ended);
      }
    }
  }
  // Every call that the library loads was made to fail, but those that tell of errors.
  const std::string source = test::read_text(test::source_path("sim/hardware/driver.cpp"));
  int loaded = 0;
  for (size_t at = source.find("load(api."); at != std::string::npos; at = source.find("load(api.", at + 1)) {
    const size_t quote = source.find('"', at);
    const std::string call = source.substr(quote + 1, source.find('"', quote + 1) - quote - 1);
    INFO(call);
    ++loaded;
    CHECK(seen.count(call) == (call.starts_with("cuGetError") ? 0 : 1));
  }
  CHECK(loaded == static_cast<int>(seen.size()) + 2);
}

TEST_CASE("of several files those before a failure are written, and the one that failed is named") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("in"));
  std::filesystem::create_directories(folder.path("out"));
  for (const char* name : {"a", "b", "c"})
    std::filesystem::copy(golden, folder.path(fmt::format("in/{}.safetensors", name)));
  const Ended ended = run(folder, fmt::format("gpu run '{}' -o '{}'", folder.path("in"), folder.path("out")),
                          {{"FAKE_CUDA_FAIL", "cuLaunchKernel:2:719"}});
  CHECK(ended.code == 2);
  test::note_message(ended.err);
  CHECK(std::filesystem::exists(folder.path("out/a.safetensors")));
  CHECK(std::ranges::distance(std::filesystem::directory_iterator(folder.path("out"))) == 1);
}

TEST_CASE("what a driver does not take back is said once, not for every launch") {
  const test::TemporaryFolder folder;
  const Ended ended = run(folder, saving(folder),
                          with(right_answers(folder), "FAKE_CUDA_FAIL", "cuMemFree_v2:0:719,cuModuleUnload:2:1"));
  INFO(ended.err);
  CHECK(ended.code == 0);
  CHECK(std::ranges::count(ended.err, '\n') == 2);
  test::note_message(ended.err);
}

TEST_CASE("errors without names and texts, and PTX that is refused with a log, with a full one and without") {
  const test::TemporaryFolder folder;
  const std::string file = fmt::format("gpu run '{}' -o '{}'", golden, folder.path("out"));
  const auto refuse = [&](const Environment& environment) {
    const Ended ended = run(folder, file, environment);
    CHECK(ended.code == 2);
    test::note_message(ended.err);
    return ended.err;
  };
  const Environment no_texts{{"FAKE_CUDA_NO_TEXTS", "1"}};
  refuse(with(no_texts, "FAKE_CUDA_FAIL", "cuInit:1:100"));
  refuse(with(no_texts, "FAKE_CUDA_FAIL", "cuInit:1:12345"));
  const Environment refused{{"FAKE_CUDA_FAIL", "cuModuleLoadDataEx:1:218"}};
  refuse(refused);
  refuse(with(refused, "FAKE_CUDA_LOG", "ptxas line 7: no such \033[31minstruction\n"));
  // A log has at most 4096 bytes.
  const std::string of_long_log = refuse(with(refused, "FAKE_CUDA_LOG", std::string(10000, 'x')));
  CHECK(of_long_log.find(std::string(4096, 'x')) != std::string::npos);
  CHECK(of_long_log.find(std::string(4097, 'x')) == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.path("out")));
}

TEST_CASE("names of GPUs that are too long for their NUL, no UTF-8, obeyed by terminals or empty") {
  const test::TemporaryFolder folder;
  const auto name_of = [&](const std::string& name) {
    const Ended ended = run(folder, saving(folder) + " --json", with(right_answers(folder), "FAKE_CUDA_NAME", name));
    INFO(ended.err);
    REQUIRE(ended.code == 0);
    return nlohmann::json::parse(ended.out)["gpu"].get<std::string>();
  };
  CHECK(name_of("NVIDIA H200 NVL") == "NVIDIA H200 NVL");
  CHECK(name_of(std::string(300, 'x')) == std::string(256, 'x'));
  CHECK(name_of("H\xC3\xA4h \xFF\xC3") == "H\xC3\xA4h \xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(name_of("a\033[31mred") == "a\\x1b[31mred");
  CHECK(name_of(" ") == " ");
  // Saved files hold it as well.
  const Ended saved = run(folder, saving(folder) + " --json --max-saved 1", {{"FAKE_CUDA_NAME", "\xFF"}});
  const auto json = nlohmann::json::parse(saved.out);
  REQUIRE(json["saved"].size() == 1);
  CHECK(read_vector_file(json["saved"][0].get<std::string>()).source() == "\xEF\xBF\xBD");
}

TEST_CASE("devices that are not there, of other generations, or with too little shared memory are refused") {
  const test::TemporaryFolder folder;
  struct Row {
    std::string arguments;
    Environment environment;
  };
  const std::string file = fmt::format("gpu run '{}' -o '{}'", golden, folder.path("out"));
  for (const Row& row : {
           Row{file, {{"FAKE_CUDA_COUNT", "0"}}},
           Row{file, {{"FAKE_CUDA_COUNT", "-5"}}},
           Row{file + " --device 2", {{"FAKE_CUDA_COUNT", "2"}}},
           Row{file + " --device -1", {{"FAKE_CUDA_COUNT", "2"}}},
           Row{file, {{"FAKE_CUDA_CAPABILITY", "2147483647"}}},
           Row{file, {{"FAKE_CUDA_CAPABILITY", "-90"}}},
           Row{file, {{"FAKE_CUDA_CAPABILITY", "80"}}},
           Row{"gpu campaign --save .", {{"FAKE_CUDA_CAPABILITY", "80"}}},
           Row{file, {{"FAKE_CUDA_SHARED", "1000"}}},
       }) {
    INFO(row.arguments << "\n" << row.environment.begin()->second);
    const Ended ended = run(folder, row.arguments, row.environment);
    CHECK(ended.code == 2);
    CHECK(ended.out.empty());
    test::note_message(ended.err);
    CHECK_FALSE(std::filesystem::exists(folder.path("out")));
  }
}

TEST_CASE("a libcuda.so.1 that is garbage, empty, a folder or lacks calls is refused with what to do") {
  const test::TemporaryFolder folder;
  const std::string file = fmt::format("gpu run '{}' -o '{}'", golden, folder.path("out"));
  const auto refuse = [&](const std::string& library) {
    const Ended ended = run(folder, file, {}, library);
    CHECK(ended.code == 2);
    CHECK_FALSE(std::filesystem::exists(folder.path("out")));
    test::note_message(ended.err);
  };
  for (const std::string& content : {std::string("not a library"), std::string(), std::string(100000, '\0')}) {
    std::filesystem::create_directories(folder.path("garbage"));
    test::write_text(folder.path("garbage/libcuda.so.1"), content);
    refuse(folder.path("garbage"));
  }
  std::filesystem::create_directories(folder.path("folder/libcuda.so.1"));
  refuse(folder.path("folder"));
  refuse(BITMMA_CUDA_WITHOUT_CALLS);
}

TEST_CASE("an interrupt ends a campaign after the unit that runs, with its table and where to go on") {
  const test::TemporaryFolder folder;
  const Environment right = right_answers(folder);
  for (const int signal : {SIGINT, SIGTERM}) {
    const Ended ended =
        run(folder, saving(folder), with(right, "FAKE_CUDA_SIGNAL", fmt::format("cuLaunchKernel:2:{}", signal)));
    INFO(ended.out << ended.err);
    CHECK(ended.code == 2);
    CHECK_THAT(ended.out, ContainsSubstring("units 0..1 of about") && ContainsSubstring("total") &&
                              ContainsSubstring("to continue, use --first-unit 2\n"));
    test::note_message(ended.err);
    check_nothing_left(ended);
  }
  const std::string at_two = fmt::format("cuLaunchKernel:2:{}", SIGINT);
  const Ended json = run(folder, saving(folder) + " --json", with(right, "FAKE_CUDA_SIGNAL", at_two));
  CHECK(json.code == 2);
  CHECK(nlohmann::json::parse(json.out)["next_unit"] == 2);
  CHECK(nlohmann::json::parse(json.out)["ended_by"] == "SIGINT");
  // What differs is more than an interrupt.
  const Ended differs = run(folder, saving(folder), {{"FAKE_CUDA_SIGNAL", at_two}});
  CHECK(differs.code == 1);
  test::note_message(differs.err);
  // In the last unit there is nothing left to interrupt.
  const Ended last =
      run(folder, saving(folder), with(right, "FAKE_CUDA_SIGNAL", fmt::format("cuLaunchKernel:3:{}", SIGINT)));
  CHECK(last.code == 0);
  CHECK(last.err.find("interrupted by") == std::string::npos);
  // The second one does not wait.
  const Ended twice = run(
      folder, saving(folder),
      with(right, "FAKE_CUDA_SIGNAL", fmt::format("cuLaunchKernel:2:{},cuStreamSynchronize:3:{}", SIGINT, SIGTERM)));
  CHECK(twice.code == -1);
  CHECK(twice.signal == SIGTERM);
  CHECK(twice.out.empty());
  // Outside a campaign the first one does not wait either.
  const Ended file = run(folder, fmt::format("gpu run '{}' -o '{}'", golden, folder.path("out")),
                         {{"FAKE_CUDA_SIGNAL", fmt::format("cuLaunchKernel:1:{}", SIGINT)}});
  CHECK(file.signal == SIGINT);
  CHECK_FALSE(std::filesystem::exists(folder.path("out")));
}

TEST_CASE("a signal that was ignored when a campaign began stays ignored") {
  const test::TemporaryFolder folder;
  const Ended ended = run(folder, saving(folder),
                          with(right_answers(folder), "FAKE_CUDA_SIGNAL", fmt::format("cuLaunchKernel:1:{}", SIGTERM)),
                          BITMMA_FAKE_CUDA, "trap '' TERM");
  CHECK(ended.code == 0);
  CHECK(ended.err.empty());
}

TEST_CASE("mismatches that cannot be saved do not end a campaign: they are counted, and each reason is said once") {
  const test::TemporaryFolder folder;
  const std::string command = saving(folder);
  for (int unit = 0; unit < units; ++unit) {
    for (int index = 0; index < 20; ++index) {
      std::filesystem::create_directories(
          folder.path(fmt::format("save/mismatch_{}_{}_{}.safetensors", seed, unit, index)));
    }
  }
  const Ended ended = run(folder, command + " --max-saved 5");
  INFO(ended.out << ended.err);
  CHECK(ended.code == 1);
  CHECK_THAT(ended.out, ContainsSubstring("units 0..2 of about") && ContainsSubstring("total"));
  CHECK(ended.out.find("saved ") == std::string::npos);
  CHECK(std::ranges::count(ended.err, '\n') == 1);
  test::note_message(ended.err);
  const auto json = nlohmann::json::parse(run(folder, command + " --json --max-saved 5").out);
  CHECK(json["saved"].empty());
  REQUIRE(json["not_saved"].size() == 1);
  CHECK(json["not_saved"][0]["cases"] == 5);
  CHECK(json["not_saved"][0]["unit"] == 0);
}

TEST_CASE("a campaign that compared nothing says so and is no success") {
  const test::TemporaryFolder folder;
  const Ended ended = run(folder, saving(folder) + " --seconds 1e-9");
  CHECK(ended.code == 2);
  CHECK(ended.out.empty());
  test::note_message(ended.err);
}
