#include "ptx_interpreter.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "bitmma/formats/ieee.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/math/math_instruction.hpp"

namespace bitmma::test {
namespace {

// Where things lie in the thread's small memory.
constexpr uint64_t parameters_at = 64, words_at = 128, symbols_at = 256, memory_bytes = 1024;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

float as_float(uint64_t word, bool ftz) {
  if (ftz && (word & 0x7F800000) == 0) word &= 0x80000000;
  return std::bit_cast<float>(static_cast<uint32_t>(word));
}
uint64_t as_word(float x, bool ftz) {
  const auto word = std::bit_cast<uint32_t>(x);
  return ftz && (word & 0x7F800000) == 0 ? word & 0x80000000 : word;
}

template <typename T>
bool compare(const std::string& how, T a, T b) {
  if (how == "eq") return a == b;
  if (how == "ne") return a != b && a == a && b == b;
  if (how == "lt") return a < b;
  if (how == "le") return a <= b;
  if (how == "gt") return a > b;
  if (how == "ge") return a >= b;
  if (how == "num") return a == a && b == b;
  if (how == "nan") return !(a == a && b == b);
  if (how.size() == 3 && how[2] == 'u') return !(a == a && b == b) || compare(how.substr(0, 2), a, b);
  throw std::runtime_error("setp." + how);
}

uint64_t integer_to_float(Format format, int64_t value) {
  const bool negative = value < 0;
  return round_to(format, {.negative = negative, .magnitude = negative ? 0 - uint64_t(value) : uint64_t(value)},
                  Rounding::nearest_even);
}

}  // namespace

std::vector<std::string> PtxKernel::entries(const std::string& module) {
  std::vector<std::string> entries;
  const std::regex entry(R"(\.entry\s+(\w+))");
  for (std::sregex_iterator i(module.begin(), module.end(), entry), end; i != end; ++i) entries.push_back((*i)[1]);
  return entries;
}

PtxKernel::PtxKernel(const std::string& module, const std::string& entry, int operands)
    : memory_(memory_bytes), operands_(static_cast<size_t>(operands)) {
  uint64_t free_at = symbols_at;
  const std::regex bytes(R"(\.global .*\.b8 ([\w$]+)\[(\d+)\] = \{([^}]*)\})");
  for (std::sregex_iterator i(module.begin(), module.end(), bytes), end; i != end; ++i) {
    symbols_[(*i)[1]] = free_at;
    for (const std::string& byte : split((*i)[3], ',')) memory_.at(free_at++) = static_cast<uint8_t>(std::stoi(byte));
    free_at = (free_at + 15) & ~uint64_t{15};
  }
  std::istringstream lines(module.substr(module.find(".entry " + entry + "(")));
  std::map<std::string, int> labels;
  std::vector<std::string> targets;
  std::smatch match;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find("//"));
    if (!inside && std::regex_search(line, match, std::regex(R"(\.param \.\w+ .*?(\w+_param_\d+))"))) {
      symbols_[match[1]] = parameters_at + 8 * parameters_++;
    } else if (std::regex_search(line, match, std::regex(R"(\.local .*\.b8\s+(\w+)\[(\d+)\])"))) {
      symbols_[match[1]] = free_at;
      free_at += 64;
    } else if (line.starts_with("{")) {
      inside = true;
    } else if (line.starts_with("}")) {
      break;
    } else if (inside) {
      read_line(line, labels, targets);
    }
  }
  for (size_t i = 0, next = 0; i < steps_.size(); ++i) {
    if (steps_[i].kind == Step::branch) steps_[i].target = labels.at(targets.at(next++));
  }
  values_.resize(registers_.size());
}

int PtxKernel::register_of(const std::string& name) {
  return registers_.emplace(name, static_cast<int>(registers_.size())).first->second;
}

