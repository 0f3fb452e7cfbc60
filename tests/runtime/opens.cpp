// Prints the path of the library that dlopen gives for the first argument.
#include <dlfcn.h>
#include <link.h>

#include <cstdio>

int main(int, char** arguments) {
  void* const library = dlopen(arguments[1], RTLD_NOW);
  const link_map* map = nullptr;
  if (library) dlinfo(library, RTLD_DI_LINKMAP, &map);
  std::puts(map ? map->l_name : "none");
}
