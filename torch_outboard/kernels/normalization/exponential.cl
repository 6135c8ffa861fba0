// exp_value(V) and exp_vector(T): exp within 2 ulp. CPU compilers' exp() of float vectors takes
// several times as long. Subnormal results become 0.

#if OB_GPU || defined(OB_DOUBLE)
#define exp_value(x) exp(x)
#define exp_vector(x) ob_exp(x)
#else
#define DEFINE_EXP(name, type, bits)                                        \
  static inline type name(const type x) {                                   \
    /* Adding 1.5 * 2^23 rounds to an integer, which its low bits then hold. */ \
    const type shifted = x * (type)(1.44269504f) + (type)(12582912.0f);     \
    const type n = shifted - (type)(12582912.0f);                           \
    const type r = (x - n * (type)(0.693359375f)) + n * (type)(2.12194440e-4f); \
    type p = (type)(1.9875691500e-4f);                                      \
    p = p * r + (type)(1.3981999507e-3f);                                   \
    p = p * r + (type)(8.3334519073e-3f);                                   \
    p = p * r + (type)(4.1665795894e-2f);                                   \
    p = p * r + (type)(1.6666665459e-1f);                                   \
    p = p * r + (type)(5.0000001201e-1f);                                   \
    p = p * (r * r) + r + (type)(1.0f);                                     \
    const bits power = (__builtin_astype(shifted, bits) << 23) + (bits)(0x3f800000); \
    const type y = p * __builtin_astype(power, type);                       \
    return x < (type)(-87.33f) ? (type)(0.0f)                               \
                               : (x > (type)(88.37f) ? (type)(INFINITY) : y); \
  }
DEFINE_EXP(exp_value, V, int)
#if W > 1
DEFINE_EXP(exp_vector, T, M)
#else
#define exp_vector(x) exp_value(x)
#endif
#endif