PtxKernel::Operand PtxKernel::operand_of(std::string text) {
  std::erase_if(text, [](char c) { return c == '{' || c == '}' || c == '[' || c == ']' || c == ' ' || c == '\t'; });
  if (text.starts_with("0f")) return {.value = std::stoull(text.substr(2), nullptr, 16)};
  if (text.starts_with("0d")) return {.value = std::stoull(text.substr(2), nullptr, 16)};
  if (text == "%ctaid.x" || text == "%tid.x" || text == "%ntid.x") return {};  // thread 0 of block 0
  if (text.starts_with('%') || text.find_first_not_of("-0123456789xabcdefABCDEF") != std::string::npos) {
    const size_t plus = text.find('+');
    const std::string base = text.substr(0, plus);
    const uint64_t offset = plus == std::string::npos ? 0 : static_cast<uint64_t>(std::stoll(text.substr(plus + 1)));
    if (base.starts_with('%')) return {.reg = register_of(base), .value = offset};
    return {.value = symbols_.at(base) + offset};
  }
  return {.value = static_cast<uint64_t>(std::stoll(text, nullptr, 0))};
}

void PtxKernel::read_line(std::string line, std::map<std::string, int>& labels, std::vector<std::string>& targets) {
  const size_t first = line.find_first_not_of(" \t{}");
  if (first == std::string::npos) return;
  line = line.substr(first);
  if (line[0] == '$') {
    labels[line.substr(0, line.find(':'))] = static_cast<int>(steps_.size());
    return;
  }
  if (line[0] == '.') return;
  Step step;
  if (line[0] == '@') {
    const size_t end = line.find(' ');
    step.negated = line[1] == '!';
    step.predicate = register_of(line.substr(step.negated ? 2 : 1, end - (step.negated ? 2 : 1)));
    line = line.substr(end + 1);
  }
  line = line.substr(0, line.find(';'));
  const size_t end = line.find_first_of(" \t");
  const std::string opcode = line.substr(0, end);
  const std::vector<std::string> operands =
      end == std::string::npos ? std::vector<std::string>() : split(line.substr(end + 1), ',');
  if (opcode == "ret") {
    step.kind = Step::leave;
  } else if (opcode.starts_with("bra")) {
    step.kind = Step::branch;
    std::string label = operands.at(0);
    std::erase_if(label, [](char c) { return c == ' ' || c == '\t'; });
    targets.push_back(label);
  } else {
    step.kind = opcode.starts_with("ld.") ? Step::load : opcode.starts_with("st.") ? Step::store : Step::compute;
    step.bytes = opcode.ends_with("64") ? 8 : 4;
    if (step.kind == Step::compute) step.function = function_of(opcode);
    for (const std::string& operand : operands) step.operands.push_back(operand_of(operand));
    if (step.kind != Step::store) {
      step.result = step.operands.at(0).reg;
      step.operands.erase(step.operands.begin());
    }
  }
  steps_.push_back(step);
}

