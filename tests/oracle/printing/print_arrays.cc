// Prints arrays that come on stdin. Each: a line "str|repr DTYPE WEAK DIM...", then the bytes. Answers with a line that
// holds the length of the text, then the text.
#include <cstdio>
#include <iostream>
#include <sstream>

#include "lockstep/numpy/printing.h"
#include "lockstep/runtime/transfer.h"

int main() {
  using namespace lockstep;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string form, dtype;
    bool weak;
    words >> form >> dtype >> weak;
    Shape shape;
    for (std::int64_t d; words >> d;) shape.push_back(d);
    AvalP aval = make_aval(shape, dtype_from_name(dtype), weak);
    std::string bytes(aval->bytes(), '\0');
    std::cin.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    Array a(runtime::make_concrete(aval, {.data = bytes.data()}));
    std::string text = form == "str" ? to_string(a) : numpy::array_repr(a);
    std::cout << text.size() << '\n' << text << std::flush;
  }
}
