#ifdef BITMMA_TESTS_NEED_MAIN
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
