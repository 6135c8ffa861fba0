/*
 * Reductions of arrays in memory of the host, for drivers that communicate through such memory. A
 * driver compiles this folder into its own library.
 */
#ifndef OUTBOARD_DRIVERS_COMMUNICATION_REDUCTIONS_H
#define OUTBOARD_DRIVERS_COMMUNICATION_REDUCTIONS_H

#include <outboard/driver.h>
#include <stdbool.h>

/* out[i] = the reduction of parts[0][i], parts[1][i] ... in this order, each of `count` elements of
 * the dtype bit; `out` may be parts[0]. Integers wrap around, floating point of 16 bits is computed
 * with as float32. False for a dtype and a reduction that do not go together, and with `count` 0
 * this is all that happens. */
bool reduce_parts(uint32_t dtype, ob_reduction reduction, void* out, const void* const* parts,
                  uint32_t ranks, uint64_t count);

#endif /* OUTBOARD_DRIVERS_COMMUNICATION_REDUCTIONS_H */
