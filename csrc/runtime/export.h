// Visibility of the C++ interface: everything is hidden unless marked.
#pragma once

#if defined(OUTBOARD_BUILDING)
#define OUTBOARD_API __attribute__((visibility("default")))
#else
#define OUTBOARD_API
#endif
