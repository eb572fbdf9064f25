#include "program.h"

int main(int argc, char** argv) { return tpplan::program_main(argc, argv); }
