// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "arguments.hpp"
#include "bitmma/instruction/cutlass_atom.hpp"
#include "bitmma/instruction/register_map.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "numbers.hpp"

namespace bitmma::cli {
namespace {

struct FragmentFlags {
  Flag<std::string> instruction, operand = "d", element;
  TargetFlag target;
  Flag<int> sparsity_selector = 0, byte_id = 0, thread_id = 0;
  MapFlags map;
};

/// --element: PTX's name for an element of a thread, "low to high": d5 is the sixth of D. Sets the flags for its
/// register and bit.
MapFlags with_element(const FragmentFlags& flags, const Map& map) {
  MapFlags map_flags = flags.map;
  if (flags.element.empty()) return map_flags;
  const auto axis = map.find("element");
  const int64_t elements = axis ? map.axes[*axis].extent : 0;
  const std::optional<uint64_t> index = parse_whole(flags.element->substr(1));
  const bool is_named = flags.element->front() == flags.operand->front() && index;
  const bool has_thread = map_flags.value_of("--thread").has_value();
  if (!is_named || !has_thread || *index >= static_cast<uint64_t>(elements)) {
    throw Error(
        {.field = "--element",
         .seen = *flags.element + (has_thread ? "" : " without --thread"),
         .expected = fmt::format("{0}0..{0}{1} of a --thread", *flags.operand, std::max<int64_t>(0, elements - 1))});
  }
  MapQuestion question{};
  question[map.axis("thread")] = map_flags.value_of("--thread");
  question[*axis] = static_cast<int64_t>(*index);
  const std::vector<MapEntry> entries = map.elements_at(question);
  for (AskFlag& flag : map_flags.asks) {
    if (!entries.empty() && (flag.axis == "register" || flag.axis == "bit"))
      flag.value = entries.front()[map.axis(flag.axis)];
  }
  return map_flags;
}

void run_fragment(Context& context, const FragmentFlags& flags) {
  const Instruction instruction = parse_mnemonic_or_atom(flags.instruction.get());
  const Map map = [&] {
    RegisterSelectors selectors;
    if (flags.operand == "metadata") selectors.sparsity_selector = flags.sparsity_selector;
    if (flags.operand->starts_with("scale")) selectors.byte_id = flags.byte_id, selectors.thread_id = flags.thread_id;
    return register_map(instruction, flags.target.of(instruction), flags.operand, selectors);
  }();
  with_element(flags, map)
      .show(context, {.map = map,
                      .has_object_of_element = true,
                      .fix = map.axes[0].name == "n" ? "B is shown as n x k: --row is n, --col is k" : ""});
}

}  // namespace

void add_fragment_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<FragmentFlags>();
  Command* fragment = layout.add_command("fragment", "show the registers that hold a matrix, by instruction");
  fragment->add_option("--instruction", flags->instruction, "PTX mnemonic, or the name of a CUTLASS atom")->required();
  flags->target.add(*fragment, "the GPU by its PTX name; default: the instruction's own", true);
  fragment
      ->add_option(
          "--operand", flags->operand,
          "a; b (mma.sync, as n x k: --row is n, --col is k); d (C has the same layout); metadata; scale_a or scale_b "
          "(mma.sync with .block_scale, whose columns are the scales). A sparse A has only its stored columns")
      ->capture_default_str();
  one_of(fragment->get_option("--operand"), {"a", "b", "c", "d", "metadata", "scale_a", "scale_b"});
  fragment
      ->add_option("--sparsity-selector", flags->sparsity_selector,
                   "metadata: sp-sel, which selects the threads of a quad that supply it")
      ->capture_default_str();
  fragment->add_option("--byte-id", flags->byte_id, "scale_a, scale_b: {byte-id} of the statement")
      ->capture_default_str();
  fragment->add_option("--thread-id", flags->thread_id, "scale_a, scale_b: {thread-id} of the statement")
      ->capture_default_str();
  flags->map.ask(*fragment, {.flag = "--thread", .is_place = true, .axis = "thread"},
                 "show the elements at a place: thread of the warpgroup or warp");
  flags->map.ask(*fragment, {.flag = "--register", .is_place = true, .axis = "register", .is_required = false},
                 "one of the thread's registers");
  flags->map.ask(*fragment, {.flag = "--bit", .is_place = true, .axis = "bit", .is_required = false},
                 "one bit of the register");
  fragment->add_option("--element", flags->element,
                       "instead of a register: PTX's name of an element of the thread, such as a0 or d5");
  flags->map.columns = 16;
  fragment->add_option("--max-cols", flags->map.columns, "number of columns of the picture")->capture_default_str();
  flags->map.add_row_and_col(*fragment);
  flags->map.add_outputs(*fragment);
  fragment->footer(
      "Examples:\n"
      "  bitmma layout fragment --instruction wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 --operand d\n"
      "  bitmma layout fragment --instruction wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 --operand a --thread "
      "5 --register 2\n"
      "  bitmma layout fragment --instruction "
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --operand b\n"
      "  bitmma layout fragment --instruction "
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --operand scale_a --row 9 "
      "--col 1");
  fragment->callback([flags, &context] { naming_flags(context, [&] { run_fragment(context, *flags); }); });
}

}  // namespace bitmma::cli
