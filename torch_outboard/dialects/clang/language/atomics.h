/* Atomic functions of OpenCL C 1.2, and their old names; relaxed, as in OpenCL. */
#ifndef OUTBOARD_DIALECT_ATOMICS_H
#define OUTBOARD_DIALECT_ATOMICS_H

/* Names: atomic_* for 32 bits; atom_* also for 64 bits (cl_khr_int64_base_atomics). */
#define OB_ATOMIC_NAMES(T, PREFIX)                                                         \
  OB_FUNCTION T PREFIX##add(volatile T* p, T v) { return __atomic_fetch_add(p, v, 0); }    \
  OB_FUNCTION T PREFIX##sub(volatile T* p, T v) { return __atomic_fetch_sub(p, v, 0); }    \
  OB_FUNCTION T PREFIX## and (volatile T * p, T v) { return __atomic_fetch_and(p, v, 0); } \
  OB_FUNCTION T PREFIX## or (volatile T * p, T v) { return __atomic_fetch_or(p, v, 0); }   \
  OB_FUNCTION T PREFIX## xor (volatile T * p, T v) {                                       \
    return __atomic_fetch_xor(p, v, 0);                                                    \
  } OB_FUNCTION T PREFIX##inc(volatile T* p) {                                             \
    return __atomic_fetch_add(p, (T)1, 0);                                                 \
  }                                                                                        \
  OB_FUNCTION T PREFIX##dec(volatile T* p) { return __atomic_fetch_sub(p, (T)1, 0); }      \
  OB_FUNCTION T PREFIX##xchg(volatile T* p, T v) { return __atomic_exchange_n(p, v, 0); }  \
  OB_FUNCTION T PREFIX##cmpxchg(volatile T* p, T expected, T desired) {                    \
    __atomic_compare_exchange_n(p, &expected, desired, 0, 0, 0);                           \
    return expected;                                                                       \
  }                                                                                        \
  OB_FUNCTION T PREFIX##min(volatile T* p, T v) {                                          \
    T old = __atomic_load_n(p, 0);                                                         \
    while (v < old && !__atomic_compare_exchange_n(p, &old, v, 0, 0, 0)) {                 \
    }                                                                                      \
    return old;                                                                            \
  }                                                                                        \
  OB_FUNCTION T PREFIX##max(volatile T* p, T v) {                                          \
    T old = __atomic_load_n(p, 0);                                                         \
    while (old < v && !__atomic_compare_exchange_n(p, &old, v, 0, 0, 0)) {                 \
    }                                                                                      \
    return old;                                                                            \
  }
#define OB_ATOMIC(T) OB_ATOMIC_NAMES(T, atomic_) OB_ATOMIC_NAMES(T, atom_)
OB_ATOMIC(int)
OB_ATOMIC(uint)
OB_ATOMIC(long)
OB_ATOMIC(ulong)

OB_FUNCTION float atomic_xchg(volatile float* p, float v) {
  return __builtin_astype(atomic_xchg((volatile uint*)p, __builtin_astype(v, uint)), float);
}

#endif
