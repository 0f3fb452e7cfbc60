// SPDX-License-Identifier: MIT
#include "bitmma/analysis/describe_chain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bitmma/core/text.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/layout/layout.hpp"
#include "bitmma/memory/fragment_chain.hpp"
#include "bitmma/memory/tmem.hpp"

namespace bitmma {
namespace {

/// "d0", or "d1.2" of the second of several instructions.
std::string name_of(const FragmentChain& chain, const ChainElement& element) {
  return chain.instructions == 1 ? fmt::format("d{}", element.element)
                                 : fmt::format("d{}.{}", element.instruction, element.element);
}

/// The order of columns as a layout k -> column, "(2,4,2):(1,2,8)". If no layout has this order, the text is empty.
std::string cute_of(const std::vector<int>& columns) {
  std::vector<int64_t> shape, stride;
  const auto at = [&](size_t i) { return int64_t{columns[i]}; };
  if (columns.empty() || columns[0] != 0) return "";
  for (size_t size = 1; size < columns.size();) {
    const int64_t step = at(size);
    size_t extent = 1;
    while ((extent + 1) * size <= columns.size() && at(extent * size) == static_cast<int64_t>(extent) * step) ++extent;
    shape.push_back(static_cast<int64_t>(extent)), stride.push_back(step);
    size *= extent;
    if (columns.size() % size != 0) return "";
  }
  for (size_t k = 0; k < columns.size(); ++k) {
    int64_t rest = static_cast<int64_t>(k), column = 0;
    for (size_t mode = 0; mode < shape.size(); ++mode) column += rest % shape[mode] * stride[mode], rest /= shape[mode];
    if (column != at(k)) return "";
  }
  return fmt::format("({}):({})", fmt::join(shape, ","), fmt::join(stride, ","));
}

Report report_of(const Instruction& first, const Instruction& second, int k, bool keeps_order, int exchanged) {
  return {{"first", print(first)},
          {"second", print(second)},
          {"k", k},
          {"keeps_order", keeps_order},
          {"exchanged", exchanged}};
}

void add_registers(Report& report, const FragmentChain& chain) {
  std::vector<std::vector<std::string>> table{{"A register", "elements of D, low to high"}};
  report.add("registers", Report::list());
  for (size_t reg = 0; reg < chain.registers.size(); ++reg) {
    std::vector<std::string> names;
    for (const ChainElement& element : chain.registers[reg]) names.push_back(name_of(chain, element));
    report["registers"].append({{"register", reg}, {"elements", names}});
    table.push_back({fmt::format("a{}", reg), fmt::format("{}", fmt::join(names, " "))});
  }
  report.add_text(table);
}

/// What the threads of the first quad must receive, if k keeps its order.
void add_exchange(Report& report, const FragmentChain& chain, const Fragment& d, const Fragment& a) {
  constexpr int threads = 4;
  std::vector<std::vector<std::string>> table{{"thread", "register", "elements of D, low to high"}};
  for (int thread = 0; thread < threads; ++thread) {
    for (int reg = 0; reg < a.registers(); ++reg) {
      std::vector<std::string> names;
      for (int i = 0; i < a.elements_per_register(); ++i) {
        const ChainSource source = source_of(d, a, thread, reg, i * std::min(a.element_bits, 32));
        names.push_back(fmt::format("T{}:{}", source.thread, name_of(chain, source.element)));
      }
      table.push_back({reg == 0 ? fmt::format("T{}", thread) : "", fmt::format("a{}", reg),
                       fmt::format("{}", fmt::join(names, " "))});
    }
  }
  report.add_text(table);
}

ChainReport of_fragments(const Instruction& first, const Instruction& second, const Fragment& d, const Fragment& a) {
  const FragmentChain chain = chain_of(d, a);
  ChainReport result{.keeps_order = chain.keeps_order(),
                     .report = report_of(first, second, chain.k, chain.keeps_order(), chain.exchanged)};
  Report& report = result.report;
  const std::string cute = cute_of(chain.column_of_k);
  report.add("instructions", chain.instructions).add("column_of_k", chain.column_of_k).add("cute", cute);
  report.add_text(fmt::format("D of {}: {} x {}", print(first), d.rows, d.cols));
  report.add_text(fmt::format(
      "A of {}: {} x {}, from {} columns of {}", print(second), a.rows, a.cols, chain.k,
      chain.instructions == 1 ? "one D" : fmt::format("{} D side by side (d0.i, d1.i, ...)", chain.instructions)));
  if (d.cols > a.cols) {
    report.add_text(fmt::format("shown: the first of {} steps along K; step s begins at d{} s", d.cols / a.cols,
                                d.elements_per_register() * d.registers() * a.cols / d.cols));
  }
  if (chain.keeps_order()) {
    report.add_text("\nevery thread holds what it needs, in order: convert and pack its own elements\n", Tone::good);
    add_registers(report, chain);
    return result;
  }
  const int own = a.registers() * a.elements_per_register();
  report.add_text(fmt::format("\nup to {} of the {} elements that a thread needs are in other threads of its quad",
                              chain.exchanged, own),
                  Tone::bad);
  if (!chain.column_of_k.empty()) {
    report.add_text("\n1  without an exchange: every thread packs its own elements, so that A's k is D's column:");
    report.add_text(fmt::format("   k 0..{}: {}", chain.k - 1, fmt::join(chain.column_of_k, " ")));
    if (!cute.empty()) report.add_text(fmt::format("   CuTe, k -> column: {}", cute));
    report.add_text("   The rows of the next B (V) must be in this order: row k of B is row column(k) of V\n");
    add_registers(report, chain);
    report.add_text("\n2  with V as it is: exchange within quads\n");
  } else {
    report.add_text("no order of k lets the threads keep their elements; exchange:\n");
  }
  add_exchange(report, chain, d, a);
  return result;
}

ChainReport of_tensor_memory(const Instruction& first, const Instruction& second, const TmemD& d, const TmemA& a) {
  const Mma before = mma_of(first), after = mma_of(second);
  if (before.m != after.m || before.cta_group != after.cta_group || before.n % after.k != 0) {
    throw Error({.code = ViolationCode::contradiction,
                 .field = "shapes",
                 .seen = fmt::format("D {} x {} of {} CTAs, A {} x {} of {}", before.m, before.n, before.cta_group,
                                     after.m, after.k, after.cta_group),
                 .expected = "the same M and cta_group, and N a multiple of the next K"});
  }
  int exchanged = 0;
  for (int row = 0; row < before.m; ++row) {
    for (int k = 0; k < before.n; ++k) {
      for (int copy = 0; copy < a.copies(); ++copy) {
        const TmemPlace held = d.place_of(row, k), needed = a.place_of(row, k, copy);
        exchanged += held.cta != needed.cta || held.lane != needed.lane;
      }
    }
  }
  const bool agrees = exchanged == 0;
  const int each = 32 / after.a_container_bits;
  ChainReport result{.keeps_order = agrees, .report = report_of(first, second, after.k, agrees, exchanged)};
  Report& report = result.report;
  report.add("lanes_agree", agrees).add("elements_per_register", each);
  report.add_text(fmt::format("D of {}: {} x {}, layout {}, a column of cells for each column", print(first), before.m,
                              before.n, d.layout.name));
  report.add_text(fmt::format("A of {}: {} x {} for each of {}, layout {}, {} in a cell{}", print(second), after.m,
                              after.k, counted(before.n / after.k, "step"), a.layout.name, counted(each, "element"),
                              a.copies() > 1 ? fmt::format(", {} copies", a.copies()) : ""));
  if (agrees) {
    report.add_text("\nrow r is in the same lane in both: no thread needs an element of another thread", Tone::good);
    report.add_text(fmt::format(
        "tcgen05.ld .32x32b.xN, N <= 128, then convert; register j of tcgen05.st .32x32b "
        "packs {}",
        each == 1 ? "register j" : fmt::format("registers {0} j .. {0} j + {1}, low to high", each, each - 1)));
    report.add_text(fmt::format("the {} columns of D become {} columns of A, {} for each instruction", before.n,
                                before.n / each, after.k / each));
    if (info(after.a).bits < after.a_container_bits && after.a_container_bits == 8)
      report.add_text("codes of 4 and 6 bits have bytes of their own (an e2m1 in bits 5:2)");
    return result;
  }
  report.add_text(fmt::format("\n{} of {} elements of A, with all copies, are in other lanes than in D: exchange them "
                              "through shared memory",
                              exchanged, before.m * before.n * a.copies()),
                  Tone::bad);
  return result;
}

}  // namespace

ChainReport describe_chain(const Instruction& first, const Instruction& second) {
  for (const Instruction& instruction : {first, second}) {
    if (is_mma(instruction)) continue;
    throw Error({.code = ViolationCode::wrong_instruction,
                 .field = "instruction",
                 .seen = print(instruction),
                 .expected = "two matrix instructions of one family"});
  }
  if (mma_of(second).sparse) {
    throw Error({.code = ViolationCode::wrong_instruction,
                 .field = "second instruction",
                 .seen = print(second),
                 .expected = "a dense A: a D is not sparse"});
  }
  require_legal(first, default_target(first));
  require_legal(second, default_target(second));
  const ResultAsA from = result_as_a(first), to = result_as_a(second);
  const auto *d = std::get_if<Fragment>(&from.d), *a = std::get_if<Fragment>(&to.a);
  if (d && a && d->threads == a->threads) return of_fragments(first, second, *d, *a);
  if (const auto* d_in_tmem = std::get_if<TmemD>(&from.d)) {
    if (const auto* a_in_tmem = std::get_if<TmemA>(&to.a))
      return of_tensor_memory(first, second, *d_in_tmem, *a_in_tmem);
  }
  throw Error({.code = ViolationCode::contradiction,
               .field = "instructions",
               .seen = fmt::format("{} and {}", print(first), print(second)),
               .expected = "two mma.sync, two wgmma.mma_async or two tcgen05.mma",
               .fix = "between families D moves through shared memory"});
}

}  // namespace bitmma
