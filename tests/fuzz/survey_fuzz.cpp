// Reports of surveys: metadata and results of anybody. A report that is read makes a file that reads the same, and its
// findings end.
#include "bitmma/hardware/survey.hpp"
#include "fuzz.hpp"
#include "raw_file.hpp"

