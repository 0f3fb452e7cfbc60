// SPDX-License-Identifier: MIT
#include "arguments.hpp"
#include "bitmma/memory/tmem.hpp"
#include "flags.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct TmemFlags {
  Flag<std::string> operand = "d";
  Flag<int> m = 128, n = 64, cta_group = 1, cols = 16, element_bits = 16;
  Flag<std::optional<int>> code_bits, k;
  Flag<int> selector = 0;
  Flag<bool> ws = false, sparse = false;
  Flag<uint32_t> address = 0;
  MapFlags map;
};

void run_tmem(Context& context, const TmemFlags& flags) {
  TmemRequest request{.m = flags.m,
                      .cta_group = flags.cta_group,
                      .weight_stationary = flags.ws,
                      .sparse = flags.sparse,
                      .address = decode_tmem_address(flags.address)};
  if (flags.operand == "d") {
    request.operand = TmemRequest::D{.n = flags.n};
  } else if (flags.operand == "metadata") {
    request.sparse = true;
    request.operand =
        TmemRequest::Metadata{.element_bits = flags.element_bits, .selector = flags.selector, .k = flags.k};
  } else {
    request.operand = TmemRequest::A{
        .cols = flags.cols, .element_bits = flags.element_bits, .code_bits = flags.code_bits.value_or(0)};
  }
  flags.map.show(context, shown_layout(request));
}

}  // namespace

void add_tmem_layout(Command& layout, Context& context) {
  const auto flags = std::make_shared<TmemFlags>();
  Command* tmem = layout.add_command(
      "tmem", "show D of tcgen05.mma in Tensor Memory, A if it is there, and metadata of a sparse A");
  tmem->add_option("--operand", flags->operand, "d, a or metadata, whose --col is a chunk of columns of A")
      ->capture_default_str();
  one_of(tmem->get_option("--operand"), {"d", "a", "metadata"});
  tmem->add_option("--m", flags->m, "rows, over the CTA group")->capture_default_str();
  tmem->add_option("--n", flags->n, "columns of D")->capture_default_str();
  tmem->add_option("--cta-group", flags->cta_group, "1 or 2")->capture_default_str();
  between(tmem->get_option("--cta-group"), 1, 2);
  tmem->add_flag("--ws", flags->ws, "weight-stationary form");
  tmem->add_flag("--sparse", flags->sparse, ".sp form");
  tmem->add_option("--cols", flags->cols, "A: stored k")->capture_default_str();
  tmem->add_option("--element-bits", flags->element_bits,
                   "A, metadata: bits of an element's container of A: 4, 8, 16 or 32")
      ->capture_default_str();
  tmem->add_option("--code-bits", flags->code_bits,
                   "A: bits of a code that does not fill its --element-bits 8: 4 of e2m1, 6 of e2m3 and e3m2");
  tmem->add_option("--selector", flags->selector, "metadata: the sparsity selector of the instruction descriptor")
      ->capture_default_str();
  tmem->add_option("--k", flags->k, "metadata: columns of A; default: those of an instruction");
  tmem->add_option("--address", flags->address, "Tensor Memory address, lane << 16 | column");
  for (const auto& [flag, help] : {std::pair("--cta", "show the elements at a place: CTA of the pair; default 0"),
                                   std::pair("--lane", "... lane ..."), std::pair("--column", "column of the place")}) {
    const std::string axis = std::string(flag).substr(2);
    const bool is_cta = axis == "cta";
    flags->map.ask(*tmem,
                   {.flag = flag,
                    .is_place = true,
                    .axis = axis,
                    .is_required = !is_cta,
                    .fallback = is_cta ? std::optional<int64_t>(0) : std::nullopt},
                   help);
  }
  flags->map.add_row_and_col(*tmem);
  flags->map.add_outputs(*tmem);
  tmem->footer(
      "Examples:\n  bitmma layout tmem --m 64 --n 32  # where is row 17 at M = 64?\n  bitmma "
      "layout tmem --m 128 --n 64 --cta-group 2 --row 70 --col 40\n  bitmma layout tmem --operand a --m 64 --ws --csv\n"
      "  bitmma layout tmem --operand metadata --selector 1 --row 17 --col 3");
  tmem->callback([flags, &context] { naming_flags(context, [&] { run_tmem(context, *flags); }); });
}

}  // namespace bitmma::cli