std::function<uint64_t(const uint64_t*)> PtxKernel::function_of(const std::string& opcode) {
  const std::vector<std::string> parts = split(opcode, '.');
  // cvt names the type that it makes, then the one that it takes.
  const std::string &name = parts[0], &type = name == "cvt" ? parts[parts.size() - 2] : parts.back();
  const auto has = [&](const char* part) { return std::ranges::find(parts, part) != parts.end(); };
  const bool ftz = has("ftz"), wide = type.ends_with("64"), is_signed = type[0] == 's';
  const uint64_t mask = type == "pred" ? 1 : wide ? ~uint64_t{0} : 0xFFFFFFFF;
  const int bits = wide ? 64 : 32;
  const auto extended = [is_signed, wide](uint64_t x) {
    return is_signed && !wide ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(x)}) : x;
  };
  if (type == "f64" && name == "mul") return [](const uint64_t* s) { return ieee_mul(Format::f64, s[0], s[1]); };
  if (type == "f32" && name != "cvt" && name != "mov" && name != "selp" && name != "setp") {
    if (name == "neg") return [](const uint64_t* s) { return s[0] ^ 0x80000000; };
    if (name == "abs") return [ftz](const uint64_t* s) { return as_word(as_float(s[0] & 0x7FFFFFFF, ftz), ftz); };
    if (name == "copysign") return [](const uint64_t* s) { return (s[0] & 0x80000000) | (s[1] & 0x7FFFFFFF); };
    return [instruction = parse_math_instruction(opcode)](const uint64_t* s) {
      return compute(instruction, s[0], s[1], s[2]);
    };
  }
  if (name == "setp") {
    const std::string& how = parts[1];
    if (type == "f32")
      return
          [how, ftz](const uint64_t* s) -> uint64_t { return compare(how, as_float(s[0], ftz), as_float(s[1], ftz)); };
    return [how, is_signed, extended, mask](const uint64_t* s) -> uint64_t {
      const uint64_t a = extended(s[0] & mask), b = extended(s[1] & mask);
      return is_signed ? compare(how, static_cast<int64_t>(a), static_cast<int64_t>(b)) : compare(how, a, b);
    };
  }
  if (name == "cvt") {
    const std::string& from = parts.back();
    if (from == "f32" && type == "f32" && has("sat"))
      return [](const uint64_t* s) {
        const float x = as_float(s[0], false);
        return as_word(x > 0 ? std::min(x, 1.0F) : 0.0F, false);
      };
    if (from == "f32") {
      const auto whole = [rni = has("rni"), rzi = has("rzi"), rmi = has("rmi"), opcode](float x) {
        if (rni) return std::nearbyint(x);
        if (rzi) return std::trunc(x);
        if (rmi) return std::floor(x);
        throw std::runtime_error(opcode);
      };
      if (type == "f32") return [whole, ftz](const uint64_t* s) { return as_word(whole(as_float(s[0], ftz)), ftz); };
      return [whole, ftz](const uint64_t* s) -> uint64_t {
        const float x = whole(as_float(s[0], ftz));
        if (x != x) return 0;
        return static_cast<uint32_t>(static_cast<int32_t>(std::clamp<double>(x, -2147483648.0, 2147483647.0)));
      };
    }
    if (type == "f32" && from == "f64")
      return [](const uint64_t* s) {
        return convert(Format::f64, s[0], Format::f32, Rounding::nearest_even, Overflow::infinity);
      };
    if (type[0] == 'f') {
      const Format format = wide ? Format::f64 : Format::f32;
      if (from == "s32") return [format](const uint64_t* s) { return integer_to_float(format, int32_t(s[0])); };
      if (from == "u32") return [format](const uint64_t* s) { return integer_to_float(format, uint32_t(s[0])); };
      if (from == "s64") return [format](const uint64_t* s) { return integer_to_float(format, int64_t(s[0])); };
    }
    if (from == "s32")
      return [mask](const uint64_t* s) { return static_cast<uint64_t>(int64_t{int32_t(s[0])}) & mask; };
    if (from == "u32" || from == "u64")
      return [mask, from](const uint64_t* s) { return (from == "u32" ? s[0] & 0xFFFFFFFF : s[0]) & mask; };
  }
  if (name == "mov" || name == "cvta") return [mask](const uint64_t* s) { return s[0] & mask; };
  if (name == "selp") return [](const uint64_t* s) { return s[2] & 1 ? s[0] : s[1]; };
  if (name == "add") return [mask](const uint64_t* s) { return (s[0] + s[1]) & mask; };
  if (name == "sub") return [mask](const uint64_t* s) { return (s[0] - s[1]) & mask; };
  if (name == "neg") return [mask](const uint64_t* s) { return (0 - s[0]) & mask; };
  if (name == "and") return [mask](const uint64_t* s) { return s[0] & s[1] & mask; };
  if (name == "or") return [mask](const uint64_t* s) { return (s[0] | s[1]) & mask; };
  if (name == "xor") return [mask](const uint64_t* s) { return (s[0] ^ s[1]) & mask; };
  if (name == "not") return [mask](const uint64_t* s) { return ~s[0] & mask; };
  if (name == "shl")
    return
        [mask, bits](const uint64_t* s) { return (s[1] & 0xFFFFFFFF) >= uint64_t(bits) ? 0 : (s[0] << s[1]) & mask; };
  if (name == "shr" && !is_signed)
    return
        [mask, bits](const uint64_t* s) { return (s[1] & 0xFFFFFFFF) >= uint64_t(bits) ? 0 : (s[0] & mask) >> s[1]; };
  if (opcode == "shr.s32")
    return [](const uint64_t* s) -> uint64_t {
      return static_cast<uint32_t>(static_cast<int32_t>(s[0]) >> std::min<uint64_t>(s[1], 31));
    };
  if (opcode == "shf.l.wrap.b32")
    return [](const uint64_t* s) { return ((s[1] << 32 | (s[0] & 0xFFFFFFFF)) << (s[2] & 31)) >> 32; };
  if (opcode == "mad.lo.s32") return [](const uint64_t* s) { return (s[0] * s[1] + s[2]) & 0xFFFFFFFF; };
  if (name == "mul" && has("wide")) return [extended](const uint64_t* s) { return extended(s[0]) * extended(s[1]); };
  if (name == "mad" && has("wide"))
    return [extended](const uint64_t* s) { return extended(s[0]) * extended(s[1]) + s[2]; };
  if (opcode == "mad.lo.cc.u32")
    return [this](const uint64_t* s) {
      const uint64_t sum = ((s[0] * s[1]) & 0xFFFFFFFF) + s[2];
      carry_ = sum >> 32;
      return sum & 0xFFFFFFFF;
    };
  if (opcode == "madc.hi.u32")
    return [this](const uint64_t* s) { return ((s[0] * s[1] >> 32) + s[2] + carry_) & 0xFFFFFFFF; };
  if (opcode == "bfi.b64")  // 32 bits into the upper half
    return [](const uint64_t* s) {
      if (s[2] != 32 || s[3] != 32) throw std::runtime_error("bfi.b64 of another place");
      return s[0] << 32 | (s[1] & 0xFFFFFFFF);
    };
  throw std::runtime_error("PTX instruction " + opcode);
}

