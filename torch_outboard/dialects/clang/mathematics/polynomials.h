/*
 * OB_POLYNOMIAL(x, a, b, c ...) is a + b x + c x^2 + ..., by Horner's rule, for up to 30
 * coefficients.
 */
#ifndef OUTBOARD_DIALECT_POLYNOMIALS_H
#define OUTBOARD_DIALECT_POLYNOMIALS_H

#if defined(__FMA__) || defined(__aarch64__) || defined(__riscv_flen)
#define OB_FUSED 1 /* fused products and sums are fast; used where requested */
#else
#define OB_FUSED 0
#endif

/* clang-format off */
#define OB_H1(x, a) ((T)(a))
#define OB_H2(x, a, ...) ob_mad(OB_H1(x, __VA_ARGS__), x, (T)(a))
#define OB_H3(x, a, ...) ob_mad(OB_H2(x, __VA_ARGS__), x, (T)(a))
#define OB_H4(x, a, ...) ob_mad(OB_H3(x, __VA_ARGS__), x, (T)(a))
#define OB_H5(x, a, ...) ob_mad(OB_H4(x, __VA_ARGS__), x, (T)(a))
#define OB_H6(x, a, ...) ob_mad(OB_H5(x, __VA_ARGS__), x, (T)(a))
#define OB_H7(x, a, ...) ob_mad(OB_H6(x, __VA_ARGS__), x, (T)(a))
#define OB_H8(x, a, ...) ob_mad(OB_H7(x, __VA_ARGS__), x, (T)(a))
#define OB_H9(x, a, ...) ob_mad(OB_H8(x, __VA_ARGS__), x, (T)(a))
#define OB_H10(x, a, ...) ob_mad(OB_H9(x, __VA_ARGS__), x, (T)(a))
#define OB_H11(x, a, ...) ob_mad(OB_H10(x, __VA_ARGS__), x, (T)(a))
#define OB_H12(x, a, ...) ob_mad(OB_H11(x, __VA_ARGS__), x, (T)(a))
#define OB_H13(x, a, ...) ob_mad(OB_H12(x, __VA_ARGS__), x, (T)(a))
#define OB_H14(x, a, ...) ob_mad(OB_H13(x, __VA_ARGS__), x, (T)(a))
#define OB_H15(x, a, ...) ob_mad(OB_H14(x, __VA_ARGS__), x, (T)(a))
#define OB_H16(x, a, ...) ob_mad(OB_H15(x, __VA_ARGS__), x, (T)(a))
#define OB_H17(x, a, ...) ob_mad(OB_H16(x, __VA_ARGS__), x, (T)(a))
#define OB_H18(x, a, ...) ob_mad(OB_H17(x, __VA_ARGS__), x, (T)(a))
#define OB_H19(x, a, ...) ob_mad(OB_H18(x, __VA_ARGS__), x, (T)(a))
#define OB_H20(x, a, ...) ob_mad(OB_H19(x, __VA_ARGS__), x, (T)(a))
#define OB_H21(x, a, ...) ob_mad(OB_H20(x, __VA_ARGS__), x, (T)(a))
#define OB_H22(x, a, ...) ob_mad(OB_H21(x, __VA_ARGS__), x, (T)(a))
#define OB_H23(x, a, ...) ob_mad(OB_H22(x, __VA_ARGS__), x, (T)(a))
#define OB_H24(x, a, ...) ob_mad(OB_H23(x, __VA_ARGS__), x, (T)(a))
#define OB_H25(x, a, ...) ob_mad(OB_H24(x, __VA_ARGS__), x, (T)(a))
#define OB_H26(x, a, ...) ob_mad(OB_H25(x, __VA_ARGS__), x, (T)(a))
#define OB_H27(x, a, ...) ob_mad(OB_H26(x, __VA_ARGS__), x, (T)(a))
#define OB_H28(x, a, ...) ob_mad(OB_H27(x, __VA_ARGS__), x, (T)(a))
#define OB_H29(x, a, ...) ob_mad(OB_H28(x, __VA_ARGS__), x, (T)(a))
#define OB_H30(x, a, ...) ob_mad(OB_H29(x, __VA_ARGS__), x, (T)(a))
#define OB_CHOOSE(n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15, n16, n17, n18, n19, n20, n21, n22, n23, n24, n25, n26, n27, n28, n29, n30, n, ...) OB_H##n
#define OB_HORNER(x, ...) \
  OB_CHOOSE(__VA_ARGS__, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)(x, __VA_ARGS__)
#define OB_POLYNOMIAL(x, ...) OB_HORNER(x, __VA_ARGS__)
#define OB_FIRST_OF(a, ...) a
#define OB_FIRST(...) OB_FIRST_OF(__VA_ARGS__)
#define OB_FOLLOWING_OF(a, ...) __VA_ARGS__
#define OB_FOLLOWING(...) OB_FOLLOWING_OF(__VA_ARGS__)
/* clang-format on */

#endif
