// A libcuda.so.1 that has one of the driver's calls and lacks the others.
extern "C" int cuInit(unsigned) { return 0; }