uint8_t* PtxKernel::memory_at(uint64_t address, int bytes) {
  if (address + static_cast<uint64_t>(bytes) > memory_.size()) throw std::runtime_error("address beyond the memory");
  return memory_.data() + address;
}

uint32_t PtxKernel::run(uint32_t a, uint32_t b) {
  std::ranges::fill(values_, 0);
  // Each parameter points to a word of its own; what a compiler adds behind the results stays null.
  for (size_t i = 0; i <= operands_; ++i) {
    const uint64_t address = words_at + 8 * i;
    const uint32_t word = i == operands_ ? 0 : i == 0 ? a : b;
    std::memcpy(memory_at(parameters_at + 8 * i, 8), &address, 8);
    std::memcpy(memory_at(address, 4), &word, 4);
  }
  uint64_t sources[4];
  for (size_t at = 0;;) {
    const Step& step = steps_.at(at++);
    if (step.predicate >= 0 && (values_[static_cast<size_t>(step.predicate)] & 1) == (step.negated ? 1 : 0)) continue;
    if (step.kind == Step::leave) break;
    if (step.kind == Step::branch) {
      at = static_cast<size_t>(step.target);
      continue;
    }
    const auto value_of = [this](const Operand& o) {
      return o.reg < 0 ? o.value : values_[static_cast<size_t>(o.reg)] + o.value;
    };
    std::ranges::fill(sources, 0);
    for (size_t i = 0; i < step.operands.size(); ++i) sources[i] = value_of(step.operands[i]);
    if (step.kind == Step::store) {
      std::memcpy(memory_at(sources[0], step.bytes), &sources[1], static_cast<size_t>(step.bytes));
      continue;
    }
    uint64_t value = 0;
    if (step.kind == Step::load) {
      std::memcpy(&value, memory_at(sources[0], step.bytes), static_cast<size_t>(step.bytes));
    } else {
      value = step.function(sources);
    }
    values_[static_cast<size_t>(step.result)] = value;
  }
  uint32_t result = 0;
  std::memcpy(&result, memory_at(words_at + 8 * operands_, 4), 4);
  return result;
}

}  // namespace bitmma::test
