// Modules as one.
#include "driver/link_ptx.hpp"

#include "bitmma/kernel/kernel.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using namespace bitmma::driver;

namespace {

const std::string caller = R"(// a comment; with { braces
.version 8.0
.target sm_90a
.address_size 64
	.file	1 "caller.cu"
.extern .func (.param .b32 result) increment
(
	.param .b32 x
)
;
.extern .global .align 4 .u32 shared_counter;
.weak .global .align 4 .b8 twice[8] = {1, 0, 0, 0, 2, 0, 0, 0};
.visible .entry run(.param .u64 out)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<2>;
	ld.param.u64 	%rd1, [out];
	ld.global.u32 	%r1, [shared_counter];
	{ // call
	.param .b32 param0;
	st.param.b32 	[param0], %r1;
	.param .b32 retval0;
	call.uni (retval0), increment, (param0);
	ld.param.b32 	%r2, [retval0];
	}
	ld.global.u32 	%r3, [twice+4];
	add.u32 	%r2, %r2, %r3;
	st.global.u32 	[%rd1], %r2;
	ret;
}
.section .debug_str { .b8 46 }
)";

const std::string callee = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 shared_counter = 40;
.weak .global .align 4 .b8 twice[8] = {1, 0, 0, 0, 2, 0, 0, 0};
.visible .func (.param .b32 result) increment(.param .b32 x)
{
	.reg .b32 %r<3>;
	ld.param.u32 	%r1, [x];
	add.u32 	%r2, %r1, 1;
	st.param.b32 	[result], %r2;
	ret;
}
)";

uint32_t run(const std::string& ptx) {
  std::vector<uint8_t> out(4);
  const PtxEntry kernel(ptx, {.entry = "run"});
  (void)launch(kernel, {.arguments = {memory_argument(out, true)}});
  return static_cast<uint32_t>(out[0]) | static_cast<uint32_t>(out[1]) << 8;
}

}  // namespace

TEST_CASE("a module runs what another one defines, in either order") {
  CHECK(run(join_ptx({caller, callee})) == 43);
  CHECK(run(join_ptx({callee, caller})) == 43);
}

TEST_CASE("a variable that holds the address of a function may be in another module than the function") {
  const std::string table = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .func (.param .b32 result) plus(.param .b32 x)
{
	.reg .b32 %r<3>;
	ld.param.u32 	%r1, [x];
	add.u32 	%r2, %r1, 5;
	st.param.b32 	[result], %r2;
	ret;
}
.visible .global .align 8 .u64 table[1] = {plus};
)";
  const std::string caller_by_address = R"(.version 9.0
.target sm_90a
.address_size 64
.extern .global .align 8 .u64 table[1];
.visible .entry run(.param .u64 out)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<3>;
	ld.param.u64 	%rd1, [out];
	ld.global.u64 	%rd2, [table];
	mov.u32 	%r1, 37;
	{
	.param .b32 param0;
	st.param.b32 	[param0], %r1;
	.param .b32 retval0;
	prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _);
	call (retval0), %rd2, (param0), prototype_0;
	ld.param.b32 	%r2, [retval0];
	}
	st.global.u32 	[%rd1], %r2;
	ret;
}
)";
  CHECK(run(join_ptx({caller_by_address, table})) == 42);
  CHECK(run(join_ptx({table, caller_by_address})) == 42);
}

TEST_CASE("joined modules have one header, each weak variable once, and no debug sections") {
  const std::string joined = join_ptx({caller, callee});
  CHECK(joined.starts_with(".version 9.0\n.target sm_90a\n.address_size 64\n"));
  const auto count = [&](const std::string& text) {
    int found = 0;
    for (size_t at = joined.find(text); at != std::string::npos; at = joined.find(text, at + 1)) ++found;
    return found;
  };
  CHECK(count(".version") == 1);
  CHECK(count("twice[8]") == 1);
  CHECK(count(".extern") == 0);
  CHECK(count(".section") == 0);
  CHECK(count(".file") == 0);
}
