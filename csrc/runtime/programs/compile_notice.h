// One line on the standard error stream that says why a process waits: it compiles kernels.
#pragma once

#include <chrono>

namespace outboard {

// To be called after each build of a program. After seconds of builds that follow one another, with
// what is compiled between them at first launches, it prints the line, once per process.
// `OUTBOARD_COMPILE_NOTICE` is the number of seconds: 3 by default, 0 for never.
void note_build(std::chrono::steady_clock::time_point begin) noexcept;

}  // namespace outboard
